"""Convolutions to a few channels, beside PyTorch in float64 and the unfused program."""

import pytest
import torch
import torch.nn.functional as F

import mlirfuse
from helpers.torch_program import Program

PASS = "narrow_convolution_rewrite"

PROGRAMS = {
    "rgb": (lambda x, w, b: F.conv2d(x, w, b, padding=1), (1, 72, 19, 23), (3, 72, 3, 3)),
    "mask": (
        lambda x, w, b: torch.sigmoid(F.conv2d(x.relu(), w, b, padding=2)),
        (1, 40, 16, 20),
        (1, 40, 5, 5),
    ),
    "batch": (lambda x, w, b: F.conv2d(x, w, b), (3, 64, 12, 15), (2, 64, 3, 3)),
    "dilated": (
        lambda x, w, b: F.conv2d(x, w, b, padding=(2, 0), dilation=(2, 3)) * 3,
        (2, 48, 14, 21),
        (1, 48, 3, 2),
    ),
    "row": (lambda x, w, b: F.conv2d(x, w, b, padding=(0, 1)), (1, 96, 9, 17), (2, 96, 1, 3)),
    "line": (lambda x, w, b: F.conv1d(x, w, b, padding=3), (2, 33, 70), (1, 33, 7)),
    "volume": (lambda x, w, b: F.conv3d(x, w, b, padding=1), (1, 50, 5, 6, 9), (2, 50, 3, 3, 3)),
}

DTYPES = {
    "f32": (torch.float32, 1e-6),
    "f16": (torch.float16, 1e-3),
    "bf16": (torch.bfloat16, 8e-3),
}


def arguments(shape, filters, kind):
    generator = torch.manual_seed(5)
    x, w = (torch.randn(sizes, generator=generator) for sizes in (shape, filters))
    scale = w[0].numel() ** -0.5
    b = torch.randn(filters[0], generator=generator)
    return [tensor.to(kind) for tensor in (x, w * scale, b)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("constant", [False, True])
def test_values(name, dtype, constant):
    function, shape, filters = PROGRAMS[name]
    kind, tolerance = DTYPES[dtype]
    x, w, b = arguments(shape, filters, kind)
    given = (x,) if constant else (x, w, b)
    called = Program((lambda x: function(x, w, b)) if constant else function)
    program = mlirfuse.compile(called, given, target="cpu:x86-64-v3")
    assert any(d.taken and d.pass_name == PASS for d in program.report.decisions)
    without = mlirfuse.compile(called, given, target="cpu:x86-64-v3", disable_pass=[PASS])
    exact = function(x.double(), w.double(), b.double())
    bound = tolerance * float(exact.abs().max())
    found = program(*given).double()
    torch.testing.assert_close(found, exact, rtol=tolerance, atol=bound)
    torch.testing.assert_close(found, without(*given).double(), rtol=2 * tolerance, atol=2 * bound)


OTHERS = {
    "stride": (lambda x, w, b: F.conv2d(x, w, b, stride=2), (1, 64, 15, 15), (2, 64, 3, 3)),
    "few_channels": (lambda x, w, b: F.conv2d(x, w, b), (1, 12, 15, 15), (3, 12, 3, 3)),
    "many_outputs": (lambda x, w, b: F.conv2d(x, w, b), (1, 256, 9, 9), (5, 256, 3, 3)),
    "groups": (lambda x, w, b: F.conv2d(x, w, b, groups=2), (1, 128, 9, 9), (2, 64, 3, 3)),
    "one_tap": (lambda x, w, b: F.conv2d(x, w, b), (1, 64, 9, 9), (2, 64, 1, 1)),
    "spread": (
        lambda x, w, b: F.conv_transpose2d(x, w, stride=2),
        (1, 64, 7, 7),
        (64, 2, 3, 3),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_left_to_others(name):
    function, shape, filters = OTHERS[name]
    x, w, b = arguments(shape, filters, torch.float32)
    program = mlirfuse.compile(Program(function), (x, w, b), target="cpu:x86-64-v3")
    assert not any(d.taken and d.pass_name == PASS for d in program.report.decisions)
    torch.testing.assert_close(program(x, w, b), function(x, w, b), rtol=1e-4, atol=1e-4)
