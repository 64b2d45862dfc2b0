"""The memory traffic of kernels beside that of stock IREE's kernels with the same source ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlirfuse.final_kernels import FinalKernel, moved_bytes
from mlirfuse.support.components import components


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """Kernels of a program and those of stock IREE's program that have the same source ops.

    Attributes:
      kernels: kernels of the program.
      stock: kernels of stock IREE's.
    """

    kernels: tuple[FinalKernel, ...]
    stock: tuple[FinalKernel, ...]

    @property
    def bytes(self) -> int | None:
        """Bytes of the operands of `kernels`; None where one has a dynamic size."""
        return moved_bytes(self.kernels)

    @property
    def stock_bytes(self) -> int | None:
        """Bytes of the operands of `stock`; None where one has a dynamic size."""
        return moved_bytes(self.stock)

    @property
    def bytes_saved(self) -> int | None:
        """The difference of both."""
        if self.bytes is None or self.stock_bytes is None:
            return None
        return self.stock_bytes - self.bytes


def against(kernels: Sequence[FinalKernel], stock: Sequence[FinalKernel]) -> list[Traffic]:
    """The kernels of two programs that share source ops; those that share none are left out."""
    origins = [[_origins(kernel) for kernel in side] for side in (kernels, stock)]
    return [
        Traffic(tuple(kernels[i] for i in first), tuple(stock[i] for i in second))
        for first, second in components(*origins)
        if first and second
    ]


def _origins(kernel: FinalKernel) -> frozenset[tuple[str, str, str]]:
    """Function, location and layer of each source op that has a location."""
    function = kernel.model_function
    return frozenset((function, op, layer) for op, layer in kernel.places if op != "-")
