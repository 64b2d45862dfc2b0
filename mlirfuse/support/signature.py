"""Shapes and element types of the arguments and results of a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and element type of one argument or result.

    Attributes:
      shape: sizes; None for a dynamic dimension.
      dtype: element type in MLIR's spelling: `f32`, `bf16`, `i64`, `i1`, ...
      name: the model's own name for it; an empty string for none.
      order: its axes from the outermost to the innermost in memory, which are those of the
        program's tensor; empty where they are in order.
      wide: the model's element type where that of the program is narrower, whose arguments are
        converted; empty where they are the same.
    """

    shape: tuple[int | None, ...]
    dtype: str
    name: str = ""
    order: tuple[int, ...] = ()
    wide: str = ""

    def __str__(self) -> str:
        """IREE's spelling, e.g. `4x?xf32`."""
        return "x".join(["?" if s is None else str(s) for s in self.shape] + [self.dtype])

    @property
    def inverse(self) -> tuple[int, ...]:
        """The order that undoes `order`."""
        return inverse(self.order)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> TensorSpec:
        """The spec of its fields, as JSON has them."""
        given = tuple(entry["shape"]), entry["dtype"], entry["name"]
        return cls(*given, tuple(entry.get("order", ())), entry.get("wide", ""))


@dataclasses.dataclass(frozen=True, slots=True)
class DynamicSize:
    """A dynamic size of a model, and the range that it was exported for.

    Attributes:
      name: the model's name for it.
      dimensions: index of the argument and axis of each dimension of this size.
      min: the smallest size.
      max: the largest size; None for no limit.
    """

    name: str
    dimensions: tuple[tuple[int, int], ...]
    min: int = 0
    max: int | None = None

    def __str__(self) -> str:
        """The accepted range."""
        if self.max is None:
            return f"at least {self.min}"
        return f"{self.min} to {self.max}"


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The order of axes that undoes an order."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def demoted(spec: TensorSpec) -> TensorSpec:
    """The spec of a tensor whose f64 elements IREE converts to f32; others are unchanged."""
    narrow = spec.dtype.replace("f64", "f32")
    if narrow == spec.dtype:
        return spec
    return dataclasses.replace(spec, dtype=narrow, wide=spec.dtype)
