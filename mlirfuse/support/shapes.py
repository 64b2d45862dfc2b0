"""Shapes on the command line: `1x3x224x224`, `x:1x3x224x224,mask:1x128`."""

from __future__ import annotations

import dataclasses

from mlirfuse.core import UsageError

SCALAR = "-"
"""The shape of a scalar."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """An example input of which only the shape is known."""

    shape: tuple[int, ...]


def sizes(text: str) -> tuple[int, ...] | None:
    """The sizes of one shape, each above zero; None where the text is none."""
    if text == SCALAR:
        return ()
    words = text.split("x")
    return tuple(map(int, words)) if all(w.isdecimal() and int(w) for w in words) else None


def example_inputs(text: str | None) -> tuple[Shape, ...] | dict[str, Shape] | None:
    """The value of `--shapes` as example inputs; None where it is not given.

    Raises:
      UsageError: it is malformed.
    """
    if text is None:
        return None
    named, ordered = {}, []
    for part in text.split(","):
        name, _, shape = part.rpartition(":")
        found = sizes(shape)
        if found is None:
            raise UsageError(f"--shapes takes 1x3x224x224 or x:1x3x224x224, not '{part}'")
        if name:
            named[name] = Shape(found)
        else:
            ordered.append(Shape(found))
    if named and ordered:
        raise UsageError("--shapes takes all shapes by name, or all in order")
    return named or tuple(ordered)
