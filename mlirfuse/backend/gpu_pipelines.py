"""Code generation pipelines of IREE 3.13 that compute wrong results of some dispatches for CUDA.

    flow.dispatch.region { tensor.pad, linalg.generic {reduction} }              implicit GEMM
    flow.dispatch.region { tensor.extract, linalg.generic {reduction} }          vector distribution

Found by fusion plans on an H200: a 7x7 convolution with dilation over a padded image of 7x13x32 f16
was wrong in 18 of 56 pixels, a transposed one of 3x256x7 that gathers its elements in 82 of 90.
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


def _is_wrong(region: ir.Operation) -> bool:
    inside = list(ops.nested_ops(region))
    moves = any(op.name in _MOVEMENTS for op in inside)
    return moves and any(
        ops.is_generic(op) and "reduction" in ops.iterator_types(op) for op in inside
    )
