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
op, once in an analysis. Every walk here is bounded, because expressions share parts: the tree of
`x = x * x` written sixty times has 2^60 leaves.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from iree.compiler import ir

from mlirfuse.structured.ir import analysis_cache, ops
from mlirfuse.structured.ir.analysis_cache import Facts


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
    """One element of a tensor. Elements that stem from one another share what is known."""

    value: ir.Value
    index: tuple[Index, ...]
    memo: Facts = dataclasses.field(
        default_factory=analysis_cache.current, compare=False, repr=False
    )


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
    digest: int = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Takes the hash of all that is below, once."""
        key = (self.op, self.args, self.predicate, self.type, self.owner)
        object.__setattr__(self, "digest", hash(key))

    def __hash__(self) -> int:
        """What was taken."""
        return self.digest


@dataclasses.dataclass(frozen=True, slots=True)
class Reduce:
    """`combiner` over all values of `arg` along `loops`, starting from `init`."""

    combiner: str
    arg: Expr
    loops: tuple[Loop, ...]
    init: Expr
    owner: ir.Operation
    digest: int = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Takes the hash of all that is below, once."""
        key = (self.combiner, self.arg, self.loops, self.init, self.owner)
        object.__setattr__(self, "digest", hash(key))

    def __hash__(self) -> int:
        """What was taken."""
        return self.digest


@dataclasses.dataclass(frozen=True, slots=True)
class Opaque:
    """A scalar that the analysis does not look into."""

    value: ir.Value


Expr: TypeAlias = Element | Const | IndexOf | Apply | Reduce | Opaque

CASTS = frozenset({"arith.extf", "arith.truncf"})


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
    """Defines the expression; drops floating-point casts and decided selections on the way."""
    expr = define(expr)
    while isinstance(expr, Apply):
        if expr.op in CASTS:
            expr = define(expr.args[0])
        elif expr.op == "arith.select" and (condition := literal(expr.args[0])) is not None:
            expr = define(expr.args[1 if condition.number else 2])
        else:
            break
    return expr


def source(expr: Expr, *, whole: bool = False) -> Expr:
    """The element under casts and broadcasts, kept as an element of the tensor in memory.

    Transposes and reshapes end the walk: reading through them inside a group costs something.

    Args:
      expr: an element, or scalars above one.
      whole: the tensors are large: a rounding of what an op computes ends the walk too. That op
        rounds as it writes, and the group reads half the bytes.
    """
    while True:
        step = step_through(expr) if isinstance(expr, Element) else expr
        if isinstance(step, Apply) and step.op in CASTS:
            if whole and _rounds_computed(step):
                return expr
            expr = step.args[0]
        elif isinstance(expr, Element) and isinstance(step, Element):
            rest = iter(expr.index)
            if not all(i in rest for i in step.index if i is not None):
                return expr
            expr = step
        else:
            return expr


def _rounds_computed(cast: Apply) -> bool:
    """Whether a cast narrows a tensor that an op computes."""
    if cast.op != "arith.truncf" or not isinstance(cast.args[0], Element):
        return False
    writer = ops.defining_op(cast.args[0].value)
    return writer is not None and writer.name.startswith("linalg.")


# The predicates of `arith.cmpf` that order two numbers, as the attribute prints.
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "1 : i64": operator.eq,
    "2 : i64": operator.gt,
    "3 : i64": operator.ge,
    "4 : i64": operator.lt,
    "5 : i64": operator.le,
}


def literal(expr: Expr) -> Const | None:
    """The compile-time number that the expression is, with the type that rounded it, or None."""
    expr = uncast(expr)
    if isinstance(expr, Const):
        return expr
    if isinstance(expr, Apply) and expr.op in ("arith.sitofp", "arith.uitofp"):
        inner = literal(expr.args[0])
        return None if inner is None else Const(inner.number, expr.type)
    if isinstance(expr, Apply) and expr.op == "arith.cmpf" and expr.predicate in _COMPARISONS:
        left, right = (literal(arg) for arg in expr.args)
        if left is not None and right is not None:
            return Const(_COMPARISONS[expr.predicate](left.number, right.number), expr.type)
    return None


def number(expr: Expr) -> float | int | None:
    """The compile-time number that the expression is, or None."""
    found = literal(expr)
    return None if found is None else found.number


# --- expansion -----------------------------------------------------------------------------------


def step_through(element: Element) -> Expr | None:
    """What the element is one op further up, or None when that op is not understood."""
    memo, key = element.memo, (element.value, element.index)
    for steps in (memo.steps, memo.settled):
        if key in steps:
            return steps[key]
    op = ops.defining_op(element.value)
    if op is None:
        return None
    step = _step(op, element)
    memo.keep_step(key, step, {op, *_reduced_in(element.index)})
    return step


def _reduced_in(indices: Iterable[Index]) -> Iterator[ir.Operation]:
    """The ops whose loops the indices are made of."""
    for index in indices:
        if isinstance(index, Loop):
            yield index.op
        elif isinstance(index, Lin):
            yield from _reduced_in(index.parts)
        elif isinstance(index, Part):
            yield from _reduced_in((index.index,))


def _step(op: ir.Operation, element: Element) -> Expr | None:
    name = op.name
    if name == "linalg.generic":
        return _through_generic(op, element)
    if name in ("arith.constant", "linalg.fill", "util.global.load"):
        value = ops.constant(element.value)
        return None if value is None else Const(value, ops.element_type(element.value))
    if name in ops.RESHAPES:
        index = _through_reshape(op, element.index)
        return None if index is None else Element(op.operands[0], index, element.memo)
    return None


def _through_reshape(op: ir.Operation, index: tuple[Index, ...]) -> tuple[Index, ...] | None:
    groups = ops.reassociation(op)
    expands = op.name == "tensor.expand_shape"
    sizes = ops.shape(op.results[0] if expands else op.operands[0])
    # The digits of two different splits would look alike.
    if any(sum(sizes[d] is None for d in group) > 1 for group in groups):
        return None
    if expands:
        return tuple(
            linearize(tuple(index[d] for d in group), tuple(sizes[d] for d in group))
            for group in groups
        )
    # A collapse to rank 0 has no groups, and unit sizes only.
    result: list[Index] = [] if groups else [None] * len(sizes)
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


class _Form:
    """The decoded structure of one `linalg.generic`."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        self.operands = list(op.operands)
        self.results = list(op.results)
        self.num_inputs = len(self.operands) - len(self.results)
        self.maps = ops.indexing_maps(op)
        kinds = ops.iterator_types(op)
        self.rank = len(kinds)
        self.reduced = tuple(d for d, kind in enumerate(kinds) if kind == "reduction")
        self.block = ops.body(op)
        scalars = [o.operation for o in self.block.operations]
        self.scalars, self.terminator = scalars[:-1], scalars[-1]

    @functools.cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The op's loops with their sizes; wanted where the result's indices leave some open."""
        sizes: list[int | None] = [None] * self.rank
        for value, index_map in zip(self.operands, self.maps, strict=True):
            for loop, size in zip(index_map or (), ops.shape(value), strict=False):
                if loop is not None and size is not None:
                    sizes[loop] = size
        return tuple(Loop(self.op, d, size) for d, size in enumerate(sizes))


@analysis_cache.kept
def _form(op: ir.Operation) -> _Form:
    return _Form(op)


def _through_generic(op: ir.Operation, element: Element) -> Expr | None:
    form = _form(op)
    out = form.num_inputs + form.results.index(element.value)
    out_map = form.maps[out]
    if out_map is None or None in out_map or len(set(out_map)) != len(out_map):
        return None
    if any(d in out_map for d in form.reduced):
        return None
    loops: list[Index] = [None] * form.rank if len(out_map) == form.rank else list(form.loops)
    for loop, index in zip(out_map, element.index, strict=True):
        if loop is not None:
            loops[loop] = index
    return _Body(form, loops, element.memo).result(out)


class _Body:
    """Evaluates the scalar body of one structured op at given loop indices."""

    def __init__(self, form: _Form, loops: list[Index], shared: Facts) -> None:
        self.form = form
        self.loops = loops
        self.shared = shared
        self.known: dict[ir.Value, Expr] = {}

    def result(self, out: int) -> Expr | None:
        """What the body yields for operand number `out`, an init."""
        for op in self.form.scalars:
            if len(op.results) == 1:
                self.known[op.results[0]] = self._compute(op)
        yielded = self.form.terminator.operands[out - self.form.num_inputs]
        return self._reduction(yielded, out) if self.form.reduced else self._operand(yielded)

    def _operand(self, value: ir.Value) -> Expr:
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._leaf(value)
        return found

    def _leaf(self, value: ir.Value) -> Expr:
        owner = value.owner
        if not isinstance(owner, ir.Block) or owner != self.form.block:
            return self._captured(value)
        position = ir.BlockArgument(value).arg_number
        index_map = self.form.maps[position]
        if index_map is None:
            return Opaque(value)
        index = tuple(None if d is None else self.loops[d] for d in index_map)
        return Element(self.form.operands[position], index, self.shared)

    def _captured(self, value: ir.Value) -> Expr:
        number = ops.constant(value)
        if number is not None:
            return Const(number, str(value.type))
        op = ops.defining_op(value)
        if op is not None and op.name == "tensor.extract" and len(op.operands) == 1:
            return Element(op.operands[0], (), self.shared)
        return Opaque(value)

    def _compute(self, op: ir.Operation) -> Expr:
        value = op.results[0]
        name = op.name
        if name == "arith.constant":
            literal = ops.attribute_number(op.attributes["value"])
            return Opaque(value) if literal is None else Const(literal, str(value.type))
        if name == "linalg.index":
            return IndexOf(self.loops[op.attributes["dim"].value])
        if name.startswith(("arith.", "math.")):
            args = tuple(self._operand(o) for o in op.operands)
            return Apply(name, args, ops.predicate(op), str(value.type), self.form.op)
        return Opaque(value)

    def _reduction(self, yielded: ir.Value, out: int) -> Expr | None:
        combine = ops.defining_op(yielded)
        if combine is None or combine.block != self.form.block:
            return None
        accumulator = self.form.block.arguments[out]
        if len(combine.operands) != 2 or len(list(accumulator.uses)) != 1:
            return None
        left, right = combine.operands
        if left == accumulator:
            arg = right
        elif right == accumulator:
            arg = left
        else:
            return None
        index_map = self.form.maps[out] or ()
        index = tuple(None if d is None else self.loops[d] for d in index_map)
        init = Element(self.form.operands[out], index, self.shared)
        along = tuple(self.form.loops[d] for d in self.form.reduced)
        return Reduce(combine.name, self._operand(arg), along, init, self.form.op)


# --- what an expression reads -------------------------------------------------------------------


def _leaves(expr: Expr) -> Iterator[Element | IndexOf]:
    """The elements and loop indices that an expression reads, without expanding elements."""
    seen: set[int] = set()
    work = [expr]
    while work:
        node = work.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Apply):
            work += reversed(node.args)
        elif isinstance(node, Reduce):
            work.append(node.arg)
        elif isinstance(node, Element | IndexOf):
            yield node


def loops(expr: Expr) -> set[int]:
    """The starting element's dimensions that the expression depends on, read from its sources."""
    found: set[int] = set()
    for leaf in _leaves(source(expr)):
        end = source(leaf)
        if isinstance(end, Element):
            found.update(i for index in end.index for i in _ints(index))
        elif isinstance(end, IndexOf):
            found.update(_ints(end.index))
        elif not isinstance(end, Const):
            found |= loops(end)
    return found


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
    for leaf in _leaves(expr):
        if isinstance(leaf, Element):
            yield leaf.value
