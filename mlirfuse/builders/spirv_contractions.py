"""Contractions of f16 that IREE 3.13 does not compile for cooperative matrices of NVIDIA's GPUs.

    %c = linalg.matmul ins(%a, %b) -> f32               tensor<16x64xf16>, tensor<64x1000xf16>
  becomes
    %c = linalg.generic {fma(extf, extf)} ins(%a, %b)

Where M and K are multiples of 16, and N is one of 8 and not of 16, IREE chooses a matrix
instruction of 16x8x16, and generates none ("no GPU subgroup mma compute ops generated"). A fused
multiply-add is no contraction for it, and gives the same numbers: f32 holds the product of two f16
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from mlirfuse.builders.tensors import generic, scalar
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import MmaShape, Target


def repair(module: ir.Module, target: Target) -> bool:
    """Rewrites all such ops; returns whether there is any."""
    shape = target.missing_mma_shapes.get("f16")
    if shape is None:
        return False
    contractions = [op for op in ops.nested_ops(module.operation) if ops.is_contraction(op)]
    found = [op for op in contractions if _is_refused(op, shape)]
    for op in found:
        _with_multiply_add(op)
    return bool(found)


def _is_refused(op: ir.Operation, shape: MmaShape) -> bool:
    """Whether IREE chooses the instruction that it does not generate."""
    tensors = (*ops.inputs(op), op.results[0])
    if [ops.element_type(value) for value in tensors] != ["f16", "f16", "f32"]:
        return False
    left, right, written = ({*index_map} - {None} for index_map in ops.plain_maps(op))
    sizes = ops.loop_sizes(op)
    m = _extents(left & written - right, sizes)
    n = _extents(right & written - left, sizes)
    k = _extents(left & right - written, sizes)
    divided = any(e % shape[0] == 0 for e in m) and any(e % shape[2] == 0 for e in k)
    return divided and any(e % shape[1] == 0 and e % (2 * shape[1]) for e in n)


def _extents(loops: Iterable[int | None], sizes: Sequence[int | None]) -> tuple[int, ...]:
    """The size of the innermost loop, and of all if IREE collapses them; none for dynamic ones."""
    ordered = [sizes[loop] for loop in sorted(loop for loop in loops if loop is not None)]
    known = [size for size in ordered if size is not None]
    return (known[-1], math.prod(known)) if known and len(known) == len(ordered) else ()


def _with_multiply_add(op: ir.Operation) -> None:
    def body(values: list[ir.Value]) -> list[ir.Value]:
        left, right = (scalar("arith.extf", [value], "f32") for value in values[:2])
        return [scalar("math.fma", [left, right, values[2]], "f32")]

    with ir.InsertionPoint(op), op.location:
        new = generic(
            ops.inputs(op), ops.inits(op), ops.plain_maps(op), ops.iterator_types(op), body
        )
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
