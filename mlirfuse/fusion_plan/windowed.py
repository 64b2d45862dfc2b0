"""Convolutions and poolings: windows over images."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.fusion_plan.codes import Code, Refusal
from mlirfuse.fusion_plan.op_base import SCALAR, Derived, Op, need_image, need_positive
from mlirfuse.fusion_plan.tensors import TensorSpec
from mlirfuse.fusion_plan.windows import spread, transposed_windows, windows

CONVOLUTIONS = ("convolution", "transpose")
"""Modes of convolutions; `transpose` is the gradient of a convolution's image, as in MIOpen."""


@dataclasses.dataclass(frozen=True)
class ConvForward(Op):
    """A convolution; the filter is F, C / groups and the window, or F, window, C with NHWC.

    The filter of a transposed convolution is C, F / groups and the window, or C, window, F.

    Attributes:
      filters: output channels.
      kernel, stride, padding, dilation: by spatial dimension, or one for all.
      groups: groups of channels; as many as channels for a depthwise convolution.
      mode: one of `CONVOLUTIONS`.
      output_padding: elements that a transposed convolution adds at the end of each spatial
        dimension of the result, of which several sizes have the same image.
    """

    kind: ClassVar[str] = "conv_forward"
    filters: int
    kernel: int | tuple[int, ...] = 3
    stride: int | tuple[int, ...] = 1
    padding: int | tuple[int, ...] = 0
    dilation: int | tuple[int, ...] = 1
    groups: int = 1
    mode: str = "convolution"
    output_padding: int | tuple[int, ...] = 0

    @property
    def is_transposed(self) -> bool:
        """Whether each element of the image is spread over a window of the result."""
        return self.mode == "transpose"

    def derive(self, given: TensorSpec) -> Derived:
        """The result and the filter; `alpha` scales the result."""
        need_image(given)
        if self.mode not in CONVOLUTIONS:
            raise Refusal(Code.MODE, f"convolution mode '{self.mode}'")
        if not self.is_transposed and any(spread(self.output_padding, len(given.spatial_axes))):
            raise Refusal(Code.PADDING, "an output padding of a convolution that is not transposed")
        need_positive(self.filters, "the number of filters")
        need_positive(self.groups, "the number of groups")
        if given.channels % self.groups or self.filters % self.groups:
            raise Refusal(
                Code.SHAPE,
                f"{self.groups} groups of {given.channels} channels and {self.filters} filters",
            )
        geometry = Geometry.of(self, given)
        outer, inner = self.filters, given.channels
        if self.is_transposed:
            outer, inner = inner, outer
        part = inner // self.groups
        last = given.layout.endswith("C")
        shape = (outer, *geometry.kernel, part) if last else (outer, part, *geometry.kernel)
        weights = TensorSpec(shape, given.dtype, given.layout)
        sizes = geometry.sizes
        output = given.with_spatial(self.filters, sizes)
        return Derived(output, {"weights": weights, "alpha": SCALAR})


POOLS = ("max", "average", "average_inclusive")
"""Modes of pooling; `average` divides by the elements that are inside of the image."""


@dataclasses.dataclass(frozen=True)
class Pool(Op):
    """A pooling."""

    kind: ClassVar[str] = "pool"
    mode: str = "max"
    kernel: int | tuple[int, ...] = 2
    stride: int | tuple[int, ...] = 2
    padding: int | tuple[int, ...] = 0

    def derive(self, given: TensorSpec) -> Derived:
        """A pooling has no arguments."""
        need_image(given)
        if self.mode not in POOLS:
            raise Refusal(Code.MODE, f"pooling mode '{self.mode}'")
        rank = len(given.spatial_axes)
        kernel, padding = spread(self.kernel, rank), spread(self.padding, rank)
        if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
            raise Refusal(Code.PADDING, "a padding of more than half a window")
        sizes = windows(given, kernel, spread(self.stride, rank), padding, (1,) * rank)
        return Derived(given.with_spatial(given.channels, sizes))


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry:
    """Windows over the spatial dimensions of an image.

    Attributes:
      kernel, stride, padding, dilation: by dimension.
      sizes: windows of the result.
      high: zeros that the windows read behind the image; negative for elements that none reads; 0
        for a transposed convolution, whose windows are those of the result.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    sizes: tuple[int, ...]
    high: tuple[int, ...]

    @classmethod
    def of(cls, op: ConvForward | Pool, given: TensorSpec) -> Geometry:
        """The geometry of an op on an image.

        Raises:
          Refusal: a window does not fit into the padded image.
        """
        rank = len(given.spatial_axes)
        kernel, stride, padding = (spread(v, rank) for v in (op.kernel, op.stride, op.padding))
        dilation = spread(op.dilation if isinstance(op, ConvForward) else 1, rank)
        if isinstance(op, ConvForward) and op.is_transposed:
            extra = spread(op.output_padding, rank)
            sizes = transposed_windows(given, kernel, stride, padding, dilation, extra)
            return cls(kernel, stride, padding, dilation, sizes, (0,) * rank)
        sizes = windows(given, kernel, stride, padding, dilation)
        high = tuple(
            (sizes[i] - 1) * stride[i]
            + dilation[i] * (kernel[i] - 1)
            + 1
            - padding[i]
            - given.shape[axis]
            for i, axis in enumerate(given.spatial_axes)
        )
        return cls(kernel, stride, padding, dilation, sizes, high)
