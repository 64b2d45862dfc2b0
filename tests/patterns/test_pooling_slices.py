"""Poolings of images with channels first, beside PyTorch in float64 and the unfused program."""

import pytest
import torch
import torch.nn.functional as F

import mlirfuse
from helpers.torch_program import Program

PASS = "pooling_slices_rewrite"

PROGRAMS = {
    "mean": (lambda x: F.avg_pool2d(x, 2), (2, 3, 34, 38)),
    "mean_of_relu": (lambda x: F.avg_pool2d(x.relu(), 2) * 3, (2, 3, 34, 38)),
    "largest": (lambda x: F.max_pool2d(x, 2), (1, 5, 8, 66)),
    "overlapping": (lambda x: F.max_pool2d(x, 3, stride=2), (1, 2, 9, 43)),
    "in_order": (lambda x: F.avg_pool2d(x, 3, stride=1), (4, 16, 40, 60)),
    "dilated": (lambda x: F.max_pool2d(x, 2, stride=1, dilation=3), (4, 16, 40, 60)),
    "line": (lambda x: F.avg_pool1d(x, 4), (3, 4, 80)),
    "thirds": (lambda x: F.max_pool1d(x, 3), (3, 4, 100)),
    "volume": (lambda x: F.avg_pool3d(x, 2), (1, 2, 4, 6, 36)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (5, 20)), (2, 3, 20, 40)),
}

DTYPES = {
    "f32": (torch.float32, 1e-6),
    "f16": (torch.float16, 1e-3),
    "bf16": (torch.bfloat16, 8e-3),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, dtype):
    function, shape = PROGRAMS[name]
    kind, tolerance = DTYPES[dtype]
    x = torch.randn(shape, generator=torch.manual_seed(3)).to(kind)
    program = mlirfuse.compile(Program(function), (x,), target="cpu")
    assert any(d.taken and d.pass_name == PASS for d in program.report.decisions)
    assert [kernel.code for kernel in program.kernels] == ["elementwise_vector_kernel"]
    without = mlirfuse.compile(Program(function), (x,), target="cpu", disable_pass=[PASS])
    exact, found = function(x.double()), program(x).double()
    torch.testing.assert_close(found, exact, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found, without(x).double(), rtol=2 * tolerance, atol=2 * tolerance)


def test_a_nan_stays():
    x = torch.randn(1, 2, 6, 40)
    x[0, 1, 3, 17] = torch.nan
    found = mlirfuse.compile(Program(lambda x: F.max_pool2d(x, 2)), (x,), target="cpu")(x)
    torch.testing.assert_close(found, F.max_pool2d(x, 2), rtol=0, atol=0, equal_nan=True)


OTHERS = {
    "few_columns": (lambda x: F.avg_pool2d(x, 2), (2, 3, 8, 8)),
    "many_taps": (lambda x: F.avg_pool2d(x, 5, stride=1), (2, 3, 8, 40)),
    "far_taps": (lambda x: F.max_pool1d(x, 2, stride=8), (2, 3, 400)),
    "padded": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 32, 64)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_left_to_others(name):
    function, shape = OTHERS[name]
    x = torch.randn(shape)
    program = mlirfuse.compile(Program(function), (x,), target="cpu")
    assert not any(d.taken and d.pass_name == PASS for d in program.report.decisions)
    torch.testing.assert_close(program(x), function(x), rtol=1e-6, atol=1e-6)
