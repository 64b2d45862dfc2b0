"""Expansion of a tensor element into the expression that its op computes, one op at a time."""

from __future__ import annotations

import functools

from iree.compiler import ir

from mlirfuse.structured.expr.nodes import (
    Apply,
    Const,
    Element,
    Expr,
    Index,
    IndexOf,
    Lin,
    Loop,
    Opaque,
    Part,
    Reduce,
    base_loops,
)
from mlirfuse.structured.ir import analysis_cache, ops
from mlirfuse.structured.ir.analysis_cache import AnalysisCache


def step_through(element: Element) -> Expr | None:
    """The definition of the element by the op that computes it; None if that is not understood."""
    cache, key = element.cache, (element.value, element.index)
    for steps in (cache.steps, cache.settled):
        if key in steps:
            known: Expr | None = steps[key]
            return known
    op = ops.defining_op(element.value)
    if op is None:
        return None
    step = _step(op, element)
    reduced = {
        base.op for index in element.index for base in base_loops(index) if isinstance(base, Loop)
    }
    cache.keep_step(key, step, {op, *reduced})
    return step


def _step(op: ir.Operation, element: Element) -> Expr | None:
    name = op.name
    if name == "linalg.generic":
        return _through_generic(op, element)
    if name in ("arith.constant", "linalg.fill", "util.global.load"):
        value = ops.constant(element.value)
        return None if value is None else Const(value, ops.element_type(element.value))
    if name in ops.RESHAPES:
        index = _through_reshape(op, element.index)
        return None if index is None else Element(op.operands[0], index, element.cache)
    return None


def _through_reshape(op: ir.Operation, index: tuple[Index, ...]) -> tuple[Index, ...] | None:
    groups = ops.reassociation(op)
    expands = op.name == "tensor.expand_shape"
    sizes = ops.shape(op.results[0] if expands else op.operands[0])
    # The digits of two different splits would compare equal.
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
    """Row-major linearization, simplified: drops unit sizes and merges the digits of one index."""
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
    """One digit of an index, simplified: the inverse of `linearize`."""
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
        """The op's loops with their sizes, for those that the result's indices do not determine."""
        return tuple(Loop(self.op, d, size) for d, size in enumerate(ops.loop_sizes(self.op)))


@analysis_cache.per_op
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
    return _Body(form, loops, element.cache).result(out)


class _Body:
    """Evaluates the scalar body of one structured op at given loop indices."""

    def __init__(self, form: _Form, loops: list[Index], shared: AnalysisCache) -> None:
        self.form = form
        self.loops = loops
        self.shared = shared
        self.known: dict[ir.Value, Expr] = {}

    def result(self, out: int) -> Expr | None:
        """The expression that the body yields for the init with operand index `out`."""
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
