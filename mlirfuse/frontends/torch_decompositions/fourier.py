"""Fourier transforms as matmuls with DFT matrices, recursively for long composite sizes.

size = a * b:  X[c + a d] = sum_j w_size^(c j) w_b^(d j) sum_i w_a^(c i) x[i b + j]
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch

Pair = tuple["torch.Tensor", "torch.Tensor"]

DIRECT = 64
"""Largest size that is one matmul, where a split is possible."""


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten._fft_r2c.default: _r2c,
        aten._fft_c2c.default: _c2c,
        aten._fft_c2r.default: _c2r,
    }


def _roots(rows: int, columns: int, size: int, sign: int, like: torch.Tensor) -> Pair:
    """Cos and sin of `sign 2 pi i j / size` for i < rows and j < columns."""
    import torch

    i = torch.arange(rows, device=like.device).unsqueeze(-1)
    j = torch.arange(columns, device=like.device)
    turn = torch.remainder(i * j, size)
    # Angles within half a turn are exact to the last bits.
    turn = torch.where(turn * 2 > size, turn - size, turn)
    angle = turn.to(like.dtype) * (sign * 2 * math.pi / size)
    return torch.cos(angle), torch.sin(angle)


def _factor(size: int) -> int:
    """The divisor nearest to the root; 1 for a prime."""
    return max(d for d in range(1, math.isqrt(size) + 1) if size % d == 0)


def _times(re: torch.Tensor, im: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> Pair:
    return re * c - im * s, re * s + im * c


def dft(re: torch.Tensor, im: torch.Tensor | None, sign: int) -> Pair:
    """The transform along the last axis; `im` is None for real values."""
    size = re.shape[-1]
    outer = _factor(size) if size > DIRECT else 1
    if outer == 1:
        c, s = _roots(size, size, size, sign, re)
        if im is None:
            return re @ c, re @ s
        return re @ c - im @ s, re @ s + im @ c
    inner = size // outer
    parts = [None if x is None else x.unflatten(-1, (outer, inner)).mT for x in (re, im)]
    a_re, a_im = dft(parts[0], parts[1], sign)  # type: ignore[arg-type]
    c, s = _roots(inner, outer, size, sign, re)
    t_re, t_im = (x.mT for x in _times(a_re, a_im, c, s))
    b_re, b_im = dft(t_re, t_im, sign)
    return b_re.mT.flatten(-2), b_im.mT.flatten(-2)


def _along(re: torch.Tensor, im: torch.Tensor | None, dim: int, sign: int) -> Pair:
    last = [None if x is None else x.movedim(dim, -1) for x in (re, im)]
    found = dft(last[0], last[1], sign)  # type: ignore[arg-type]
    return found[0].movedim(-1, dim), found[1].movedim(-1, dim)


def _scale(sizes: list[int], normalization: int) -> float:
    """0: none; 1: 1 / sqrt(size); 2: 1 / size."""
    size = math.prod(sizes)
    return 1.0 if not normalization else size ** (-0.5 if normalization == 1 else -1.0)


def _r2c(x: torch.Tensor, dim: list[int], normalization: int, onesided: bool) -> torch.Tensor:
    import torch

    scale = _scale([x.shape[d] for d in dim], normalization)
    re, im = _along(x, None, dim[-1], -1)
    if onesided:
        kept = x.shape[dim[-1]] // 2 + 1
        re, im = re.narrow(dim[-1], 0, kept), im.narrow(dim[-1], 0, kept)
    for d in reversed(dim[:-1]):
        re, im = _along(re, im, d, -1)
    return torch.complex(re * scale, im * scale)


def _c2c(x: torch.Tensor, dim: list[int], normalization: int, forward: bool) -> torch.Tensor:
    import torch

    scale = _scale([x.shape[d] for d in dim], normalization)
    re, im = torch.real(x), torch.imag(x)
    for d in reversed(dim):
        re, im = _along(re, im, d, -1 if forward else 1)
    return torch.complex(re * scale, im * scale)


def _c2r(x: torch.Tensor, dim: list[int], normalization: int, last_dim_size: int) -> torch.Tensor:
    """The inverse for half of a spectrum that is symmetric."""
    import torch

    re, im = torch.real(x), torch.imag(x)
    for d in dim[:-1]:
        re, im = _along(re, im, d, 1)
    last, size = dim[-1], last_dim_size
    scale = _scale([*(x.shape[d] for d in dim[:-1]), size], normalization)
    re, im = re.movedim(last, -1), im.movedim(last, -1)
    kept = size // 2 + 1
    c, s = _roots(kept, size, size, 1, re)
    # Each bin but the first and, for even sizes, the last one stands for two.
    index = torch.arange(kept, device=x.device)
    single = (index == 0) | (index * 2 == size)
    weight = torch.where(single, 1.0, 2.0).unsqueeze(-1) * scale
    y = re @ (c * weight) - im @ (s * weight)
    return y.movedim(-1, last)
