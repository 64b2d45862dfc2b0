"""Writes the elementwise ops of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlirfuse.fusion_plan import ops
from mlirfuse.fusion_plan.activations import ACTIVATIONS
from mlirfuse.fusion_plan.chain import Chain, Load
from mlirfuse.fusion_plan.mlir_text import Body, Tensor
from mlirfuse.fusion_plan.tensors import TensorSpec

MIN_I8, MAX_I8 = -128.0, 127.0


def everything(chain: Chain) -> tuple[int, ...]:
    """All dimensions of the chain's value."""
    return tuple(range(len(chain.shape)))


def statistics_axes(given: TensorSpec, tensor: Tensor) -> tuple[int, ...]:
    """The dimensions of an image that index the statistics of a batch norm."""
    if len(tensor.shape) == 1:
        return (given.channel_axis,)
    return tuple(range(1, given.rank))


def _bias(chain: Chain, op: ops.Bias, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    axis = given.channel_axis
    chain.pointwise(lambda b, x, load: b.op("arith.addf", x, load(own["bias"], (axis,))))


def _residual(chain: Chain, op: ops.Residual, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    axes = everything(chain)
    chain.pointwise(lambda b, x, load: b.op("arith.addf", x, load(own["residual"], axes)))


def _scalars(load: Load, own: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, str]:
    return {name: load(own[name], ()) for name in names}


def _activation(
    chain: Chain, op: ops.ActivationForward, given: TensorSpec, own: Mapping[str, Tensor]
) -> None:
    entry = ACTIVATIONS[op.mode]
    chain.pointwise(lambda b, x, load: entry.value(b, x, _scalars(load, own, entry.scalars)))


def _activation_backward(
    chain: Chain, op: ops.ActivationBackward, given: TensorSpec, own: Mapping[str, Tensor]
) -> None:
    entry = ACTIVATIONS[op.mode]
    axes = everything(chain)

    def step(b: Body, gradient: str, load: Load) -> str:
        slope = entry.derivative(b, load(own["x"], axes), _scalars(load, own, entry.scalars))
        return b.op("arith.mulf", gradient, slope)

    chain.pointwise(step)


def _batch_norm(
    chain: Chain, op: ops.BatchNormInference, given: TensorSpec, own: Mapping[str, Tensor]
) -> None:
    axes = statistics_axes(given, own["scale"])

    def step(b: Body, x: str, load: Load) -> str:
        deviation = b.op("arith.addf", load(own["variance"], axes), load(own["epsilon"], ()))
        factor = b.op("arith.mulf", load(own["scale"], axes), b.op("math.rsqrt", deviation))
        centered = b.op("arith.subf", x, load(own["mean"], axes))
        return b.op("arith.addf", b.op("arith.mulf", centered, factor), load(own["bias"], axes))

    chain.pointwise(step)


def _quantize(chain: Chain, op: ops.Quantize, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    def step(b: Body, x: str, load: Load) -> str:
        level = b.op("math.roundeven", b.op("arith.divf", x, load(own["scale"], ())))
        moved = b.op("arith.addf", level, load(own["zero_point"], ()))
        low = b.op("arith.maximumf", moved, b.constant(MIN_I8))
        return b.op("arith.minimumf", low, b.constant(MAX_I8))

    chain.pointwise(step)


WRITERS: Mapping[str, Any] = {
    "bias": _bias,
    "residual": _residual,
    "activation": _activation,
    "activation_backward": _activation_backward,
    "batch_norm_inference": _batch_norm,
    "quantize": _quantize,
}
