"""The ops of plans: their parameters, the shapes that follow from them, and their arguments."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

from mlirfuse.fusion_plan.codes import Code, Refusal
from mlirfuse.fusion_plan.op_base import (
    INPUT,
    OUTPUT,
    SCALAR,
    Derived,
    Op,
    need_image,
    need_positive,
    need_rank,
)
from mlirfuse.fusion_plan.tensors import TensorSpec
from mlirfuse.fusion_plan.windowed import CONVOLUTIONS, POOLS, ConvForward, Geometry, Pool


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
        need_positive(self.n, "the number of columns")
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
        keys = queries if self.keys is None else self.keys
        need_positive(keys, "the number of keys")
        other = TensorSpec((batch, heads, keys, size), given.dtype, given.layout)
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

__all__ = [
    "CONVOLUTIONS",
    "INPUT",
    "MODES",
    "NORMS",
    "OPS",
    "OUTPUT",
    "POOLS",
    "REDUCTIONS",
    "SCALAR",
    "ActivationBackward",
    "ActivationForward",
    "Attention",
    "BatchNormBackward",
    "BatchNormForwardTraining",
    "BatchNormInference",
    "Bias",
    "ConvForward",
    "Derived",
    "Geometry",
    "Matmul",
    "Norm",
    "Op",
    "Pool",
    "Quantize",
    "Reduce",
    "Residual",
    "Softmax",
    "statistics",
]
