"""Kernels that compute a region one after the other, the later ones from totals of the earlier.

%y = flow.dispatch.region { ... }
becomes
%totals = flow.dispatch @vector_kernel_1f00::@rows_0(%x)
%y = flow.dispatch @vector_kernel_2e11::@rows_1(%totals)
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels import calls
from mlirfuse.kernels.vector import executable
from mlirfuse.kernels.vector.executable import VectorKernel


@dataclasses.dataclass(frozen=True, slots=True)
class Stages:
    """Kernels of a region.

    Attributes:
      kernels: in the order in which they run. An operand that is made is named by `made_by`.
      returned: for each result of the region the kernel that writes it, and the number of the
        kernel's result.
    """

    kernels: tuple[VectorKernel, ...]
    returned: tuple[tuple[int, int], ...]


def alone(kernel: VectorKernel) -> Stages:
    """One kernel, whose results are those of the region."""
    return Stages((kernel,), tuple((0, n) for n in range(len(kernel.results))))


def made_by(stage: int, number: int) -> str:
    """The name of a result of an earlier kernel, as an operand of a later one."""
    return f"{stage}.{number}"


def replace(region: ir.Operation, stages: Stages) -> ir.Operation:
    """Replaces a region by calls of its kernels; returns the last one.

    Args:
      region: a `flow.dispatch.region`.
      stages: its kernels.
    """
    made: dict[str, ir.Value] = {}
    called: list[ir.Operation] = []
    for stage, kernel in enumerate(stages.kernels):
        called.append(executable.call(region, kernel, made))
        made |= {made_by(stage, n): value for n, value in enumerate(called[-1].results)}
    for old, (stage, number) in zip(region.results, stages.returned, strict=True):
        old.replace_all_uses_with(called[stage].results[number])
    calls.describe(called, region)
    region.erase()
    return called[-1]
