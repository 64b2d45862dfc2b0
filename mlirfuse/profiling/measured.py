"""The measured times of a program, as data."""

from __future__ import annotations

import dataclasses
from typing import Any

from mlirfuse.profiling.capture import Capture
from mlirfuse.profiling.kernel_profile import KernelProfile
from mlirfuse.profiling.rates import Rates

SCHEMA = 1
"""Version of the JSON document."""


@dataclasses.dataclass(frozen=True, slots=True)
class MatchedSet:
    """Kernels of both programs that hold the same source ops.

    Attributes:
      ours: the kernels of our program.
      stock: the kernels of stock IREE's.
    """

    ours: tuple[KernelProfile, ...]
    stock: tuple[KernelProfile, ...]

    @property
    def ours_us(self) -> float:
        """Microseconds of our kernels, each in its fastest call."""
        return sum(kernel.min_us for kernel in self.ours)

    @property
    def stock_us(self) -> float:
        """Microseconds of stock IREE's kernels, each in its fastest call."""
        return sum(kernel.min_us for kernel in self.stock)

    @property
    def ratio(self) -> float | None:
        """Stock's time over ours; None where one of them has no kernel."""
        return self.stock_us / self.ours_us if self.ours and self.stock and self.ours_us else None

    def to_dict(self) -> dict[str, Any]:
        """The set as JSON has it."""
        return {
            "ours": [kernel.name for kernel in self.ours],
            "stock": [kernel.name for kernel in self.stock],
            "ours_us": self.ours_us,
            "stock_us": self.stock_us,
            "ratio": self.ratio,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A program beside stock IREE's.

    Attributes:
      stock: the profile of stock IREE's program.
      sets: the matched kernels, in the order of our slowest; then those of stock alone. Empty where
        the ops of the kernels are not known.
      ratio: the time of stock's fastest call over that of ours: other processes slow down the rest.
      kernel_ratio: the same of all kernels, each in its fastest call; None without kernels.
    """

    stock: Measured
    sets: tuple[MatchedSet, ...]
    ratio: float
    kernel_ratio: float | None

    def of(self, kernel: KernelProfile) -> MatchedSet | None:
        """The set of one of our kernels."""
        return next((s for s in self.sets if any(k is kernel for k in s.ours)), None)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON has it."""
        return {
            **{k: v for k, v in self.stock.to_dict().items() if k not in ("schema", "stock")},
            "sets": [found.to_dict() for found in self.sets],
            "ratio": self.ratio,
            "kernel_ratio": self.kernel_ratio,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured times of a program.

    Attributes:
      source: file name or model name.
      function: the function that was called.
      kernels: its kernels, the slowest first.
      wall_us: microseconds of the median call, for its caller; of two in the middle the faster one.
      min_wall_us: microseconds of the fastest call.
      min_busy_us: microseconds of the fastest call in which a kernel ran.
      busy_us: microseconds of the median call in which a kernel ran.
      between_us: microseconds of the median call in which none ran.
      rates: the rates of the device.
      capture: the launches that all this was computed from.
      comparison: the same with stock IREE's program; None where it was not asked for.
    """

    source: str
    function: str
    kernels: tuple[KernelProfile, ...]
    wall_us: float
    min_wall_us: float
    min_busy_us: float
    busy_us: float
    between_us: float
    rates: Rates
    capture: Capture
    comparison: Comparison | None = None

    @property
    def slowest(self) -> KernelProfile | None:
        """The kernel with the largest share; None for a program without kernels."""
        return self.kernels[0] if self.kernels else None

    def to_dict(self) -> dict[str, Any]:
        """The JSON document."""
        rates = dataclasses.asdict(self.rates)
        return {
            "schema": SCHEMA,
            "source": self.source,
            "function": self.function,
            "device": self.capture.device,
            "threads": self.capture.threads,
            "clock": self.capture.clock,
            "profiled_calls": len(self.capture.calls),
            "wall_us": self.wall_us,
            "min_wall_us": self.min_wall_us,
            "min_busy_us": self.min_busy_us,
            "busy_us": self.busy_us,
            "between_us": self.between_us,
            "rates": {name: value for name, value in rates.items() if name != "gpu"},
            "kernels": [kernel.to_dict() for kernel in self.kernels],
            "stock": None if self.comparison is None else self.comparison.to_dict(),
        }
