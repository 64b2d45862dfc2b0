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

from mlirfuse.structured.ir import ops

FLAGS = (
    "--iree-codegen-llvmgpu-use-igemm=false",
    "--iree-codegen-llvmgpu-use-reduction-vector-distribution=false",
)
"""Flags of `iree-compile` that leave both to its pipeline of threads that have a tile each."""

_MOVEMENTS = frozenset({"tensor.pad", "tensor.extract"})


def has_wrong_forms(module: ir.Module) -> bool:
    """Whether a dispatch region of a module has a reduction, and pads or gathers what it reads."""
    regions = (o for o in ops.nested_ops(module.operation) if o.name == "flow.dispatch.region")
    return any(_is_wrong(region) for region in regions)


def has_strided_padding(module: ir.Module) -> bool:
    """Whether a dispatch region of a module has a slice with strides of what it pads."""
    for op in ops.nested_ops(module.operation):
        if op.name == "tensor.extract_slice" and ops.in_region(op) and not ops.has_unit_strides(op):
            source = ops.defining_op(op.operands[0])
            if source is not None and source.name == "tensor.pad" and ops.in_region(source):
                return True
    return False


def _is_wrong(region: ir.Operation) -> bool:
    inside = list(ops.nested_ops(region))
    moves = any(op.name in _MOVEMENTS for op in inside)
    return moves and any(
        ops.is_generic(op) and "reduction" in ops.iterator_types(op) for op in inside
    )
