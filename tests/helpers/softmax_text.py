"""Softmax of the last dimension: as text, and in float64."""

import numpy as np

from helpers.linalg_text import Function


def softmax_reference(x):
    with np.errstate(invalid="ignore"):
        power = np.exp(x - x.max(-1, keepdims=True))
        return power / power.sum(-1, keepdims=True)


def softmax_text(sizes, dtype):
    f = Function("main", sizes)
    x = f.argument(range(len(sizes)), dtype)
    wide, column = f.cast(x, "f32"), [len(sizes) - 1]
    power = f.apply(
        "math.exp",
        f.apply("arith.subf", wide, f.reduce("arith.maximumf", wide, column, float("-inf"))),
    )
    quotient = f.apply("arith.divf", power, f.reduce("arith.addf", power, column))
    return f.finish(f.cast(quotient, dtype))
