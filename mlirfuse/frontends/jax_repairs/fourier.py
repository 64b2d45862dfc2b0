"""`stablehlo.fft` as matmuls with the matrices of small transforms, as a JAX program.

A length n1 * n2 is n2 transforms of length n1, a multiplication by powers of the root of unity, and
n1 transforms of length n2 (Cooley and Tukey, 1965); a large prime length is a convolution of a
composite length (Bluestein, 1970). Real and imaginary parts are tensors of their own: a complex
matmul is four real ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

Array = Any
Pair = tuple[Array, Array]

_DIRECT = 64
"""Length up to which a transform is one matmul."""

_PRIME = 512
"""Prime length up to which a transform is one matmul."""


def fft(x: Array, *, kind: str, lengths: Sequence[int]) -> Array:
    """The transform of the last `len(lengths)` dimensions.

    Args:
      x: real for `RFFT`, else complex.
      kind: `FFT`, `IFFT`, `RFFT` or `IRFFT`.
      lengths: sizes of the dimensions in the time domain.
    """
    axes = list(range(x.ndim - len(lengths), x.ndim))
    if kind == "RFFT":
        real, imaginary = _transform((x, jnp.zeros_like(x)), axes[-1], False)
        kept = lengths[-1] // 2 + 1
        pair = real[..., :kept], imaginary[..., :kept]
        for axis in axes[:-1]:
            pair = _transform(pair, axis, False)
        return lax.complex(*pair)
    pair = lax.real(x), lax.imag(x)
    inverse = kind in ("IFFT", "IRFFT")
    for axis in axes[:-1] if kind == "IRFFT" else axes:
        pair = _transform(pair, axis, inverse)
    factor = 1 / math.prod(lengths) if inverse else 1.0
    if kind == "IRFFT":
        real, _ = _transform(_hermitian(pair, lengths[-1]), axes[-1], True)
        return real * jnp.asarray(factor, real.dtype)
    return lax.complex(*(part * jnp.asarray(factor, part.dtype) for part in pair))


def _hermitian(pair: Pair, length: int) -> Pair:
    """All frequencies of a real signal from the first half; the first and middle one are real."""
    real, imaginary = pair
    middle = (length - 1) // 2 + 1
    mask = np.ones(real.shape[-1], bool)
    mask[0] = False
    if length % 2 == 0:
        mask[length // 2] = False
    imaginary = jnp.where(mask, imaginary, 0)
    tail = [part[..., 1:middle][..., ::-1] for part in (real, imaginary)]
    return (
        jnp.concatenate([real, tail[0]], -1),
        jnp.concatenate([imaginary, -tail[1]], -1),
    )


def _transform(pair: Pair, axis: int, inverse: bool) -> Pair:
    moved = tuple(jnp.moveaxis(part, axis, -1) for part in pair)
    real, imaginary = _last((moved[0], moved[1]), inverse)
    return jnp.moveaxis(real, -1, axis), jnp.moveaxis(imaginary, -1, axis)


def _last(pair: Pair, inverse: bool) -> Pair:
    """The transform of the last dimension, not scaled."""
    size = pair[0].shape[-1]
    if size <= _DIRECT:
        return _direct(pair, inverse)
    first = _divisor(size)
    if first == 1:
        return _direct(pair, inverse) if size <= _PRIME else _bluestein(pair, inverse)
    second = size // first
    lead = pair[0].shape[:-1]
    real, imaginary = (p.reshape(*lead, first, second) for p in pair)
    pair = _transform((real, imaginary), -2, inverse)
    pair = _times(pair, _roots(np.outer(range(first), range(second)), size, inverse))
    real, imaginary = (jnp.swapaxes(p, -1, -2).reshape(*lead, size) for p in _last(pair, inverse))
    return real, imaginary


def _divisor(size: int) -> int:
    """The largest divisor up to the square root."""
    return next(d for d in range(math.isqrt(size), 0, -1) if size % d == 0)


def _roots(powers: Any, size: int, inverse: bool) -> tuple[Any, Any]:
    """Cosine and sine of the powers of a root of unity, in float64."""
    angles = (2 if inverse else -2) * np.pi * (np.asarray(powers) % size) / size
    return np.cos(angles), np.sin(angles)


def _times(pair: Pair, factors: tuple[Any, Any]) -> Pair:
    real, imaginary = pair
    c, s = (jnp.asarray(f, real.dtype) for f in factors)
    return real * c - imaginary * s, real * s + imaginary * c


def _direct(pair: Pair, inverse: bool) -> Pair:
    real, imaginary = pair
    size = real.shape[-1]
    matrices = _roots(np.outer(range(size), range(size)), size, inverse)
    c, s = (jnp.asarray(m, real.dtype) for m in matrices)
    return real @ c - imaginary @ s, real @ s + imaginary @ c


def _bluestein(pair: Pair, inverse: bool) -> Pair:
    size = pair[0].shape[-1]
    length = 1 << (2 * size - 2).bit_length()
    # Squares modulo 2 n: the angle is k * k / 2.
    squares = np.array([k * k % (2 * size) for k in range(size)])
    chirp = _roots(squares, 2 * size, inverse)
    kernel = np.zeros(length, complex)
    kernel[:size] = chirp[0] - 1j * chirp[1]
    kernel[length - size + 1 :] = kernel[1:size][::-1]
    spectrum = np.fft.fft(kernel) / length
    widths = [(0, 0)] * (pair[0].ndim - 1) + [(0, length - size)]
    real, imaginary = (jnp.pad(part, widths) for part in _times(pair, chirp))
    product = _times(_last((real, imaginary), False), (spectrum.real, spectrum.imag))
    real, imaginary = (part[..., :size] for part in _last(product, True))
    return _times((real, imaginary), chirp)
