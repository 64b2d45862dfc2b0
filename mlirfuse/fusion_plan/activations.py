"""The activations of plans, as MIOpen defines them, and their derivatives.

The scalars alpha, beta and gamma are arguments of the program: one kernel for all values. A
derivative is a function of the activation's input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeAlias

from mlirfuse.fusion_plan.mlir_text import Body

Formula: TypeAlias = Callable[[Body, str, Mapping[str, str]], str]
"""Writes the value for an input and the scalars by name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Activation:
    """One activation.

    Attributes:
      value: writes the activation.
      derivative: writes its derivative.
      scalars: the scalars that it reads, of `alpha`, `beta` and `gamma`.
      formula: the definition, for the documentation.
    """

    value: Formula
    derivative: Formula
    scalars: tuple[str, ...]
    formula: str


def _sigmoid(b: Body, x: str) -> str:
    one = b.constant(1.0)
    return b.op("arith.divf", one, b.op("arith.addf", one, b.op("math.exp", b.op("arith.negf", x))))


def _positive(b: Body, x: str) -> str:
    return b.compare("ogt", x, b.constant(0.0))


def _where_positive(b: Body, x: str, yes: str, no: str) -> str:
    return b.select(_positive(b, x), yes, no)


def _relu(b: Body, x: str, s: Mapping[str, str]) -> str:
    return b.op("arith.maximumf", x, b.constant(0.0))


def _step(b: Body, x: str, s: Mapping[str, str]) -> str:
    return _where_positive(b, x, b.constant(1.0), b.constant(0.0))


def _tanh(b: Body, x: str, s: Mapping[str, str]) -> str:
    return b.op("arith.mulf", s["beta"], b.op("math.tanh", b.op("arith.mulf", s["alpha"], x)))


def _tanh_slope(b: Body, x: str, s: Mapping[str, str]) -> str:
    t = b.op("math.tanh", b.op("arith.mulf", s["alpha"], x))
    rest = b.op("arith.subf", b.constant(1.0), b.op("arith.mulf", t, t))
    return b.op("arith.mulf", b.op("arith.mulf", s["alpha"], s["beta"]), rest)


def _softrelu(b: Body, x: str, s: Mapping[str, str]) -> str:
    # log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which does not overflow
    small = b.op("math.exp", b.op("arith.negf", b.op("math.absf", x)))
    tail = b.op("math.log1p", small)
    return b.op("arith.addf", b.op("arith.maximumf", x, b.constant(0.0)), tail)


def _power_base(b: Body, x: str, s: Mapping[str, str]) -> str:
    return b.op("arith.addf", s["alpha"], b.op("arith.mulf", s["beta"], x))


def _power(b: Body, x: str, s: Mapping[str, str]) -> str:
    # MIOpen's power of a base that is not positive is 0.
    base = _power_base(b, x, s)
    return _where_positive(b, base, b.power(base, s["gamma"]), b.constant(0.0))


def _power_slope(b: Body, x: str, s: Mapping[str, str]) -> str:
    base = _power_base(b, x, s)
    factor = b.op("arith.mulf", s["beta"], s["gamma"])
    less = b.op("arith.subf", s["gamma"], b.constant(1.0))
    slope = b.op("arith.mulf", factor, b.power(base, less))
    return _where_positive(b, base, slope, b.constant(0.0))


def _clipped(b: Body, x: str, s: Mapping[str, str]) -> str:
    return b.op("arith.minimumf", _relu(b, x, s), s["alpha"])


def _clipped_slope(b: Body, x: str, s: Mapping[str, str]) -> str:
    zero = b.constant(0.0)
    inside = b.select(b.compare("ole", x, s["alpha"]), b.constant(1.0), zero)
    return _where_positive(b, x, inside, zero)


def _leaky(b: Body, x: str, s: Mapping[str, str]) -> str:
    return _where_positive(b, x, x, b.op("arith.mulf", s["alpha"], x))


def _leaky_slope(b: Body, x: str, s: Mapping[str, str]) -> str:
    return _where_positive(b, x, b.constant(1.0), s["alpha"])


def _elu(b: Body, x: str, s: Mapping[str, str]) -> str:
    return _where_positive(b, x, x, b.op("arith.mulf", s["alpha"], b.op("math.expm1", x)))


def _elu_slope(b: Body, x: str, s: Mapping[str, str]) -> str:
    slope = b.op("arith.mulf", s["alpha"], b.op("math.exp", x))
    return _where_positive(b, x, b.constant(1.0), slope)


def _clamp(b: Body, x: str, s: Mapping[str, str]) -> str:
    return b.op("arith.minimumf", b.op("arith.maximumf", x, s["alpha"]), s["beta"])


def _clamp_slope(b: Body, x: str, s: Mapping[str, str]) -> str:
    zero = b.constant(0.0)
    below = b.select(b.compare("ole", x, s["beta"]), b.constant(1.0), zero)
    return b.select(b.compare("oge", x, s["alpha"]), below, zero)


def _sigmoid_slope(b: Body, x: str, s: Mapping[str, str]) -> str:
    y = _sigmoid(b, x)
    return b.op("arith.mulf", y, b.op("arith.subf", b.constant(1.0), y))


def _silu_slope(b: Body, x: str, s: Mapping[str, str]) -> str:
    y = _sigmoid(b, x)
    rest = b.op("arith.mulf", x, b.op("arith.subf", b.constant(1.0), y))
    return b.op("arith.mulf", y, b.op("arith.addf", b.constant(1.0), rest))


def _normal_cdf(b: Body, x: str) -> str:
    erf = b.op("math.erf", b.op("arith.mulf", x, b.constant(0.5**0.5)))
    half = b.constant(0.5)
    return b.op("arith.addf", half, b.op("arith.mulf", half, erf))


def _gelu_slope(b: Body, x: str, s: Mapping[str, str]) -> str:
    square = b.op("arith.mulf", b.op("arith.mulf", x, x), b.constant(-0.5))
    density = b.op("arith.mulf", b.op("math.exp", square), b.constant(0.3989422804014327))
    return b.op("arith.addf", _normal_cdf(b, x), b.op("arith.mulf", x, density))


ACTIVATIONS: Mapping[str, Activation] = {
    "pasthru": Activation(lambda b, x, s: x, lambda b, x, s: b.constant(1.0), (), "x"),
    "logistic": Activation(lambda b, x, s: _sigmoid(b, x), _sigmoid_slope, (), "1 / (1 + e^-x)"),
    "tanh": Activation(_tanh, _tanh_slope, ("alpha", "beta"), "beta * tanh(alpha * x)"),
    "relu": Activation(_relu, _step, (), "max(0, x)"),
    "softrelu": Activation(_softrelu, lambda b, x, s: _sigmoid(b, x), (), "log(1 + e^x)"),
    "abs": Activation(
        lambda b, x, s: b.op("math.absf", x),
        lambda b, x, s: _where_positive(b, x, b.constant(1.0), b.constant(-1.0)),
        (),
        "abs(x)",
    ),
    "power": Activation(
        _power, _power_slope, ("alpha", "beta", "gamma"), "(alpha + beta * x)^gamma"
    ),
    "clipped_relu": Activation(_clipped, _clipped_slope, ("alpha",), "min(alpha, max(0, x))"),
    "leaky_relu": Activation(_leaky, _leaky_slope, ("alpha",), "alpha * x where x <= 0, else x"),
    "elu": Activation(_elu, _elu_slope, ("alpha",), "alpha * (e^x - 1) where x <= 0, else x"),
    "clamp": Activation(_clamp, _clamp_slope, ("alpha", "beta"), "min(beta, max(alpha, x))"),
    "silu": Activation(
        lambda b, x, s: b.op("arith.mulf", x, _sigmoid(b, x)), _silu_slope, (), "x / (1 + e^-x)"
    ),
    "gelu": Activation(
        lambda b, x, s: b.op("arith.mulf", x, _normal_cdf(b, x)),
        _gelu_slope,
        (),
        "x * (1 + erf(x / sqrt(2))) / 2",
    ),
}
"""Mode -> activation: those of MIOpen first, in its order; SiLU and GELU are additions."""
