"""Sizes of windows over images."""

from __future__ import annotations

from collections.abc import Iterator

from mlirfuse.fusion_plan.codes import Code, Refusal
from mlirfuse.fusion_plan.tensors import TensorSpec


def spread(value: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The value for each dimension.

    Raises:
      Refusal: there are values for another number of dimensions, or others than integers.
    """
    values = tuple(value) if isinstance(value, tuple | list) else (value,) * rank
    if not all(isinstance(each, int) for each in values):
        raise Refusal(Code.SHAPE, f"{value!r} is no size in elements")
    if len(values) != rank:
        raise Refusal(Code.SHAPE, f"{len(values)} values for {rank} spatial dimensions")
    return values


def windows(
    given: TensorSpec,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[int, ...]:
    """Spatial sizes of the result of a convolution or pooling.

    Raises:
      Refusal: a window does not fit into the padded image, or a number is too small.
    """
    sizes = []
    for size, k, s, p, d in _along_axes(given, kernel, stride, padding, dilation):
        span = size + 2 * p - d * (k - 1) - 1
        if span < 0:
            raise Refusal(Code.FILTER_SIZE, f"a filter of {k} does not fit into {size} elements")
        sizes.append(span // s + 1)
    return tuple(sizes)


def transposed_windows(
    given: TensorSpec,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    output_padding: tuple[int, ...],
) -> tuple[int, ...]:
    """Spatial sizes of the result of a transposed convolution.

    Raises:
      Refusal: the padding leaves nothing of the result, or a number is too small or too large.
    """
    sizes = []
    axes = _along_axes(given, kernel, stride, padding, dilation)
    for (size, k, s, p, d), extra in zip(axes, output_padding, strict=True):
        if not 0 <= extra < max(s, d):
            raise Refusal(
                Code.PADDING,
                f"an output padding of {extra}, which is 0 or more and less than the stride of {s}"
                f" or the dilation of {d}",
            )
        found = (size - 1) * s - 2 * p + d * (k - 1) + 1 + extra
        if found < 1:
            raise Refusal(Code.PADDING, f"a padding of {p} leaves nothing of the result")
        sizes.append(found)
    return tuple(sizes)


def _along_axes(
    given: TensorSpec,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Iterator[tuple[int, int, int, int, int]]:
    """Size of the image, kernel, stride, padding and dilation of each spatial dimension.

    Raises:
      Refusal: a number is too small.
    """
    if min(kernel) < 1:
        raise Refusal(Code.FILTER_SIZE, f"a filter has 1 element or more, not {min(kernel)}")
    if min(dilation) < 1:
        raise Refusal(Code.FILTER_SIZE, f"a dilation is 1 or more, not {min(dilation)}")
    if min(stride) < 1:
        raise Refusal(Code.STRIDE, f"a stride is 1 or more, not {min(stride)}")
    if min(padding) < 0:
        raise Refusal(Code.PADDING, f"a padding is 0 or more, not {min(padding)}")
    sizes = (given.shape[axis] for axis in given.spatial_axes)
    yield from zip(sizes, kernel, stride, padding, dilation, strict=True)
