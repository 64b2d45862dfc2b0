"""Convolutions without a lowering in IREE 3.13: by channel (3-D, transposed), and of integers.

Transposed ones of groups in 1-D, which it lowers with a further dimension, are here, too.

y = conv_transpose(x, w, stride=s)
  becomes
y = conv(x with s - 1 zeros between elements, w reversed and transposed)

A transposed convolution of images of one pixel is a matmul.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends import torch_spread
from mlirfuse.frontends.torch_convolutions import convolution_op, is_lowered
from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch


def table(default: Table) -> Table:
    """The decompositions, around those of `default`."""
    import torch

    op = torch.ops.aten.convolution.default
    return {
        op: _convolution(default.get(op)),
        torch.ops.aten.convolution_backward.default: _derivatives,
        torch.ops.aten.col2im.default: _col2im,
    }


def _derivatives(
    gradient: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """Derivatives of a transposed convolution: convolutions of the gradient of its result."""
    import torch

    if not transposed:
        return NotImplemented
    of_x, of_w, of_bias = output_mask
    sizes = (stride, padding, dilation)
    zero = [0] * len(padding)
    dx = torch.convolution(gradient, w, None, *sizes, False, zero, groups) if of_x else None
    dw = None
    if of_w:  # that of the convolution from the gradient's shape to x
        mask = [False, True, False]
        dw = torch.ops.aten.convolution_backward(
            x, gradient, w, None, *sizes, False, zero, groups, mask
        )[1]
    db = gradient.sum([0, *range(2, gradient.dim())]) if of_bias else None
    return dx, dw, db


def _convolution(otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    def decomposition(
        x: torch.Tensor,
        w: torch.Tensor,
        bias: torch.Tensor | None,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        transposed: bool,
        output_padding: Sequence[int],
        groups: int,
    ) -> Any:
        import torch

        integral = not (x.dtype.is_floating_point or x.dtype.is_complex)
        by_channel = groups > 1 and w.shape[0] == groups
        if transposed and (integral or by_channel or (groups > 1 and w.dim() == 3)):
            sides = zip(dilation, w.shape[2:], padding, strict=True)
            low = [d * (k - 1) - p for d, k, p in sides]
            high = [side + more for side, more in zip(low, output_padding, strict=True)]
            x, w = _spread(x, low, high, stride), _reversed(w, groups)
            rank = len(padding)
            one, zero = [1] * rank, [0] * rank
            return torch.convolution(x, w, bias, one, zero, dilation, False, zero, groups)
        ones = all(isinstance(size, int) and size == 1 for size in x.shape[2:])
        single = transposed and groups == 1 and ones
        if single and not any((*padding, *output_padding)) and set(dilation) == {1}:
            y = torch.mm(x.flatten(1), w.flatten(1)).unflatten(1, w.shape[1:])
            return y if bias is None else y + bias.view(-1, *[1] * len(padding))
        if by_channel and is_lowered(x, w):
            x = torch.constant_pad_nd(x, [p for p in reversed(padding) for _ in range(2)])
            return convolution_op()(x, w, bias, list(stride), list(dilation))
        if not transposed and w.dim() == 5 and groups > 1 and w.shape[1] == 1 and not integral:
            x = torch.constant_pad_nd(x, [0, 0, 0, 0, padding[0], padding[0]])
            return _of_planes(x, w, bias, stride, padding, dilation, groups)
        if integral and w.dim() == 5:
            x = torch.constant_pad_nd(x, [p for p in reversed(padding) for _ in range(2)])
            y = _by_taps(x, w, stride, dilation, groups)
            return y if bias is None else y + bias.view(-1, 1, 1, 1)
        if otherwise is None:
            return NotImplemented
        return otherwise(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)

    return decomposition


def _col2im(
    columns: torch.Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> torch.Tensor:
    """Sums of the windows at their places, along one axis after the other.

    Args:
      columns: (batch, channels * kernel, windows), or without the batch.
      output_size: height and width of the image.
      kernel_size: of a window.
      dilation: distance of the elements of a window.
      padding: rows and columns around the image that are dropped.
      stride: distance of windows.
    """
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(output_size, kernel_size, dilation, padding, stride, strict=True)
    ]
    *batch, rows, _ = columns.shape
    channels = rows // (kernel_size[0] * kernel_size[1])
    windows = columns.reshape(-1, channels, *kernel_size, *counts)
    lines = _summed_windows(
        windows.permute(0, 1, 2, 4, 3, 5), output_size[1], dilation[1], padding[1], stride[1]
    )  # (batch, channels, kernel's rows, rows of windows, width)
    image = _summed_windows(
        lines.permute(0, 1, 4, 2, 3), output_size[0], dilation[0], padding[0], stride[0]
    )  # (batch, channels, width, height)
    return image.mT.reshape(*batch, channels, *output_size)


def _summed_windows(
    x: torch.Tensor, size: int, dilation: int, padding: int, stride: int
) -> torch.Tensor:
    """Sums of windows at their places along an axis.

    Args:
      x: (..., elements of a window, windows).
      size: of the axis, without the padding.
      dilation: distance of the elements of a window.
      padding: elements before and after the axis that are dropped.
      stride: distance of windows.
    """
    import torch

    elements, count = x.shape[-2:]
    spread = (count - 1) * stride + 1
    total = None
    for element in range(elements):
        part = x[..., element, :]
        if stride > 1:
            part = torch.constant_pad_nd(part.unsqueeze(-1), [0, stride - 1])
            part = part.flatten(-2).narrow(-1, 0, spread)
        before = element * dilation - padding
        part = torch.constant_pad_nd(part, [before, size - before - spread])
        total = part if total is None else total + part
    assert total is not None
    return total


def _spread(
    x: torch.Tensor, low: Sequence[int], high: Sequence[int], stride: Sequence[int]
) -> torch.Tensor:
    """The image with zeros between its elements, and around them; negative numbers cut it."""
    import torch

    if torch_spread.is_lowered(x, low, high):
        return torch_spread.spread_op()(x, list(low), list(high), list(stride))
    for axis, step in enumerate(stride, start=2):
        if step > 1:
            size = x.shape[axis]
            wide = torch.constant_pad_nd(x.movedim(axis, -1).unsqueeze(-1), [0, step - 1])
            x = wide.flatten(-2).narrow(-1, 0, (size - 1) * step + 1).movedim(-1, axis)
    pads = [n for ends in reversed([*zip(low, high, strict=True)]) for n in ends]
    return torch.constant_pad_nd(x, pads)


def _reversed(w: torch.Tensor, groups: int) -> torch.Tensor:
    """The kernel of the convolution: (in, out / groups, ...) -> (out, in / groups, ...)."""
    parts = w.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    return parts.flip(list(range(2, w.dim())))


def _of_planes(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """A sum of 2-D convolutions of planes, one for each plane of the filter.

    The input is padded along its first dimension.
    """
    import torch

    depth = (x.shape[2] - dilation[0] * (w.shape[2] - 1) - 1) // stride[0] + 1
    reach = (depth - 1) * stride[0] + 1
    planes = x.movedim(2, 0)  # some of them are one run of memory
    total = None
    for place in range(w.shape[2]):
        start = place * dilation[0]
        part = planes[start : start + reach : stride[0]].flatten(0, 1)
        y = torch.convolution(
            part,
            w[:, :, place],
            bias if total is None else None,
            stride[1:],
            padding[1:],
            dilation[1:],
            False,
            [0, 0],
            groups,
        )
        total = y if total is None else total + y
    assert total is not None
    return total.unflatten(0, (depth, -1)).movedim(0, 2)


def _by_taps(
    x: torch.Tensor, w: torch.Tensor, stride: Sequence[int], dilation: Sequence[int], groups: int
) -> torch.Tensor:
    """A matmul for each place in the kernel; the input is padded."""
    import torch

    kernel = w.shape[2:]
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    weights = w.unflatten(0, (groups, -1))
    total = None
    for place in itertools.product(*map(range, kernel)):
        part = x
        for axis, at in enumerate(place):
            start = at * dilation[axis]
            stop = start + (sizes[axis] - 1) * stride[axis] + 1
            part = part[(slice(None),) * (2 + axis) + (slice(start, stop, stride[axis]),)]
        columns = part.flatten(2).unflatten(1, (groups, -1))
        product = torch.matmul(weights[(..., *place)], columns)
        total = product if total is None else total + product
    assert total is not None
    return total.flatten(1, 2).unflatten(-1, sizes)
