"""Rewrites of JAX's StableHLO that IREE 3.13 does not lower, or lowers badly.

  %0 = stablehlo.dot_general %a, %b {algorithm = ...} : (f16, f16) -> f16
becomes
  %1 = stablehlo.dot_general %a, %b : (f16, f16) -> f32
  %0 = stablehlo.convert %1 : f32 -> f16

  chlo.erf  ->  math.erf
  stablehlo.dynamic_broadcast_in_dim  ->  linalg.generic, of known expanding dimensions
  stablehlo.dynamic_reshape  ->  tensor.collapse_shape or tensor.expand_shape
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iree.compiler import ir

_DYNAMIC = 1_000_003
"""Stand-in for a dynamic size when sizes are compared: a prime that is no size of any model."""


def operations(op: Any) -> Iterator[Any]:
    """Every operation nested in `op`, of IREE's MLIR or JAX's."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from operations(inner.operation)


def repair(module: ir.Module) -> None:
    """Applies all repairs."""
    repairs = {
        "chlo.erf": _keep_erf,
        "stablehlo.dynamic_broadcast_in_dim": _broadcast,
        "stablehlo.dynamic_reshape": _reshape,
        "stablehlo.dot_general": _dot_general,
        "stablehlo.convolution": _accumulate_in_float32,
    }
    for op in list(operations(module.operation)):
        if apply := repairs.get(op.name):
            apply(op)


def _replace(op: ir.Operation, value: ir.Value) -> None:
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _keep_erf(op: ir.Operation) -> None:
    """Keeps erf as one op: IREE would expand it into 50, in which no pass recognizes a gelu."""
    from iree.compiler import ir

    with op.location, ir.InsertionPoint(op):
        erf = ir.Operation.create("math.erf", [op.results[0].type], [op.operands[0]])
    _replace(op, erf.result)


def _accumulate_in_float32(op: ir.Operation) -> None:
    """Accumulates contractions of half precision in float32, as XLA does.

    IREE accumulates in the type of the result: 8 % error in a float16 matmul with K = 4096, where
    XLA's is 0.05 %. It does not lower a contraction with an `algorithm` at all; the requested one
    accumulates in float32 or less.
    """
    from iree.compiler import ir

    attributes = {name: op.attributes[name] for name in op.attributes if name != "algorithm"}
    declared = ir.RankedTensorType(op.results[0].type)
    half = str(declared.element_type) in ("f16", "bf16")
    if not half and len(attributes) == len(op.attributes):
        return
    with op.location, ir.InsertionPoint(op):
        wide = ir.RankedTensorType.get(declared.shape, ir.F32Type.get()) if half else declared
        value = ir.Operation.create(op.name, [wide], list(op.operands), attributes).result
        if half:
            value = ir.Operation.create("stablehlo.convert", [declared], [value]).result
    _replace(op, value)


def _dot_general(op: ir.Operation) -> None:
    """Turns a matmul of a batch of dynamic size and one matrix into a matmul of two matrices.

    IREE does so too, and then has no lowering for its own reshapes.
    """
    from iree.compiler import ir

    left, right = op.operands
    old, kernel, result = (ir.RankedTensorType(v.type) for v in (left, right, op.results[0]))
    dimension_numbers = str(op.attributes["dot_dimension_numbers"])
    contracting = re.search(r"rhs_contracting_dimensions = \[([01])\]", dimension_numbers)
    plain = (
        f"lhs_contracting_dimensions = [{old.rank - 1}]" in dimension_numbers
        and "batching" not in dimension_numbers
    )
    batched = list(old.shape[:-1]).count(ir.ShapedType.get_dynamic_size()) == 1 and old.rank > 2
    if not (contracting and plain and batched and kernel.rank == 2):
        _accumulate_in_float32(op)
        return
    dynamic = ir.ShapedType.get_dynamic_size()
    with op.location, ir.InsertionPoint(op):
        groups = [list(range(old.rank - 1)), [old.rank - 1]]
        flat = ir.RankedTensorType.get([dynamic, old.shape[-1]], old.element_type)
        matmul_type = ir.RankedTensorType.get([dynamic, result.shape[-1]], result.element_type)
        attributes = {name: op.attributes[name] for name in op.attributes}
        attributes["dot_dimension_numbers"] = ir.Attribute.parse(
            "#stablehlo.dot<lhs_contracting_dimensions = [1], "
            f"rhs_contracting_dimensions = [{contracting[1]}]>"
        )
        collapsed = _regroup("tensor.collapse_shape", left, flat, groups, [])
        new = ir.Operation.create(op.name, [matmul_type], [collapsed, right], attributes)
        axis = _index(list(old.shape).index(dynamic))
        size = ir.Operation.create("tensor.dim", [ir.IndexType.get()], [left, axis]).result
        expanded = _regroup("tensor.expand_shape", new.result, result, groups, [size])
    _replace(op, expanded)
    _accumulate_in_float32(new)


def _broadcast(op: ir.Operation) -> None:
    """Marks the expanding dimensions: those of size 1; all other sizes are the result's.

    JAX guarantees this without the attributes that IREE needs to lower a dynamic broadcast.
    """
    from iree.compiler import ir

    source, shape = op.operands
    old, new = (ir.RankedTensorType(v.type) for v in (source, op.results[0]))
    if str(old.element_type).startswith("ui"):
        return  # linalg has no unsigned integers; IREE makes them signless later
    dims = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
    with op.location, ir.InsertionPoint(op):
        sizes = [_size(shape, i) for i in range(new.rank) if new.is_dynamic_dim(i)]
        empty = ir.Operation.create("tensor.empty", [new], sizes).result
        results = [
            ir.AffineConstantExpr.get(0) if size == 1 else ir.AffineDimExpr.get(dim)
            for size, dim in zip(old.shape, dims, strict=True)
        ]
        maps = [ir.AffineMap.get(new.rank, 0, results), ir.AffineMap.get_identity(new.rank)]
        parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
        generic = ir.Operation.create(
            "linalg.generic",
            [new],
            [source, empty],
            {
                "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
                "iterator_types": ir.ArrayAttr.get([parallel] * new.rank),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
            },
            regions=1,
        )
        body = generic.regions[0].blocks.append(old.element_type, new.element_type)
        with ir.InsertionPoint(body):
            ir.Operation.create("linalg.yield", [], [body.arguments[0]])
    _replace(op, generic.result)


def _reshape(op: ir.Operation) -> None:
    """Rewrites reshapes that only collapse or only expand sizes, one of them dynamic."""
    from iree.compiler import ir

    source, shape = op.operands
    old, new = (ir.RankedTensorType(v.type) for v in (source, op.results[0]))
    dynamic = ir.ShapedType.get_dynamic_size()
    if list(old.shape).count(dynamic) != 1 or list(new.shape).count(dynamic) != 1:
        return
    static_old, static_new = (math.prod(s for s in t.shape if s != dynamic) for t in (old, new))
    olds = [_DYNAMIC * static_new if s == dynamic else s for s in old.shape]
    news = [_DYNAMIC * static_old if s == dynamic else s for s in new.shape]
    collapsing = len(news) <= len(olds)
    groups = _groups(*((olds, news) if collapsing else (news, olds)))
    if groups is None:
        return
    with op.location, ir.InsertionPoint(op):
        if collapsing:
            value = _regroup("tensor.collapse_shape", source, new, groups, [])
        else:
            size = _size(shape, list(new.shape).index(dynamic))
            value = _regroup("tensor.expand_shape", source, new, groups, [size])
    _replace(op, value)


def _regroup(
    name: str, source: ir.Value, result: ir.Type, groups: list[list[int]], sizes: list[ir.Value]
) -> ir.Value:
    from iree.compiler import ir

    i64 = ir.IntegerType.get_signless(64)
    attributes: dict[str, ir.Attribute] = {
        "reassociation": ir.ArrayAttr.get(
            [ir.ArrayAttr.get([ir.IntegerAttr.get(i64, i) for i in group]) for group in groups]
        )
    }
    if name == "tensor.expand_shape":
        attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get(
            list(ir.RankedTensorType(result).shape)
        )
    return ir.Operation.create(name, [result], [source, *sizes], attributes).result


def _index(value: int) -> ir.Value:
    from iree.compiler import ir

    index = ir.IndexType.get()
    attributes = {"value": ir.IntegerAttr.get(index, value)}
    return ir.Operation.create("arith.constant", [index], [], attributes).result


def _size(shape: ir.Value, axis: int) -> ir.Value:
    """One element of a tensor of sizes, as an index."""
    from iree.compiler import ir

    element = ir.RankedTensorType(shape.type).element_type
    size = ir.Operation.create("tensor.extract", [element], [shape, _index(axis)]).result
    return ir.Operation.create("arith.index_cast", [ir.IndexType.get()], [size]).result


def _groups(many: Sequence[int], few: Sequence[int]) -> list[list[int]] | None:
    """Axes of `many` whose sizes multiply to each size of `few`; None where they do not."""
    groups: list[list[int]] = []
    axis = 0
    for index, size in enumerate(few):
        group: list[int] = []
        product = 1
        last = index == len(few) - 1
        while axis < len(many) and (product < size or not group or last):
            product *= many[axis]
            group.append(axis)
            axis += 1
        if product != size:
            return None
        groups.append(group)
    return groups
