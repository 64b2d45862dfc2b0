"""Prologues of groups of row reductions, with the gathers that a kernel of the target computes."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.vector import rows
from mlirfuse.kernels.vector.stages import Stages
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import gathers, norm_prologues
from mlirfuse.structured.recognize.norm_epilogues import Extension
from mlirfuse.targets.base import CpuDevice, Target


def find(region: ir.Operation, target: Target) -> Extension | NoMatch | None:
    """The prologue of a group, as of `norm_prologues.find`.

    Kernels for GPUs take any gather, the one for a CPU those of whole columns; IREE's code for a
    CPU, where there is no kernel, none.

    Args:
      region: a group that `norm_epilogues.reduces_rows`.
      target: the machine that is compiled for.
    """
    if triton_compiler.supports(target):
        return norm_prologues.find(region, target, gathers=True, shares=True)
    if target.vector_kernels and target.cpu is not None:
        found = norm_prologues.find(region, target, gathers=True)
        if isinstance(found, Extension) and _gathers_in_kernel(region, found, target.cpu):
            return found
    return norm_prologues.find(region, target)


def _gathers_in_kernel(region: ir.Operation, found: Extension, device: CpuDevice) -> bool:
    """Whether a prologue gathers, and a kernel for a CPU computes it with its group."""
    if found.space is not None or not any(map(gathers.is_gather, found.ops)):
        return False
    results = [ops.yielded_value(value) for value in region.results]
    planned = rows.plan_group([*found.ops, *found.inner], results, device, list(region.operands))
    return isinstance(planned, Stages)
