"""Fractional max pooling, whose windows begin at places that random numbers choose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.fractional_max_pool2d.default: _pool,
        aten.fractional_max_pool3d.default: _pool,
    }


def _pool(
    x: torch.Tensor, kernel: Sequence[int], outputs: Sequence[int], samples: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The maximum of each window, and its index in the image.

    Args:
      x: (batch, channels, *image), or without a batch.
      kernel: size of the windows, for each axis of the image.
      outputs: number of windows along each axis.
      samples: numbers of [0, 1), (batch, channels, axes): those of two axes are in reverse order.
        Half precision is computed in float32, as by PyTorch on CUDA.
    """
    import torch

    rank = len(kernel)
    outer, image = x.shape[:-rank], x.shape[-rank:]
    samples = samples if len(outer) == 2 else samples[0]
    samples = samples.float() if is_half(samples.dtype) else samples
    index = torch.zeros((), dtype=torch.int64, device=x.device)
    for axis, (size, span, count) in enumerate(zip(image, kernel, outputs, strict=True)):
        sample = samples[..., rank - 1 - axis if rank == 2 else axis]
        starts = _starts(sample, size, span, count).unsqueeze(-1)
        places = starts + torch.arange(span, device=x.device)
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = count, span
        index = index + places.view(*outer, *shape) * math.prod(image[axis + 1 :])
    index = index.flatten(-rank)
    elements = x.flatten(-rank).gather(-1, index.flatten(len(outer))).view(index.shape)
    values, which = elements.max(-1)
    return values, index.gather(-1, which.unsqueeze(-1)).squeeze(-1)


def _starts(sample: torch.Tensor, size: int, span: int, count: int) -> torch.Tensor:
    """The first places of the windows, (..., count), which the sample moves by less than one."""
    import torch

    last = torch.full_like(sample, size - span, dtype=torch.int64).unsqueeze(-1)
    if count == 1:
        return last
    distance = (size - span) / (count - 1)
    numbers = torch.arange(count - 1, dtype=sample.dtype, device=sample.device)
    sample = sample.unsqueeze(-1)
    starts = ((numbers + sample) * distance).to(torch.int64)
    return torch.cat([starts - (sample * distance).to(torch.int64), last], -1)
