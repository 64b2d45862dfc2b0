"""Typed construction of `iree_linalg_ext.attention` in a dispatch region.

The region computes the mask itself, so that no tensor of the scores' size is in memory:

    %d = linalg.generic {all keys masked}              // only when a row of zeros is asked for
    %r = flow.dispatch.region {
      %m = linalg.generic {mask}
      %a = iree_linalg_ext.attention ins(%q, %k, %v, %s, %m) {score * scale}
      %z = linalg.generic {select %d, 0, %a}           // only with %d, or where masked
    }
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import Match, PassContext
from mlirfuse.structured.expr import expressions
from mlirfuse.structured.expr.nodes import Apply, Const, Element, Expr, Index, IndexOf
from mlirfuse.structured.ir import marks, ops
from mlirfuse.structured.recognize import masks
from mlirfuse.structured.recognize.attention import Attention
from mlirfuse.structured.recognize.attention_operands import Operand


def fuse_attention(match: Match, ctx: PassContext) -> ir.Operation:
    """The `rewrite` of the attention passes: the mask and the attention op in a dispatch region."""
    return form_attention(match.data, match.ops)


def form_attention(found: Attention, replaced: Sequence[ir.Operation]) -> ir.Operation:
    """Puts an attention op into one new `flow.dispatch.region` and erases the replaced ops.

    Args:
      found: the attention.
      replaced: the ops from the first contraction to `found.final`, in block order.

    Returns:
      The region. Its location is the fusion of the replaced ops' locations.
    """
    location = ir.Location.fused([op.location for op in replaced], context=found.final.context)
    with ir.InsertionPoint(found.final), location:
        region, result = _Builder(found).build()
    found.final.results[0].replace_all_uses_with(result)
    for op in reversed(replaced):
        op.erase()
    return region


class _Builder:
    """One construction, at the current insertion point and location."""

    def __init__(self, found: Attention) -> None:
        self.found = found
        self.dims = found.domain.dims
        self.q = self._with_query(*self._without_units(found.q))
        self.k = self._without_units(found.k)
        self.v = self._without_units(found.v)
        self.read = {e: self._without_units(self._operand(e)) for e in found.mask_tensors}
        self.out = [d for axis in found.result.axes for d in axis]
        if found.single_query is not None:
            self.out.insert(len(self.out) - 1, found.single_query)
        self.element = ops.element_type(found.result.value)

    def build(self) -> tuple[ir.Operation, ir.Value]:
        """The region, and its result in the shape of the final op's."""
        masked = self._masked_rows()
        mask, nonzero = self._direct_mask(), self.found.nonzero
        kept = None if nonzero is None else self._without_units(self._operand(nonzero))
        sizes = [self.dims[d].size for d in self.out]
        dynamic = self._dynamic(self.out)
        region = ir.Operation.create(
            ops.REGION,
            results=[builders.tensor_type(sizes, self.element)],
            operands=dynamic,
            attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(dynamic), 0])},
            regions=2,
        )
        with ir.InsertionPoint(region.regions[0].blocks.append()):
            if mask is None and self.found.mask is not None:
                mask = self._computed_mask(self.found.mask)
            init = builders.empty(sizes, self.element, dynamic)
            result = self._attention(mask, init)
            if masked is not None:
                result = self._zeroed(masked, result, init, when=True)
                result.owner.attributes[marks.MASKED_ATTRIBUTE] = ir.BoolAttr.get(True)
            if kept is not None:
                result = self._zeroed(kept, result, init, when=False)
                if self.found.tests_mask:
                    result.owner.attributes[marks.MASKED_ATTRIBUTE] = ir.BoolAttr.get(False)
            ir.Operation.create(ops.RETURN, operands=[result])
        return region, self._final_shape(region.results[0])

    # --- the attention -----------------------------------------------------------------------

    def _attention(self, mask: tuple[ir.Value, list[int]] | None, init: ir.Value) -> ir.Value:
        # IREE multiplies q by scale * log2(e) in q's own type, which rounds a 16-bit q. A scale of
        # ln(2) makes that factor one; the f32 scores are multiplied instead.
        apart = ops.element_type(self.found.q.value) != "f32" or self.found.cap is not None
        scale = builders.scalar_constant(math.log(2.0) if apart else self.found.scale, "f32")
        operands = [
            self.q,
            self.k,
            self.v,
            (scale, []),
            *([mask] if mask else []),
            (init, self.out),
        ]
        loops = self._loops()
        maps = [
            builders.map_attribute(tuple(loops[d] for d in dims), len(loops))
            for _, dims in operands
        ]
        op = ir.Operation.create(
            "iree_linalg_ext.attention",
            results=[init.type],
            operands=[value for value, _ in operands],
            attributes={"indexing_maps": ir.ArrayAttr.get(maps)},
            regions=1,
        )
        f32 = ir.F32Type.get()
        block = op.regions[0].blocks.append(f32, arg_locs=[ir.Location.current])
        with ir.InsertionPoint(block):
            score: ir.Value = block.arguments[0]
            if self.found.cap is not None:
                inner = builders.scalar_constant(self.found.cap, "f32")
                score = builders.scalar("arith.mulf", [score, inner], "f32")
                score = builders.scalar("math.tanh", [score], "f32")
            if apart:
                factor = builders.scalar_constant(self.found.scale / math.log(2.0), "f32")
                score = builders.scalar("arith.mulf", [score, factor], "f32")
            ir.Operation.create("iree_linalg_ext.yield", operands=[score])
        return op.results[0]

    def _loops(self) -> list[int]:
        """The loop of each dimension: those of the queries alone by size, the largest innermost.

        IREE 3.13.0 maps the innermost of them to M of matrix instructions, and uses none where it
        is small, as the number of query heads per key head is.
        """
        alone = sorted(self.found.query_dims)
        by_size = sorted(alone, key=lambda d: self.dims[d].size or math.inf)
        loops = list(range(len(self.dims)))
        for dim, loop in zip(by_size, alone, strict=True):
            loops[dim] = loop
        return loops

    def _zeroed(
        self, where: tuple[ir.Value, list[int]], result: ir.Value, init: ir.Value, *, when: bool
    ) -> ir.Value:
        rows, dims = where
        identity = tuple(range(len(self.out)))

        def body(arguments: list[ir.Value]) -> list[ir.Value]:
            zero = builders.scalar_constant(0.0, self.element)
            choice = [zero, arguments[1]] if when else [arguments[1], zero]
            return [builders.scalar("arith.select", [arguments[0], *choice], self.element)]

        maps = [tuple(self.out.index(d) for d in dims), identity, identity]
        kinds = ["parallel"] * len(self.out)
        return builders.generic([rows, result], [init], maps, kinds, body).results[0]

    # --- the mask ----------------------------------------------------------------------------

    def _direct_mask(self) -> tuple[ir.Value, list[int]] | None:
        """The mask when it is an unmodified tensor in memory."""
        mask = self.found.mask
        if isinstance(mask, Apply) and mask.op == "arith.extf":
            mask = mask.args[0]
        return self.read[mask] if isinstance(mask, Element) else None

    def _computed_mask(self, mask: Expr) -> tuple[ir.Value, list[int]]:
        dims = self._dims_of(mask)
        sizes = [self.dims[d].size for d in dims]
        init = builders.empty(sizes, expressions.type_of(mask), self._dynamic(dims))
        body = _Scalars(self, mask, dims)
        maps = [*body.maps, tuple(range(len(dims)))]
        kinds = ["parallel"] * len(dims)
        op = builders.generic(body.inputs, [init], maps, kinds, lambda args: [body.emit(args)])
        return op.results[0], dims

    def _masked_rows(self) -> tuple[ir.Value, list[int]] | None:
        """The rows that are fully masked: a reduction of its own, over the keys."""
        closed = self.found.masked
        if closed is None:
            return None
        dims = self._dims_of(closed)
        rows = [d for d in dims if d != self.found.key]
        empty = builders.empty([self.dims[d].size for d in rows], "i1", self._dynamic(rows))
        init = builders.fill(builders.scalar_constant(1, "i1"), empty)
        body = _Scalars(self, closed, dims)
        inputs, maps = list(body.inputs), list(body.maps)
        key = dims.index(self.found.key)
        if not any(key in index_map for index_map in maps):
            # Some operand has to have the size of the loop; a mask of indices alone has none.
            size = self.dims[self.found.key].size
            inputs.append(builders.empty([size], "i1", self._dynamic([self.found.key])))
            maps.append((key,))
        maps.append(tuple(dims.index(d) for d in rows))
        kinds = ["reduction" if d == self.found.key else "parallel" for d in dims]

        def both(arguments: list[ir.Value]) -> list[ir.Value]:
            return [builders.scalar("arith.andi", [body.emit(arguments), arguments[-1]], "i1")]

        op = builders.generic(inputs, [init], maps, kinds, both)
        return op.results[0], rows

    def _dims_of(self, expr: Expr) -> list[int]:
        return sorted({d for index in masks.indices(expr) for d in self.found.domain.of(index)})

    # --- shapes ------------------------------------------------------------------------------

    def _operand(self, element: Element) -> Operand:
        return Operand(element.value, tuple(self.found.domain.of(i) for i in element.index))

    def _split(self, operand: Operand) -> Operand:
        """The operand with merged axes expanded: no axis has more than one dimension."""
        if all(len(axis) <= 1 for axis in operand.axes):
            return operand
        groups: list[list[int]] = []
        parts: list[tuple[int, ...]] = []
        sizes: list[int | None] = []
        dynamic: list[ir.Value] = []
        for position, axis in enumerate(operand.axes):
            pieces: list[tuple[int, ...]] = [(d,) for d in axis] or [()]
            groups.append([len(parts) + i for i in range(len(pieces))])
            parts += pieces
            sizes += [self.dims[d].size for d in axis] or [1]
            if any(self.dims[d].size is None for d in axis):
                whole = builders.dimension(operand.value, position)
                factor = math.prod(self.dims[d].size or 1 for d in axis)
                dynamic.append(_divided(whole, factor))
        return Operand(builders.expand(operand.value, groups, sizes, dynamic), tuple(parts))

    def _without_units(self, operand: Operand) -> tuple[ir.Value, list[int]]:
        """The operand with exactly one dimension for each axis."""
        split = self._split(operand)
        groups: list[list[int]] = []
        leading: list[int] = []
        for position, axis in enumerate(split.axes):
            if axis:
                groups.append([*leading, position])
                leading = []
            elif groups:
                groups[-1].append(position)
            else:
                leading.append(position)
        return builders.collapse(split.value, groups), [d for axis in split.axes for d in axis]

    def _with_query(self, value: ir.Value, dims: list[int]) -> tuple[ir.Value, list[int]]:
        """The queries with the dimension of a single one, before the last."""
        single = self.found.single_query
        if single is None:
            return value, dims
        sizes, last = [*ops.shape(value)], len(dims) - 1
        groups = [*([n] for n in range(last)), [last, last + 1]]
        dynamic = [builders.dimension(value, n) for n, size in enumerate(sizes) if size is None]
        sizes.insert(last, 1)
        return builders.expand(value, groups, sizes, dynamic), [*dims[:last], single, dims[last]]

    def _final_shape(self, value: ir.Value) -> ir.Value:
        """The region's result with the axes of the final op's: merged, and with unit dimensions."""
        axes = self.found.result.axes
        if self.found.single_query is not None:
            last = len(self.out) - 2
            value = builders.collapse(value, [*([n] for n in range(last)), [last, last + 1]])
        starts = [sum(len(a) for a in axes[:n]) for n in range(len(axes))]
        merged = [list(range(s, s + len(a))) for s, a in zip(starts, axes, strict=True) if a]
        value = builders.collapse(value, merged)
        if all(axes):
            return value
        groups: list[list[int]] = []
        leading: list[int] = []
        for position, axis in enumerate(axes):
            if not axis and groups:
                groups[-1].append(position)
            elif not axis:
                leading.append(position)
            else:
                groups.append([*leading, position])
                leading = []
        dynamic = [
            builders.dimension(value, n) for n, s in enumerate(ops.shape(value)) if s is None
        ]
        return builders.expand(value, groups, ops.shape(self.found.result.value), dynamic)

    def _dynamic(self, dims: Iterable[int]) -> list[ir.Value]:
        """Sizes of the dynamic dimensions among these, in order."""
        return [self._size(d) for d in dims if self.dims[d].size is None]

    def _size(self, dim: int) -> ir.Value:
        value, axes = next(o for o in (self.q, self.k, self.v) if dim in o[1])
        return builders.dimension(value, axes.index(dim))

    def index(self, index: Index, loops: list[int]) -> ir.Value:
        """The value of an index, inside a body over these dimensions."""
        linear: ir.Value | None = None
        for d in self.found.domain.of(index):
            digit = builders.loop_index(loops.index(d))
            if linear is not None:
                size = builders.scalar_constant(self.dims[d].size or 0, "index")
                linear = builders.scalar("arith.muli", [linear, size], "index")
                digit = builders.scalar("arith.addi", [linear, digit], "index")
            linear = digit
        return builders.scalar_constant(0, "index") if linear is None else linear


class _Scalars:
    """The body of a generic that computes an expression over some dimensions."""

    def __init__(self, builder: _Builder, expr: Expr, loops: list[int]) -> None:
        self.builder = builder
        self.expr = expr
        self.loops = loops
        leaves = dict.fromkeys(e for e in masks.leaves(expr) if isinstance(e, Element))
        self.leaves = list(leaves)
        read = [builder.read[leaf] for leaf in self.leaves]
        self.inputs = [value for value, _ in read]
        self.maps: list[ops.IndexMap] = [
            tuple(loops.index(d) for d in dims) or (None,) * len(ops.shape(value))
            for value, dims in read
        ]

    def emit(self, arguments: list[ir.Value]) -> ir.Value:
        """Builds the expression from the generic's block arguments."""
        return self._emit(self.expr, dict(zip(self.leaves, arguments, strict=False)))

    def _emit(self, expr: Expr, known: dict[Element, ir.Value]) -> ir.Value:
        if isinstance(expr, Element):
            return known[expr]
        if isinstance(expr, Const):
            return builders.scalar_constant(expr.number, expr.type)
        if isinstance(expr, IndexOf):
            return self.builder.index(expr.index, self.loops)
        assert isinstance(expr, Apply)
        return builders.scalar(
            expr.op, [self._emit(a, known) for a in expr.args], expr.type, expr.predicate
        )


def _divided(whole: ir.Value, factor: int) -> ir.Value:
    by = builders.scalar_constant(factor, "index")
    return builders.scalar("arith.divui", [whole, by], "index")
