"""Compares results with a framework's: element type, shape, places of NaN, values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlirfuse.runtime import arrays


def flat(value: Any) -> list[Any]:
    """The arrays of nested containers, in order; None counts as no result."""
    if value is None:
        return []
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flat(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


def difference(got: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float) -> str:
    """The first difference, on one line; an empty string if there is none.

    Args:
      got: results of the program.
      expected: results of the framework; None for one that is not compared.
      rtol: error allowed relative to the expected element.
      atol: absolute error allowed.
    """
    if len(got) != len(expected):
        return f"{len(got)} results; expected {len(expected)}"
    for index, (result, reference) in enumerate(zip(got, expected, strict=True)):
        if reference is not None and (found := _difference(result, reference, rtol, atol)):
            return f"result {index}: {found}" if len(expected) > 1 else found
    return ""


def _difference(result: Any, reference: Any, rtol: float, atol: float) -> str:
    types = [arrays.dtype_name(value) for value in (result, reference)]
    if types[0] != types[1]:
        return f"element type {types[0]}; expected {types[1]}"
    if types[1] == "complex32":  # numpy has no such type
        result, reference = (value.cfloat() for value in (result, reference))
    ours, theirs = (np.asarray(arrays.numpy_of(value)) for value in (result, reference))
    if ours.shape != theirs.shape:
        return f"shape {list(ours.shape)}; expected {list(theirs.shape)}"
    if types[1].startswith("complex"):
        ours, theirs = (_parts(array) for array in (ours, theirs))
    elif types[1].startswith(("f", "bf")):
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    else:
        wrong = ours != theirs
        return _first(ours, theirs, wrong) if wrong.any() else ""
    with np.errstate(invalid="ignore", over="ignore"):
        special = ~np.isfinite(theirs) | ~np.isfinite(ours)
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        far = np.abs(ours - theirs) > atol + rtol * np.abs(theirs)
    wrong = np.where(special, ~same, far)
    return _first(ours, theirs, wrong) if wrong.any() else ""


def _parts(array: np.ndarray) -> np.ndarray:
    """Real and imaginary parts as a last axis."""
    return np.stack([array.real, array.imag], -1).astype(np.float64)


def _first(ours: np.ndarray, theirs: np.ndarray, wrong: np.ndarray) -> str:
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    count = int(wrong.sum())
    return f"{count} of {wrong.size} elements, at {list(place)} {ours[place]} for {theirs[place]}"
