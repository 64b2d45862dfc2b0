"""Arrays that JAX's functions are called with: declared by shape and kind of values, seeded."""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

SPECIAL = {
    "f": (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, np.inf, -np.inf, np.nan),
    "c": (0.0, 1.0, -1.0, 1j, -1j, 2 - 1j),
    "i": (0, 1, -1, 2, -7),
    "u": (0, 1, 2, 7),
    "b": (False, True),
}
"""Values that the kind `special` begins with, by the kind of element type; integers add the largest
and the smallest number."""


@dataclasses.dataclass(frozen=True, slots=True)
class Array:
    """An array argument.

    Attributes:
      shape: its sizes.
      kind: a function of `KINDS`.
      dtype: element type; None for the one of the case.
    """

    shape: tuple[int, ...]
    kind: str = "normal"
    dtype: str | None = None

    def values(self, dtype: str, seed: str) -> Any:
        """The array of an element type; the same one for the same seed."""
        import jax.numpy as jnp

        found = np.dtype(getattr(jnp, self.dtype or dtype))
        # bfloat16 is of numpy's kind V.
        letter = "f" if found.kind == "V" else found.kind
        rng = np.random.default_rng(zlib.crc32(f"{seed}/{self.kind}/{self.shape}".encode()))
        wide = KINDS[self.kind](rng, self.shape, letter, found)
        with np.errstate(all="ignore"):
            return jnp.asarray(np.asarray(wide).astype(found))


def _normal(rng: Any, shape: tuple[int, ...], letter: str, dtype: Any) -> Any:
    if letter == "b":
        return rng.random(shape) < 0.5
    if letter in "iu":
        return rng.integers(-9 if letter == "i" else 0, 10, shape)
    real = rng.standard_normal(shape) * 2
    return real + 2j * rng.standard_normal(shape) if letter == "c" else real


def _special(rng: Any, shape: tuple[int, ...], letter: str, dtype: Any) -> Any:
    """Values of `SPECIAL` at random places, so that those of two arguments meet."""
    flat = np.asarray(_normal(rng, shape, letter, dtype)).reshape(-1)
    values: tuple[Any, ...] = SPECIAL[letter]
    if letter in "iu":
        values += (np.iinfo(dtype).max, np.iinfo(dtype).min)
        flat = flat.astype(np.int64)
    count = min(len(values), len(flat))
    flat[rng.permutation(len(flat))[:count]] = rng.permutation(np.asarray(values))[:count]
    return flat.reshape(shape)


def _tame(low: float, high: float) -> Callable[..., Any]:
    """Uniform values; integers and booleans where the range has any."""

    def draw(rng: Any, shape: tuple[int, ...], letter: str, dtype: Any) -> Any:
        if letter == "b":
            return np.ones(shape, bool) if low > 0 else rng.random(shape) < 0.5
        if letter in "iu":
            first = max(math.ceil(low), 0 if letter == "u" else math.ceil(low))
            return rng.integers(first, max(math.floor(high), first) + 1, shape)
        real = rng.uniform(low, high, shape)
        return real + 1j * rng.uniform(low, high, shape) if letter == "c" else real

    return draw


def _below(count: int) -> Callable[..., Any]:
    """Indices."""
    return lambda rng, shape, letter, dtype: rng.integers(0, count, shape)


def _nonzero(rng: Any, shape: tuple[int, ...], letter: str, dtype: Any) -> Any:
    drawn = np.asarray(_normal(rng, shape, letter, dtype))
    return np.where(drawn == 0, np.ones_like(drawn), drawn)


def _ties(rng: Any, shape: tuple[int, ...], letter: str, dtype: Any) -> Any:
    """Few different values, so that most have equals, and a NaN if there are as many rows."""
    drawn = np.asarray(rng.integers(-1 if letter in "ifc" else 0, 2, shape)).astype(
        complex if letter == "c" else float if letter == "f" else np.int64
    )
    if letter == "f" and len(shape) > 1:
        drawn[-1, ..., 1:3] = np.nan
    return drawn


def _permutation(rng: Any, shape: tuple[int, ...], letter: str, dtype: Any) -> Any:
    """Different values in random order."""
    return rng.permutation(math.prod(shape)).reshape(shape) - (0 if letter == "u" else 3)


def _sorted(rng: Any, shape: tuple[int, ...], letter: str, dtype: Any) -> Any:
    return np.sort(np.asarray(_normal(rng, shape, letter, dtype)), axis=-1)


def _definite(rng: Any, shape: tuple[int, ...], letter: str, dtype: Any) -> Any:
    """Hermitian, positive definite and well conditioned."""
    if letter == "b":
        return np.broadcast_to(np.eye(shape[-1], dtype=bool), shape)
    drawn = np.asarray(_normal(rng, shape, letter, dtype)) / 2
    size = shape[-1]
    return drawn @ np.conj(np.swapaxes(drawn, -1, -2)) + size * np.eye(size)


def _dominant(rng: Any, shape: tuple[int, ...], letter: str, dtype: Any) -> Any:
    """Well conditioned: the diagonal dominates."""
    return np.asarray(_normal(rng, shape, letter, dtype)) + 3 * shape[-1] * np.eye(shape[-1])


KINDS: dict[str, Callable[..., Any]] = {
    "normal": _normal,
    "special": _special,
    "positive": _tame(0.2, 6.0),
    "small": _tame(0.0, 4.0),
    "unit": _tame(-0.95, 0.95),
    "probability": _tame(0.05, 0.95),
    "above_one": _tame(1.1, 6.0),
    "shift": _tame(0.0, 12.0),
    "index2": _below(2),
    "index3": _below(3),
    "index4": _below(4),
    "index9": _below(9),
    "nonzero": _nonzero,
    "ties": _ties,
    "permutation": _permutation,
    "sorted": _sorted,
    "definite": _definite,
    "dominant": _dominant,
}
