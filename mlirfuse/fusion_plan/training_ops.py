"""Writes batch norm in training and its gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlirfuse.fusion_plan import ops
from mlirfuse.fusion_plan.chain import Chain, Load, loops
from mlirfuse.fusion_plan.mlir_text import Body, Module, Read, Tensor
from mlirfuse.fusion_plan.pointwise_ops import everything, statistics_axes
from mlirfuse.fusion_plan.row_ops import reduced
from mlirfuse.fusion_plan.tensors import TensorSpec


def _reduced_axes(given: TensorSpec, tensor: Tensor) -> tuple[int, ...]:
    kept = statistics_axes(given, tensor)
    return tuple(axis for axis in range(given.rank) if axis not in kept)


def _per_channel(
    m: Module, shape: Sequence[int], inputs: Sequence[Tensor], count: int, step: object
) -> list[Tensor]:
    """Elementwise results on statistics; inputs without dimensions are scalars."""
    names = loops(len(shape))
    reads = [Read(t, tuple(names) if t.shape else ()) for t in inputs]
    outs = [Read(m.empty(shape), tuple(names)) for _ in range(count)]
    return m.generic(names, (), reads, outs, lambda b, values, _: step(b, *values))  # type: ignore[operator]


def _forward(
    chain: Chain, op: ops.BatchNormForwardTraining, given: TensorSpec, own: Mapping[str, Tensor]
) -> Mapping[str, Tensor]:
    chain.flush()
    m = chain.module
    axes = statistics_axes(given, own["scale"])
    over = _reduced_axes(given, own["scale"])
    count = float(math.prod(given.shape[a] for a in over))
    total = reduced(chain, "sum", over)
    x = chain.value

    def square(b: Body, value: str, load: Load) -> str:
        mean = b.op("arith.divf", load(total, axes), b.constant(count))
        centered = b.op("arith.subf", value, mean)
        return b.op("arith.mulf", centered, centered)

    chain.pointwise(square)
    squares = reduced(chain, "sum", over, chain.flush())
    chain.become(x)

    def normalize(b: Body, value: str, load: Load) -> str:
        mean = b.op("arith.divf", load(total, axes), b.constant(count))
        inverse = _inverse(b, load(squares, axes), load(own["epsilon"], ()), count)
        centered = b.op("arith.mulf", b.op("arith.subf", value, mean), inverse)
        scaled = b.op("arith.mulf", centered, load(own["scale"], axes))
        return b.op("arith.addf", scaled, load(own["bias"], axes))

    chain.pointwise(normalize)
    unbiased = max(count - 1.0, 1.0)

    def saved(
        b: Body, t: str, sq: str, mean0: str, variance0: str, epsilon: str, momentum: str
    ) -> Sequence[str]:
        mean = b.op("arith.divf", t, b.constant(count))
        variance = b.op("arith.divf", sq, b.constant(unbiased))
        return (
            mean,
            _inverse(b, sq, epsilon, count),
            _mixed(b, mean0, mean, momentum),
            _mixed(b, variance0, variance, momentum),
        )

    names = ("running_mean", "running_variance", "epsilon", "momentum")
    inputs = (total, squares, *(own[name] for name in names))
    made = _per_channel(m, total.shape, inputs, 4, saved)
    results = ("saved_mean", "saved_inverse_deviation", "running_mean", "running_variance")
    return dict(zip(results, made, strict=True))


def _inverse(b: Body, squares: str, epsilon: str, count: float) -> str:
    variance = b.op("arith.divf", squares, b.constant(count))
    return b.op("math.rsqrt", b.op("arith.addf", variance, epsilon))


def _mixed(b: Body, old: str, new: str, part: str) -> str:
    change = b.op("arith.mulf", b.op("arith.subf", new, old), part)
    return b.op("arith.addf", old, change)


def _backward(
    chain: Chain, op: ops.BatchNormBackward, given: TensorSpec, own: Mapping[str, Tensor]
) -> Mapping[str, Tensor]:
    gradient = chain.flush()
    axes = statistics_axes(given, own["scale"])
    over = _reduced_axes(given, own["scale"])
    count = float(math.prod(given.shape[a] for a in over))
    every = everything(chain)

    def centered(b: Body, load: Load) -> str:
        return b.op("arith.subf", load(own["x"], every), load(own["saved_mean"], axes))

    total = reduced(chain, "sum", over)
    chain.pointwise(lambda b, dy, load: b.op("arith.mulf", dy, centered(b, load)))
    products = reduced(chain, "sum", over, chain.flush())
    chain.become(gradient)
    inverse = own["saved_inverse_deviation"]
    scale_gradient, bias_gradient = _per_channel(
        chain.module,
        total.shape,
        (products, inverse, total),
        2,
        lambda b, p, i, t: (b.op("arith.mulf", p, i), t),
    )

    def step(b: Body, dy: str, load: Load) -> str:
        mean = b.op("arith.divf", load(total, axes), b.constant(count))
        deviation = load(inverse, axes)
        part = b.op("arith.divf", load(products, axes), b.constant(count))
        part = b.op("arith.mulf", b.op("arith.mulf", part, deviation), deviation)
        rest = b.op("arith.subf", dy, mean)
        rest = b.op("arith.subf", rest, b.op("arith.mulf", centered(b, load), part))
        factor = b.op("arith.mulf", load(own["scale"], axes), deviation)
        return b.op("arith.mulf", rest, factor)

    chain.pointwise(step)
    return {"scale_gradient": scale_gradient, "bias_gradient": bias_gradient}


WRITERS: Mapping[str, Any] = {
    "batch_norm_forward_training": _forward,
    "batch_norm_backward": _backward,
}
