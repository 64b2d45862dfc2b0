"""What a tensor element is, as a scalar expression over other tensors' elements.

A pattern in terms of expressions does not care how a frontend cut the computation into ops: one
op per arithmetic operation (PyTorch), bodies fused already (StableHLO), broadcasts written out or
folded into indexing maps, reshapes between them.

An element is a value and one index per dimension. An index is
  an int         a loop of the element that the analysis started from,
  a Loop         a reduction loop, or a loop that the start does not reach,
  Lin(parts)     several indices linearized, with their sizes (seen through a collapse),
  Part(i, ...)   one digit of an index (seen through an expand),
  None           the constant zero.
Expansion is lazy and one level at a time: asking for the definition of one element looks at one
op.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeAlias

from iree.compiler import ir

from mlirfuse.structured import ops


@dataclasses.dataclass(frozen=True, slots=True)
class Loop:
    """A loop of `op` that is not one of the starting element's dimensions."""

    op: ir.Operation
    number: int
    size: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Lin:
    """Row-major linearization of several indices."""

    parts: tuple[Index, ...]
    sizes: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Digit number `position` of `index` in the mixed radix `sizes`."""

    index: Index
    position: int
    sizes: tuple[int | None, ...]


Index: TypeAlias = int | Loop | Lin | Part | None


@dataclasses.dataclass(frozen=True, slots=True)
class Element:
    """One element of a tensor."""

    value: ir.Value
    index: tuple[Index, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Const:
    """A compile-time number."""

    number: float | int
    type: str


@dataclasses.dataclass(frozen=True, slots=True)
class IndexOf:
    """A loop index read as a number (`linalg.index`)."""

    index: Index


@dataclasses.dataclass(frozen=True, slots=True)
class Apply:
    """A scalar op on scalar operands; `owner` is the structured op whose body holds it."""

    op: str
    args: tuple[Expr, ...]
    predicate: str
    type: str
    owner: ir.Operation


@dataclasses.dataclass(frozen=True, slots=True)
class Reduce:
    """`combiner` over all values of `arg` along `loops`, starting from `init`."""

    combiner: str
    arg: Expr
    loops: tuple[Loop, ...]
    init: Expr
    owner: ir.Operation


@dataclasses.dataclass(frozen=True, slots=True)
class Opaque:
    """A scalar that the analysis does not look into."""

    value: ir.Value


Expr: TypeAlias = Element | Const | IndexOf | Apply | Reduce | Opaque

_TYPE_ONLY = frozenset({"arith.extf", "arith.truncf"})


def start(value: ir.Value) -> Element:
    """The element of the value at its own dimensions' loops."""
    return Element(value, tuple(range(len(ops.shape(value)))))


def define(expr: Expr) -> Expr:
    """Looks through the definition of an element until a computation, a number or a leaf.

    Broadcasts, transposes and reshapes are passed over. The result is an `Element` only when its
    value is not computed by something that this analysis understands.
    """
    while isinstance(expr, Element):
        step = step_through(expr)
        if step is None:
            return expr
        expr = step
    return expr


def uncast(expr: Expr) -> Expr:
    """Defines the expression and drops floating-point casts on the way."""
    expr = define(expr)
    while isinstance(expr, Apply) and expr.op in _TYPE_ONLY:
        expr = define(expr.args[0])
    return expr


def source(expr: Expr) -> Expr:
    """The element under casts and broadcasts, kept as an element of the tensor in memory.

    Transposes and reshapes end the walk: reading through them inside a group costs something.
    """
    while True:
        step = step_through(expr) if isinstance(expr, Element) else expr
        if isinstance(step, Apply) and step.op in _TYPE_ONLY:
            expr = step.args[0]
        elif isinstance(expr, Element) and isinstance(step, Element):
            rest = iter(expr.index)
            if not all(i in rest for i in step.index):
                return expr
            expr = step
        else:
            return expr


def number(expr: Expr) -> float | int | None:
    """The compile-time number that the expression is, or None."""
    expr = uncast(expr)
    if isinstance(expr, Const):
        return expr.number
    if isinstance(expr, Apply) and expr.op in ("arith.sitofp", "arith.uitofp"):
        return number(expr.args[0])
    return None


# --- expansion -----------------------------------------------------------------------------------


def step_through(element: Element) -> Expr | None:
    """What the element is one op further up, or None when that op is not understood."""
    op = ops.defining_op(element.value)
    if op is None:
        return None
    if op.name == "arith.constant" or op.name == "linalg.fill":
        value = ops.constant(element.value)
        return None if value is None else Const(value, ops.element_type(element.value))
    if op.name in ops.RESHAPES:
        index = _through_reshape(op, element.index)
        return None if index is None else Element(op.operands[0], index)
    if ops.is_generic(op):
        return _through_generic(op, element)
    return None


def _through_reshape(op: ir.Operation, index: tuple[Index, ...]) -> tuple[Index, ...] | None:
    groups = ops.reassociation(op)
    if op.name == "tensor.expand_shape":
        sizes = ops.shape(op.results[0])
        return tuple(
            linearize(tuple(index[d] for d in group), tuple(sizes[d] for d in group))
            for group in groups
        )
    sizes = ops.shape(op.operands[0])
    result: list[Index] = []
    for group, i in zip(groups, index, strict=True):
        radix = tuple(sizes[d] for d in group)
        result += [delinearize(i, position, radix) for position in range(len(radix))]
    return tuple(result)


def linearize(parts: tuple[Index, ...], sizes: tuple[int | None, ...]) -> Index:
    """Row-major linearization, simplified: unit sizes drop out, digits of one index rejoin."""
    kept = [(p, s) for p, s in zip(parts, sizes, strict=True) if s != 1]
    if not kept:
        return None
    if len(kept) == 1:
        return kept[0][0]
    first = kept[0][0]
    if isinstance(first, Part):
        radix = tuple((d, s) for d, s in enumerate(first.sizes) if s != 1)
        if [(Part(first.index, d, first.sizes), s) for d, s in radix] == kept:
            return first.index
    return Lin(tuple(p for p, _ in kept), tuple(s for _, s in kept))


def delinearize(index: Index, position: int, sizes: tuple[int | None, ...]) -> Index:
    """One digit of an index, simplified: what `linearize` joined comes apart again."""
    if sizes[position] == 1 or index is None:
        return None
    kept = [d for d, s in enumerate(sizes) if s != 1]
    if kept == [position]:
        return index
    if isinstance(index, Lin) and index.sizes == tuple(sizes[d] for d in kept):
        return index.parts[kept.index(position)]
    return Part(index, position, sizes)


def _through_generic(op: ir.Operation, element: Element) -> Expr | None:
    maps = ops.indexing_maps(op)
    kinds = ops.iterator_types(op)
    inputs = ops.num_inputs(op)
    result = next(i for i, r in enumerate(op.results) if r == element.value)
    out_map = maps[inputs + result]
    if out_map is None or None in out_map or len(set(out_map)) != len(out_map):
        return None
    sizes = ops.loop_sizes(op)
    loops: list[Index] = [Loop(op, d, sizes[d]) for d in range(len(kinds))]
    for loop, index in zip(out_map, element.index, strict=True):
        if loop is not None:
            loops[loop] = index
    evaluator = _Body(op, maps, loops)
    block = ops.body(op)
    yielded = block.operations[len(block.operations) - 1].operation.operands[result]
    reduced = tuple(Loop(op, d, sizes[d]) for d, kind in enumerate(kinds) if kind == "reduction")
    if not reduced:
        return evaluator.scalar(yielded)
    if any(d in out_map for d in range(len(kinds)) if kinds[d] == "reduction"):
        return None
    return evaluator.reduction(yielded, inputs + result, reduced)


class _Body:
    """Evaluates the scalar body of one structured op at given loop indices."""

    def __init__(
        self, op: ir.Operation, maps: tuple[ops.IndexMap | None, ...], loops: list[Index]
    ) -> None:
        self.op = op
        self.maps = maps
        self.loops = loops
        self.block = ops.body(op)
        self.known: dict[ir.Value, Expr] = {}

    def scalar(self, value: ir.Value) -> Expr:
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._compute(value)
        return found

    def _compute(self, value: ir.Value) -> Expr:
        owner = value.owner
        if isinstance(owner, ir.Block):
            if owner != self.block:
                return Opaque(value)
            position = ir.BlockArgument(value).arg_number
            index_map = self.maps[position]
            if index_map is None:
                return Opaque(value)
            index = tuple(None if d is None else self.loops[d] for d in index_map)
            return Element(self.op.operands[position], index)
        op = owner.operation
        if op.name == "arith.constant":
            literal = ops.attribute_number(op.attributes["value"])
            return Opaque(value) if literal is None else Const(literal, str(value.type))
        if op.name == "linalg.index":
            return IndexOf(self.loops[op.attributes["dim"].value])
        if op.name.startswith(("arith.", "math.")) and len(op.results) == 1:
            return Apply(
                op.name,
                tuple(self.scalar(o) for o in op.operands),
                ops.predicate(op),
                str(value.type),
                self.op,
            )
        return Opaque(value)

    def reduction(self, yielded: ir.Value, out: int, loops: tuple[Loop, ...]) -> Expr | None:
        owner = yielded.owner
        if isinstance(owner, ir.Block):
            return None
        combine = owner.operation
        accumulator = self.block.arguments[out]
        if len(combine.operands) != 2 or len(list(accumulator.uses)) != 1:
            return None
        left, right = combine.operands
        if left == accumulator:
            arg = right
        elif right == accumulator:
            arg = left
        else:
            return None
        init_map = self.maps[out]
        index = tuple(None if d is None else self.loops[d] for d in init_map or ())
        init = Element(self.op.operands[out], index)
        return Reduce(combine.name, self.scalar(arg), loops, init, self.op)


# --- comparison ----------------------------------------------------------------------------------

Binding: TypeAlias = dict[Loop, Index]
"""What the reduction loops of one expression stand for in another."""


def same(a: Expr, b: Expr, binding: Binding | None = None) -> bool:
    """Whether two expressions compute the same number, up to the reduction loops in `binding`.

    Loops that are keys of nothing yet become bound to the index found at their place; a loop
    bound once must stand for the same index everywhere. Structure only: no algebra, but
    broadcasts, reshapes and duplicated computations do not matter.
    """
    binding = {} if binding is None else binding
    if isinstance(a, Element) and isinstance(b, Element) and a.value == b.value:
        trial = dict(binding)
        if len(a.index) == len(b.index) and all(
            _same_index(i, j, trial) for i, j in zip(a.index, b.index, strict=True)
        ):
            binding.update(trial)
            return True
    da, db = define(a), define(b)
    if isinstance(da, Element) or isinstance(db, Element):
        return (
            isinstance(da, Element)
            and isinstance(db, Element)
            and (da, db) != (a, b)
            and same(da, db, binding)
        )
    if isinstance(da, Const) and isinstance(db, Const):
        return da.number == db.number and da.type == db.type
    if isinstance(da, IndexOf) and isinstance(db, IndexOf):
        return _same_index(da.index, db.index, binding)
    if isinstance(da, Apply) and isinstance(db, Apply):
        if (da.op, da.predicate, da.type) != (db.op, db.predicate, db.type):
            return False
        trial = dict(binding)
        if all(same(x, y, trial) for x, y in zip(da.args, db.args, strict=True)):
            binding.update(trial)
            return True
        return False
    if isinstance(da, Reduce) and isinstance(db, Reduce):
        trial = dict(binding)
        inner = {**trial, **dict(zip(da.loops, db.loops, strict=False))}
        if (
            da.combiner == db.combiner
            and len(da.loops) == len(db.loops)
            and same(da.arg, db.arg, inner)
            and same(da.init, db.init, trial)
        ):
            binding.update(trial)
            return True
        return False
    return da == db


def _same_index(a: Index, b: Index, binding: Binding) -> bool:
    if isinstance(a, Loop):
        if a in binding:
            return binding[a] == b
        if a == b:
            return True
        binding[a] = b
        return True
    if isinstance(a, Lin) and isinstance(b, Lin):
        return a.sizes == b.sizes and all(
            _same_index(x, y, binding) for x, y in zip(a.parts, b.parts, strict=True)
        )
    if isinstance(a, Part) and isinstance(b, Part):
        return (a.position, a.sizes) == (b.position, b.sizes) and _same_index(
            a.index, b.index, binding
        )
    return a == b


# --- shapes of arithmetic --------------------------------------------------------------------------

_MUL, _DIV, _ADD, _SUB = "arith.mulf", "arith.divf", "arith.addf", "arith.subf"


@dataclasses.dataclass(frozen=True, slots=True)
class Divisor:
    """A factor that divides."""

    expr: Expr


Factor: TypeAlias = Expr | Divisor


def factors(expr: Expr) -> Iterator[tuple[Expr, tuple[Factor, ...]]]:
    """Each node of the product tree with the factors beside it, outermost node first.

    `x * (r * g)` gives the product with nothing beside it, `x` with `(r * g,)`, `r * g` with
    `(x,)`, `r` with `(g, x)`, `g` with `(r, x)`. A quotient gives its numerator with a `Divisor`.
    """
    yield expr, ()
    node = uncast(expr)
    if isinstance(node, Apply) and node.op == _MUL:
        left, right = node.args
        for inner, others in factors(left):
            yield inner, (*others, right)
        for inner, others in factors(right):
            yield inner, (*others, left)
    elif isinstance(node, Apply) and node.op == _DIV:
        for inner, others in factors(node.args[0]):
            yield inner, (*others, Divisor(node.args[1]))


def addends(expr: Expr) -> list[tuple[Expr, Expr]]:
    """The two orders of a sum's operands; empty when the expression is no sum."""
    node = uncast(expr)
    if not isinstance(node, Apply) or node.op != _ADD:
        return []
    a, b = node.args
    return [(a, b), (b, a)]


@dataclasses.dataclass(frozen=True, slots=True)
class Mean:
    """A mean along reduction loops: of what, along which, over how many elements."""

    arg: Expr
    loops: tuple[Loop, ...]
    count: int


def mean(expr: Expr) -> Mean | None:
    """Recognizes a sum divided by the number of its elements, however it is written.

    sum(x) / n, sum(x) * (1/n), sum(x / n), sum(x * (1/n)). The number must be the product of the
    reduced sizes, exactly or rounded to f32.
    """
    node = uncast(expr)
    scale = 1.0
    reduce: Expr = node
    if isinstance(node, Apply) and node.op in (_MUL, _DIV):
        taken = _scaled(node)
        if taken is None:
            return None
        inner, scale = taken
        reduce = uncast(inner)
    if not isinstance(reduce, Reduce) or reduce.combiner != _ADD or number(reduce.init) != 0:
        return None
    arg = reduce.arg
    inside = uncast(arg)
    if scale == 1.0 and isinstance(inside, Apply) and inside.op in (_MUL, _DIV):
        taken = _scaled(inside)
        if taken is not None:
            arg, scale = taken
    count = 1
    for loop in reduce.loops:
        if loop.size is None:
            return None
        count *= loop.size
    if not abs(scale * count - 1.0) <= 1e-6:
        return None
    return Mean(arg, reduce.loops, count)


def _scaled(node: Apply) -> tuple[Expr, float] | None:
    left, right = node.args
    by = number(right)
    if node.op == _DIV:
        return None if not by else (left, 1.0 / by)
    if by is not None:
        return left, float(by)
    by = number(left)
    return None if by is None else (right, float(by))


def loops(expr: Expr) -> set[int]:
    """The starting element's dimensions that the expression depends on, read from its sources."""
    expr = source(expr)
    if isinstance(expr, Element):
        return {i for index in expr.index for i in _ints(index)}
    if isinstance(expr, Apply):
        return set().union(*(loops(a) for a in expr.args))
    if isinstance(expr, Reduce):
        return loops(expr.arg)
    if isinstance(expr, IndexOf):
        return set(_ints(expr.index))
    return set()


def _ints(index: Index) -> Iterator[int]:
    if isinstance(index, int):
        yield index
    elif isinstance(index, Lin):
        for part in index.parts:
            yield from _ints(part)
    elif isinstance(index, Part):
        yield from _ints(index.index)


def tensors(expr: Expr) -> Iterator[ir.Value]:
    """The tensors whose elements the expression reads directly, without expanding them."""
    if isinstance(expr, Element):
        yield expr.value
    elif isinstance(expr, Apply):
        for arg in expr.args:
            yield from tensors(arg)
    elif isinstance(expr, Reduce):
        yield from tensors(expr.arg)
