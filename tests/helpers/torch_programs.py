"""Compiles PyTorch functions and compares all results with PyTorch."""

import pytest
import torch

import mlirfuse

NAN, INF = float("nan"), float("inf")
HALVES = [torch.float32, torch.float16, torch.bfloat16]


def _rare(dtype):
    return pytest.param(dtype, marks=pytest.mark.slow)


WITH_F16 = [torch.float32, torch.float16, _rare(torch.bfloat16)]
WITH_BF16 = [torch.float32, torch.bfloat16, _rare(torch.float16)]
"""The three types, of which one of 16 bits is `slow`: tests of related ops take turns."""

TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def check(model, *arguments, rtol=None):
    """Compiles and compares all results: type, shape, NaN, infinities and values."""
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(model(*arguments))
    program = mlirfuse.compile(model, arguments)
    got = torch.utils._pytree.tree_leaves(program(*arguments))
    for index, (g, e) in enumerate(zip(got, expected, strict=True)):
        if isinstance(e, torch.Tensor):
            tolerance = rtol or TOLERANCE.get(e.dtype, 1e-4)
            torch.testing.assert_close(
                g, e, rtol=tolerance, atol=tolerance, equal_nan=True, msg=f"#{index}: {g} {e}"
            )
        else:
            assert g == e
    return program
