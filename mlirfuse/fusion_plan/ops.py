"""The ops of plans: their parameters, the shapes that follow from them, and their arguments."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

from mlirfuse.fusion_plan.codes import Code, Refusal
from mlirfuse.fusion_plan.tensors import TensorSpec
from mlirfuse.fusion_plan.windows import spread, windows

INPUT, OUTPUT = "input", "output"


@dataclasses.dataclass(frozen=True, slots=True)
class Derived:
    """Tensors of one op, which follow from its input.

    Attributes:
      output: the result that the next op reads.
      arguments: name -> tensor that the caller gives; a scalar has no dimensions.
      results: name -> further result of the plan.
    """

    output: TensorSpec
    arguments: Mapping[str, TensorSpec] = dataclasses.field(default_factory=dict)
    results: Mapping[str, TensorSpec] = dataclasses.field(default_factory=dict)


SCALAR = TensorSpec((), "f32")


@dataclasses.dataclass(frozen=True)
class Op:
    """An op with its parameters.

    Attributes:
      kind: name of the method of `FusionPlan` that adds it.
    """

    kind: ClassVar[str]

    def derive(self, given: TensorSpec) -> Derived:
        """The op's tensors.

        Raises:
          Refusal: the op does not take such an input.
        """
        raise NotImplementedError


def need_image(given: TensorSpec) -> None:
    """Checks that the tensor has a layout.

    Raises:
      Refusal: it has none.
    """
    if not given.layout:
        raise Refusal(Code.LAYOUT, f"{given} has no layout such as NCHW")


def need_rank(given: TensorSpec, kind: str) -> None:
    """Checks that the tensor has a dimension.

    Raises:
      Refusal: it is a scalar.
    """
    if not given.shape:
        raise Refusal(Code.SHAPE, f"{kind} of a scalar")


@dataclasses.dataclass(frozen=True)
class ConvForward(Op):
    """A convolution; the filter is F, C / groups and the window, or F, window, C with NHWC.

    Attributes:
      filters: output channels.
      kernel, stride, padding, dilation: by spatial dimension, or one for all.
      groups: groups of channels; as many as channels for a depthwise convolution.
      mode: `convolution`, or `transpose`.
    """

    kind: ClassVar[str] = "conv_forward"
    filters: int
    kernel: int | tuple[int, ...] = 3
    stride: int | tuple[int, ...] = 1
    padding: int | tuple[int, ...] = 0
    dilation: int | tuple[int, ...] = 1
    groups: int = 1
    mode: str = "convolution"

    def derive(self, given: TensorSpec) -> Derived:
        """The result and the filter; `alpha` scales the result."""
        need_image(given)
        if self.mode != "convolution":
            raise Refusal(Code.MODE, f"convolution mode '{self.mode}'")
        if self.groups < 1 or given.channels % self.groups or self.filters % self.groups:
            raise Refusal(
                Code.SHAPE,
                f"{self.groups} groups of {given.channels} channels and {self.filters} filters",
            )
        rank = len(given.spatial_axes)
        kernel = spread(self.kernel, rank)
        sizes = windows(
            given,
            kernel,
            spread(self.stride, rank),
            spread(self.padding, rank),
            spread(self.dilation, rank),
        )
        part = given.channels // self.groups
        last = given.layout.endswith("C")
        shape = (self.filters, *kernel, part) if last else (self.filters, part, *kernel)
        weights = TensorSpec(shape, given.dtype, given.layout)
        output = given.with_spatial(self.filters, sizes)
        return Derived(output, {"weights": weights, "alpha": SCALAR})


@dataclasses.dataclass(frozen=True)
class Bias(Op):
    """One number for each channel, added."""

    kind: ClassVar[str] = "bias"

    def derive(self, given: TensorSpec) -> Derived:
        """The bias has the type of the image."""
        need_rank(given, self.kind)
        return Derived(given, {"bias": TensorSpec((given.channels,), given.dtype)})


@dataclasses.dataclass(frozen=True)
class ActivationForward(Op):
    """An activation; see `mlirfuse.fusion_plan.activations`."""

    kind: ClassVar[str] = "activation"
    mode: str = "relu"

    def derive(self, given: TensorSpec) -> Derived:
        """The scalars that the mode reads are arguments."""
        return Derived(given, dict.fromkeys(_scalars(self.mode), SCALAR))


def _scalars(mode: str) -> tuple[str, ...]:
    from mlirfuse.fusion_plan.activations import ACTIVATIONS

    if mode not in ACTIVATIONS:
        raise Refusal(Code.ACTIVATION, f"activation '{mode}'")
    return ACTIVATIONS[mode].scalars


@dataclasses.dataclass(frozen=True)
class ActivationBackward(Op):
    """The gradient of an activation's input from that of its output, which is the op's input."""

    kind: ClassVar[str] = "activation_backward"
    mode: str = "relu"

    def derive(self, given: TensorSpec) -> Derived:
        """The activation's input `x` is an argument."""
        return Derived(given, {"x": given, **dict.fromkeys(_scalars(self.mode), SCALAR)})


MODES = ("spatial", "per_activation")
"""Modes of batch norm: statistics for each channel, or for each element of an image."""


def statistics(given: TensorSpec, mode: str) -> TensorSpec:
    """The tensor of statistics and scales of a batch norm.

    Raises:
      Refusal: the mode is unknown, or the tensor has no layout.
    """
    need_image(given)
    if mode not in MODES:
        raise Refusal(Code.MODE, f"batch norm mode '{mode}'")
    if mode == "spatial":
        return TensorSpec((given.channels,))
    return TensorSpec(given.shape[1:])


@dataclasses.dataclass(frozen=True)
class BatchNormInference(Op):
    """Batch norm with given statistics; scale, bias, mean and variance are f32, as in MIOpen."""

    kind: ClassVar[str] = "batch_norm_inference"
    mode: str = "spatial"

    def derive(self, given: TensorSpec) -> Derived:
        """The statistics and epsilon are arguments."""
        one = statistics(given, self.mode)
        names = ("scale", "bias", "mean", "variance")
        return Derived(given, {**dict.fromkeys(names, one), "epsilon": SCALAR})


@dataclasses.dataclass(frozen=True)
class BatchNormForwardTraining(Op):
    """Batch norm with the statistics of this batch, which are results, as the running ones."""

    kind: ClassVar[str] = "batch_norm_forward_training"
    mode: str = "spatial"

    def derive(self, given: TensorSpec) -> Derived:
        """Saved mean and inverse deviation are results; running statistics go in and out."""
        one = statistics(given, self.mode)
        names = ("scale", "bias", "running_mean", "running_variance")
        arguments = {**dict.fromkeys(names, one), "epsilon": SCALAR, "momentum": SCALAR}
        results = ("saved_mean", "saved_inverse_deviation", "running_mean", "running_variance")
        return Derived(given, arguments, dict.fromkeys(results, one))


@dataclasses.dataclass(frozen=True)
class BatchNormBackward(Op):
    """The gradients of a batch norm's input, scale and bias from that of its output."""

    kind: ClassVar[str] = "batch_norm_backward"
    mode: str = "spatial"

    def derive(self, given: TensorSpec) -> Derived:
        """The batch norm's input `x` and the saved statistics are arguments."""
        one = statistics(given, self.mode)
        names = ("scale", "saved_mean", "saved_inverse_deviation")
        arguments = {"x": given, **dict.fromkeys(names, one)}
        return Derived(given, arguments, {"scale_gradient": one, "bias_gradient": one})


@dataclasses.dataclass(frozen=True)
class Residual(Op):
    """Another tensor of the same shape, added."""

    kind: ClassVar[str] = "residual"

    def derive(self, given: TensorSpec) -> Derived:
        """The other tensor is an argument."""
        return Derived(given, {"residual": given})


@dataclasses.dataclass(frozen=True)
class Matmul(Op):
    """The last dimension times a matrix.

    Attributes:
      n: columns of the result.
      transposed: whether the weights are N x K, as those of a linear layer, and not K x N.
    """

    kind: ClassVar[str] = "matmul"
    n: int
    transposed: bool = False

    def derive(self, given: TensorSpec) -> Derived:
        """The weights are an argument."""
        if given.rank < 2:
            raise Refusal(Code.SHAPE, f"a matmul takes two dimensions or more, not {given}")
        if given.layout:
            raise Refusal(Code.LAYOUT, f"a matmul takes a row-major tensor, not {given.layout}")
        k = given.shape[-1]
        weights = (self.n, k) if self.transposed else (k, self.n)
        output = TensorSpec((*given.shape[:-1], self.n), given.dtype)
        return Derived(output, {"weights": TensorSpec(weights, given.dtype)})


NORMS = ("layer", "rms")


@dataclasses.dataclass(frozen=True)
class Norm(Op):
    """Layer norm or RMS norm over the last dimension."""

    kind: ClassVar[str] = "norm"
    mode: str = "layer"

    def derive(self, given: TensorSpec) -> Derived:
        """Scale, bias (of layer norm) and epsilon are arguments."""
        if self.mode not in NORMS:
            raise Refusal(Code.MODE, f"norm mode '{self.mode}'")
        need_rank(given, self.kind)
        one = TensorSpec((given.shape[-1],), given.dtype)
        names = ("scale", "bias") if self.mode == "layer" else ("scale",)
        return Derived(given, {**dict.fromkeys(names, one), "epsilon": SCALAR})


@dataclasses.dataclass(frozen=True)
class Softmax(Op):
    """Softmax over the last dimension."""

    kind: ClassVar[str] = "softmax"

    def derive(self, given: TensorSpec) -> Derived:
        """Softmax has no arguments."""
        need_rank(given, self.kind)
        return Derived(given)


@dataclasses.dataclass(frozen=True)
class Quantize(Op):
    """Division by a scale, rounding to even, a zero point, and saturation to i8."""

    kind: ClassVar[str] = "quantize"

    def derive(self, given: TensorSpec) -> Derived:
        """The scale and the zero point are scalar arguments."""
        output = dataclasses.replace(given, dtype="i8")
        return Derived(output, {"scale": SCALAR, "zero_point": SCALAR})


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


@dataclasses.dataclass(frozen=True)
class Attention(Op):
    """Softmax of scaled products with keys, times values; batch, heads, tokens, head size.

    Attributes:
      keys: number of keys; None for that of queries.
    """

    kind: ClassVar[str] = "attention"
    keys: int | None = None

    def derive(self, given: TensorSpec) -> Derived:
        """Keys and values are arguments."""
        if given.rank != 4:
            raise Refusal(Code.SHAPE, f"attention takes batch, heads, tokens and size, not {given}")
        batch, heads, queries, size = given.shape
        other = TensorSpec((batch, heads, self.keys or queries, size), given.dtype, given.layout)
        return Derived(given, {"keys": other, "values": other})

    @staticmethod
    def scale(given: TensorSpec) -> float:
        """The factor of the scores."""
        return 1.0 / math.sqrt(given.shape[-1])


REDUCTIONS = ("sum", "mean", "max", "min")


@dataclasses.dataclass(frozen=True)
class Reduce(Op):
    """A reduction over some dimensions, which are left out of the result.

    Attributes:
      mode: `sum`, `mean`, `max` or `min`.
      axes: the dimensions, counted from the end where negative.
    """

    kind: ClassVar[str] = "reduce"
    mode: str = "sum"
    axes: tuple[int, ...] = (-1,)

    def derive(self, given: TensorSpec) -> Derived:
        """A reduction has no arguments."""
        if self.mode not in REDUCTIONS:
            raise Refusal(Code.MODE, f"reduction mode '{self.mode}'")
        axes = self.positions(given)
        kept = tuple(s for i, s in enumerate(given.shape) if i not in axes)
        return Derived(TensorSpec(kept, given.dtype))

    def positions(self, given: TensorSpec) -> tuple[int, ...]:
        """The dimensions, counted from the first.

        Raises:
          Refusal: there is no such dimension, or one is named twice.
        """
        found = tuple(sorted(a + given.rank if a < 0 else a for a in self.axes))
        if not found or len(set(found)) < len(found) or not 0 <= found[0] <= found[-1] < given.rank:
            raise Refusal(Code.SHAPE, f"dimensions {self.axes} of {given}")
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry:
    """Windows over the spatial dimensions of an image.

    Attributes:
      kernel, stride, padding, dilation: by dimension.
      sizes: windows of the result.
      high: zeros that the windows read behind the image; negative for elements that none reads.
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


OPS: Mapping[str, type[Op]] = {
    op.kind: op
    for op in (
        ConvForward,
        Bias,
        ActivationForward,
        BatchNormInference,
        Residual,
        Matmul,
        Norm,
        Softmax,
        Quantize,
        Pool,
        Attention,
        Reduce,
        BatchNormForwardTraining,
        BatchNormBackward,
        ActivationBackward,
    )
}
"""Kind -> op."""
