"""Indices that sort a dimension, computed by comparing all pairs of its elements.

    %r = sum over k of (%x[k] comes before %x[j])      the rank of each element
    %i = sum over k of (%r[k] == p ? k : 0)            the index of the element of rank p

Recognized is the meaning: the comparison is evaluated for each order in which two elements and
their indices can be. That is exhaustive: all that it reads of them is compared with each other.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping

from iree.compiler import ir

from mlirfuse.structured.ir import ops, slices

ROOT = "linalg.generic"
"""The op that computes the indices: a sum along the sorted dimension."""

Number = int | float | bool


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """Indices of the first elements of a sorted dimension, NaN being the largest number.

    Equal elements stay in their order; the two zeros are equal.

    Attributes:
      root: the op whose result is the indices, i32.
      group: the ops that compute them from the source, in block order, with the root.
      source: the tensor that is sorted.
      dimension: its dimension that is sorted.
      axes: for each dimension of the source that of the result; for the sorted one that along which
        the indices are.
      descending: whether the largest element comes first.
    """

    root: ir.Operation
    group: tuple[ir.Operation, ...]
    source: ir.Value
    dimension: int
    axes: tuple[int, ...]
    descending: bool

    @property
    def count(self) -> int:
        """The number of indices in each row."""
        return ops.shape(self.root.results[0])[self.axes[self.dimension]] or 0


class _Other(Exception):
    """The ops compute something else."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Leaf:
    """An element of a tensor at an index in loops of a sum."""

    value: ir.Value
    index: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Call:
    """A scalar op."""

    name: str
    predicate: int
    operands: tuple[_Node, ...]


_Node = _Leaf | _Call | int

_FLOATS: dict[int, Callable[[Number, Number], bool]] = {
    1: lambda a, b: a == b,
    2: lambda a, b: a > b,
    3: lambda a, b: a >= b,
    4: lambda a, b: a < b,
    5: lambda a, b: a <= b,
    7: lambda a, b: a == a and b == b,
    13: lambda a, b: a != b,
    14: lambda a, b: a != a or b != b,
}
"""Predicates of `arith.cmpf`."""

_INTEGERS: dict[int, Callable[[Number, Number], bool]] = {
    0: lambda a, b: a == b,
    1: lambda a, b: a != b,
    2: lambda a, b: a < b,
    3: lambda a, b: a <= b,
    4: lambda a, b: a > b,
    5: lambda a, b: a >= b,
}
"""Predicates of `arith.cmpi` that do not take their operands as unsigned."""

_COMPARISONS = {"arith.cmpf": _FLOATS, "arith.cmpi": _INTEGERS}

_BITWISE: dict[str, Callable[[int, int], int]] = {
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
}


_LOGIC = frozenset({*_BITWISE, "arith.select", "arith.extui"})
"""Ops of truth values."""


def order(root: ir.Operation) -> Order | None:
    """Reads the sum that computes the indices; None for any other op."""
    try:
        return _order(root)
    except _Other:
        return None


def _order(root: ir.Operation) -> Order:
    found = _Sum(root)
    if ops.element_type(root.results[0]) != "i32":
        raise _Other
    match found.summand:
        case _Call("arith.select", _, (_Call("arith.cmpi", 0, (_Leaf() as a, _Leaf() as b)), i, 0)):
            if not isinstance(i, _Leaf) or i.index != (found.reduced,) or not _counts(i.value):
                raise _Other
        case _:
            raise _Other
    rank, position = (a, b) if len(b.index) == 1 and _counts(b.value) else (b, a)
    if not _counts(position.value) or len(position.index) != 1 or not isinstance(rank, _Leaf):
        raise _Other
    made = ops.defining_op(rank.value)
    if made is None or made.block != root.block:
        raise _Other
    ranks = _Sum(made)
    source, dimension, element, descending = _ranked(ranks)
    loops = dict(zip(ranks.result, rank.index, strict=True))
    loops[ranks.reduced] = -1
    if loops.get(element) != found.reduced:
        raise _Other
    loops[element] = position.index[0]
    if sorted(loops[loop] for loop in ranks.result) != sorted(found.result):
        raise _Other
    axes = tuple(found.result.index(loops[loop]) for loop in source.index)
    members = {**ranks.members, **found.members, made: None, root: None}
    if any(op.block != root.block for op in members):
        raise _Other
    return Order(root, tuple(slices.in_order(members)), source.value, dimension, axes, descending)


class _Sum:
    """A sum along one loop.

    Attributes:
      reduced: the loop.
      result: the loops of the result's dimensions.
      summand: the elements that are added up.
      members: the ops that compute it, without the sum.
    """

    def __init__(self, op: ir.Operation) -> None:
        if not ops.is_generic(op) or len(op.operands) != 2 or len(op.results) != 1:
            raise _Other
        kinds = ops.iterator_types(op)
        if kinds.count("reduction") != 1 or None in ops.indexing_maps(op):
            raise _Other
        if ops.constant(op.operands[1]) != 0 or any(None in ops.shape(v) for v in op.operands):
            raise _Other
        block = op.regions[0].blocks[0]
        body = [view.operation for view in block.operations]
        if len(body) != 2 or body[0].name != "arith.addi" or body[1].operands[0].owner != body[0]:
            raise _Other
        if {v.arg_number for v in body[0].operands if isinstance(v, ir.BlockArgument)} != {0, 1}:
            raise _Other
        self.reduced = kinds.index("reduction")
        index, result = ops.plain_maps(op)
        self.result = _loops(result)
        self._loops = len(kinds)
        self.members: dict[ir.Operation, None] = {}
        self.summand = self._element(op.operands[0], _loops(index))

    def _element(self, value: ir.Value, index: tuple[int, ...]) -> _Node:
        """An element, expanded as far as it is of a pair of elements, or a truth value."""
        number = ops.constant(value)
        if number is not None:
            return _integer(number)
        pair = len(index) == self._loops
        op = ops.defining_op(value)
        if op is None or not ops.is_elementwise(op) or len(op.results) != 1:
            return _Leaf(value, index)
        if ops.element_type(value) != "i1" and not pair:
            return _Leaf(value, index)
        if None in ops.indexing_maps(op):
            raise _Other
        *maps, result = ops.plain_maps(op)
        loops = dict(zip(_loops(result), index, strict=True))
        self.members[op] = None
        known: dict[ir.Value, _Node] = {}
        block = op.regions[0].blocks[0]
        for argument, operand, read in zip(block.arguments, op.operands, maps, strict=False):
            known[argument] = self._element(operand, tuple(loops[n] for n in _loops(read)))
        return _scalar(block, known)


def _loops(index: ops.IndexMap) -> tuple[int, ...]:
    if None in index or len(set(index)) != len(index):
        raise _Other
    return tuple(loop for loop in index if loop is not None)


def _integer(number: float) -> int:
    if not float(number).is_integer():  # a NaN, as in a count of those
        raise _Other
    return int(number)


def _scalar(block: ir.Block, known: dict[ir.Value, _Node]) -> _Node:
    """The value that a body yields."""
    for op in (view.operation for view in block.operations):
        operands = []
        for value in op.operands:
            if value in known:
                operands.append(known[value])
                continue
            number = ops.constant(value)
            if number is None:
                raise _Other
            operands.append(_integer(number))
        if op.name == "linalg.yield":
            return operands[0]
        if op.name == "arith.constant":
            continue
        predicate = -1
        if op.name in _COMPARISONS:
            predicate = int(op.attributes["predicate"].value)
        elif op.name not in _LOGIC or str(op.operands[0].type) != "i1":
            raise _Other
        known[op.results[0]] = _Call(op.name, predicate, tuple(operands))
    raise _Other


def _counts(value: ir.Value) -> bool:
    """Whether a tensor of one dimension holds the index of each element."""
    op = ops.defining_op(ops.initializer_value(value) or value)
    if op is None or len(ops.shape(op.results[0])) != 1:
        return False
    if op.name == "arith.constant":
        held = ir.DenseIntElementsAttr(op.attributes["value"])
        return not held.is_splat and list(held) == list(range(len(held)))
    if not ops.is_elementwise(op) or None in ops.indexing_maps(op):
        return False
    *body, end = [view.operation for view in op.regions[0].blocks[0].operations]
    value = end.operands[0]
    for inner in reversed(body):
        if inner.name == "linalg.index":
            return value == inner.results[0] and len(op.operands) == 1
        if inner.name not in ("arith.index_cast", "arith.trunci") or value != inner.results[0]:
            return False
        value = inner.operands[0]
    plain = ops.plain_maps(op) == ((0,), (0,))
    return plain and value == op.regions[0].blocks[0].arguments[0] and _counts(op.operands[0])


def _ranked(ranks: _Sum) -> tuple[_Leaf, int, int, bool]:
    """The element that is ranked, its sorted dimension, its loop, and whether in descending order.

    Raises:
      _Other: the sum is not the rank.
    """
    leaves = dict.fromkeys(_leaves(ranks.summand))
    positions = {leaf for leaf in leaves if len(leaf.index) == 1 and _counts(leaf.value)}
    this = [n for n in leaves if n not in positions and ranks.reduced not in n.index]
    other = [n for n in leaves if n not in positions and ranks.reduced in n.index]
    if len(this) != 1 or len(other) != 1 or this[0].value != other[0].value:
        raise _Other
    (one,), (second,) = this, other
    dimension = second.index.index(ranks.reduced)
    element = one.index[dimension]
    expected = (*one.index[:dimension], ranks.reduced, *one.index[dimension + 1 :])
    if second.index != expected or sorted(one.index) != sorted(ranks.result):
        raise _Other
    places = {leaf: leaf.index[0] for leaf in positions}
    if not {*places.values()} <= {element, ranks.reduced}:
        raise _Other
    _check(ranks.summand, positions)
    floats = ops.element_type(one.value).strip("b").startswith("f")
    for descending in (False, True):
        if all(
            _number(ranks.summand, {one: x, second: y, **_placed(places, element, relation)})
            == _before(y, x, relation, descending=descending)
            for x, y, relation in _orders(floats)
        ):
            return one, dimension, element, descending
    raise _Other


def _placed(places: Mapping[_Leaf, int], element: int, relation: int) -> dict[_Leaf, Number]:
    """The indices of both elements: the other one's is less, equal or greater by `relation`."""
    return {leaf: 0 if loop == element else relation for leaf, loop in places.items()}


def _orders(floats: bool) -> Iterator[tuple[Number, Number, int]]:
    """Two elements, and the index of the second one less that of the first."""
    numbers: tuple[Number, ...] = (1, 2, math.nan) if floats else (1, 2)
    for x, y in itertools.product(numbers, repeat=2):
        yield from ((x, y, relation) for relation in (-1, 1))
    yield from ((x, x, 0) for x in numbers)


def _before(y: Number, x: Number, relation: int, *, descending: bool) -> bool:
    """Whether an element comes before another one in the stable order."""
    first, second = (math.inf if n != n else n for n in (y, x))
    if first == second:
        return relation < 0
    return first > second if descending else first < second


def _leaves(node: _Node) -> Iterator[_Leaf]:
    if isinstance(node, _Leaf):
        yield node
    elif isinstance(node, _Call):
        for operand in node.operands:
            yield from _leaves(operand)


def _check(node: _Node, positions: set[_Leaf]) -> None:
    """Refuses all but logic of comparisons of elements, or of indices, with each other."""
    if isinstance(node, _Leaf):
        raise _Other
    if not isinstance(node, _Call):
        return
    if node.name not in _COMPARISONS:
        for operand in node.operands:
            _check(operand, positions)
        return
    kinds = {isinstance(n, _Leaf) and n in positions for n in node.operands}
    if not all(isinstance(n, _Leaf) for n in node.operands) or len(kinds) != 1:
        raise _Other


def _number(node: _Node, known: Mapping[_Leaf, Number]) -> Number:
    """The value of a node where those of its leaves are known."""
    if isinstance(node, _Leaf):
        return known[node]
    if not isinstance(node, _Call):
        return node
    operands = [_number(operand, known) for operand in node.operands]
    if node.name == "arith.extui":
        return operands[0]
    if node.name == "arith.select":
        return operands[1] if operands[0] else operands[2]
    if node.name in _BITWISE:
        a, b = (int(n) & 1 for n in operands)
        return _BITWISE[node.name](a, b)
    predicates = _COMPARISONS[node.name]
    if node.predicate not in predicates:
        raise _Other
    return predicates[node.predicate](*operands)
