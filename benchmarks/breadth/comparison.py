"""Results of a program beside float64 and eager PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch

TOLERANCES = {"f16": 4e-3, "bf16": 3e-2, "f32": 2e-5}
"""Error that is always accepted, over the largest magnitude of a result."""

OF_EAGER = 4.0
"""Error that is accepted, over eager PyTorch's."""

ROUNDING = torch.finfo(torch.float32).eps
"""Largest relative error of a number that is computed in f32, twice."""

ROUNDED_FACTORS = 1.0
"""Error that is accepted of a product of N rounded factors, over the root of N times `ROUNDING`:
the rounding of each is a part of the result. Of products of 1288266 factors `1 + x * 0.01` in f32
eager PyTorch had errors of 1e-6 to 1.1e-4 on a CPU for six seeds, and so had other orders."""

MAX_OTHER_INDICES = 0.02
"""Share of indices that may differ: values that are equal in the element type. More where eager
PyTorch has others than float64: the smallest of 31283 Mish of f32 lie within half a unit in the
last place, and 70 % of its positions are others."""

Tensors = list[torch.Tensor]


def compared(
    ours: Tensors, eager: Tensors, exact: Tensors, dtype: str, *, factors: int = 0
) -> dict[str, Any]:
    """The largest error, and a message if it is not accepted.

    Elements that the element type or eager PyTorch cannot represent do not count.

    Args:
      ours: results.
      eager: those of eager PyTorch.
      exact: those of float64.
      dtype: key of `TOLERANCES`.
      factors: numbers of which all results are products; 0 where they are not.
    """
    worst = 0.0
    for mine, theirs, right in zip(ours, eager, exact, strict=True):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return {"error": 1e30, "wrong": f"{mine.dtype} {tuple(mine.shape)} for {theirs.dtype}"}
        if not theirs.is_floating_point():
            other = float(((mine != theirs) & (mine != right)).double().mean())
            of_eager = float((theirs != right).double().mean())
            if other > max(MAX_OTHER_INDICES, of_eager):
                return {"error": other, "wrong": f"{other:.1%} of the elements differ"}
            continue
        finite = torch.isfinite(theirs) & (right.abs() <= torch.finfo(theirs.dtype).max)
        if not finite.any():
            continue
        if not torch.isfinite(mine[finite]).all():
            return {"error": 1e30, "wrong": "values that are not finite"}
        scale = right[finite].abs().max().clamp(min=torch.finfo(torch.float32).tiny)
        error, of_eager = (
            float((t.double() - right)[finite].abs().max() / scale) for t in (mine, theirs)
        )
        worst = max(worst, error)
        rounded = ROUNDED_FACTORS * math.sqrt(factors / right.numel()) * ROUNDING
        if error > max(TOLERANCES[dtype], rounded, OF_EAGER * of_eager):
            return {"error": error, "wrong": f"error {error:.1e}, eager {of_eager:.1e}"}
    return {"error": worst}
