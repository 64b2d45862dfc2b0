"""Convolutions for which a target has a kernel."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.convolution.analysis import is_supported
from mlirfuse.kernels.vector import convolution
from mlirfuse.targets.base import Target


def has_kernel(op: ir.Operation, target: Target) -> bool:
    """Whether a kernel of the target computes a convolution, as far as the op alone shows.

    Args:
      op: any op.
      target: a CPU, whose kernels are in the vector dialect, or a GPU, whose need Triton.
    """
    if target.cpu is not None:
        return convolution.takes(op)
    return triton_compiler.supports(target) and is_supported(op)
