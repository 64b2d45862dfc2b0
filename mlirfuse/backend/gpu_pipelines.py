"""Code generation pipelines of IREE 3.13 that compute wrong results of some dispatches for CUDA.

    flow.dispatch.region { tensor.pad, linalg.generic {reduction} }              implicit GEMM
    flow.dispatch.region { tensor.extract, linalg.generic {reduction} }          vector distribution

Found by fusion plans on an H200: a transposed convolution of 3x256x7 f16 that gathers its elements
was wrong in 82 of 90 pixels. A 7x7 one with dilation over a padded image of 7x13x32 was wrong in 18
of 56 by any pipeline: it reads a slice with strides of the padding, whose strides are lost.
Dispatches of these forms are IREE's only where no kernel of ours takes them.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import CompileFailedError
from mlirfuse.structured.ir import ops

FLAGS = (
    "--iree-codegen-llvmgpu-use-igemm=false",
    "--iree-codegen-llvmgpu-use-reduction-vector-distribution=false",
)
"""Flags of `iree-compile` that leave both to its pipeline of threads that have a tile each."""

_MOVEMENTS = frozenset({"tensor.pad", "tensor.extract"})


def safe_flags(module: ir.Module) -> tuple[str, ...]:
    """The flags with which IREE computes a module right.

    Raises:
      CompileFailedError: there are none: a dispatch region has a slice with strides of what it
        pads.
    """
    regions = [o for o in ops.nested_ops(module.operation) if o.name == ops.REGION]
    if any(map(_has_strided_padding, regions)):
        message = "IREE 3.13 computes slices with strides of paddings wrong"
        raise CompileFailedError(message, stage="codegen")
    return FLAGS if any(map(_moves_and_reduces, regions)) else ()


def _has_strided_padding(region: ir.Operation) -> bool:
    """Whether a region has a slice with strides of what it pads."""
    for op in ops.nested_ops(region):
        if op.name == "tensor.extract_slice" and not ops.has_unit_strides(op):
            source = ops.defining_op(op.operands[0])
            if source is not None and source.name == "tensor.pad" and ops.in_region(source):
                return True
    return False


def _moves_and_reduces(region: ir.Operation) -> bool:
    """Whether a region has a reduction, and pads or gathers what it reads."""
    inside = list(ops.nested_ops(region))
    moves = any(op.name in _MOVEMENTS for op in inside)
    return moves and any(
        ops.is_generic(op) and "reduction" in ops.iterator_types(op) for op in inside
    )
