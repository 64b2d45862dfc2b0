"""Shapes and element types of the arguments and results of a program."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and element type of one argument or result.

    Attributes:
      shape: sizes; None for a dynamic dimension.
      dtype: element type in MLIR's spelling: `f32`, `bf16`, `i64`, `i1`, ...
      name: the model's own name for it, or an empty string.
    """

    shape: tuple[int | None, ...]
    dtype: str
    name: str = ""

    def __str__(self) -> str:
        """IREE's spelling, e.g. `4x?xf32`."""
        return "x".join(["?" if s is None else str(s) for s in self.shape] + [self.dtype])


@dataclasses.dataclass(frozen=True, slots=True)
class DynamicSize:
    """A size that a call chooses, with the bounds that the model was exported for.

    Attributes:
      name: the model's name for it.
      places: argument and axis of each dimension that has this size.
      least: the smallest size.
      most: the largest; None for no limit.
    """

    name: str
    places: tuple[tuple[int, int], ...]
    least: int = 0
    most: int | None = None

    def __str__(self) -> str:
        """The accepted sizes."""
        if self.most is None:
            return f"at least {self.least}"
        return f"{self.least} to {self.most}"
