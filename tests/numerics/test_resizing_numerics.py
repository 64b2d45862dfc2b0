"""Resizes and paddings that are gathers at computed indices, beside PyTorch in float64."""

import functools

import pytest
import torch
import torch.nn.functional as F

import mlirfuse
from helpers.spread import some

PASS = "index_arithmetic_rewrite"

RESIZES = {
    "nearest": {"scale_factor": 2, "mode": "nearest"},
    "nearest_odd": {"size": (37, 29), "mode": "nearest"},
    "bilinear": {"scale_factor": 2, "mode": "bilinear"},
    "bilinear_corners": {"scale_factor": 2, "mode": "bilinear", "align_corners": True},
    "bilinear_odd": {"size": (37, 29), "mode": "bilinear"},
    "bilinear_odd_corners": {"size": (37, 29), "mode": "bilinear", "align_corners": True},
    "bilinear_smaller": {"size": (4, 9), "mode": "bilinear"},
    "bilinear_factor": {"scale_factor": 1.7, "mode": "bilinear"},
    "bilinear_one": {"size": (1, 1), "mode": "bilinear", "align_corners": True},
    "bicubic": {"scale_factor": 2, "mode": "bicubic"},
    "bicubic_odd": {"size": (37, 29), "mode": "bicubic"},
    "bicubic_odd_corners": {"size": (37, 29), "mode": "bicubic", "align_corners": True},
    "bicubic_smaller": {"size": (4, 9), "mode": "bicubic"},
}


class Resize(torch.nn.Module):
    def __init__(self, given):
        super().__init__()
        self.given = given

    def forward(self, x):
        return F.relu(F.interpolate(x, **self.given)) + 1


def image(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, generator=torch.manual_seed(3)).to(dtype)


HALF = ("nearest_odd", "bilinear", "bicubic_odd")
"""Resizes that run in f16 by default: one of each mode."""


@pytest.mark.parametrize(
    ("name", "dtype"),
    some(
        RESIZES,
        (torch.float32, torch.float16),
        often=lambda name, dtype: dtype == torch.float32 or name in HALF,
    ),
)
def test_resize(name, dtype):
    x, module = image(2, 3, 15, 17, dtype=dtype), Resize(RESIZES[name])
    program = mlirfuse.compile(module, (x,))
    assert any(d.taken and d.pass_name == PASS for d in program.report.decisions)
    assert len(program.kernels) == 1
    tolerance = 1e-5 if dtype == torch.float32 else 2e-3
    expected = module(x.double()).to(dtype)
    torch.testing.assert_close(program(x), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("mode", "sizes", "result"),
    [("linear", (2, 3, 17), (29,)), ("trilinear", (1, 2, 5, 7, 6), (9, 5, 13))],
)
@pytest.mark.parametrize("align", [False, True])
def test_other_ranks(mode, sizes, result, align):
    x = image(*sizes)
    module = Resize({"size": result, "mode": mode, "align_corners": align})
    program = mlirfuse.compile(module, (x,))
    assert len(program.kernels) == 1
    torch.testing.assert_close(program(x), module(x.double()).float(), rtol=1e-5, atol=1e-5)


class Indexed(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x) * 2


FORMS = {
    "reflect": functools.partial(F.pad, pad=(2, 3, 1, 2), mode="reflect"),
    "replicate": functools.partial(F.pad, pad=(2, 3, 1, 2), mode="replicate"),
    "circular": functools.partial(F.pad, pad=(2, 3, 1, 2), mode="circular"),
    "roll": functools.partial(torch.roll, shifts=(3, 2), dims=(2, 3)),
    "flip": functools.partial(torch.flip, dims=(2, 3)),
    "every_second": lambda x: x[:, :, torch.arange(0, 15, 2)],
    "negative": lambda x: x[:, :, torch.arange(-1, -16, -1)],
    "twice": lambda x: x[:, :, torch.arange(-15, 0)][:, :, :, torch.arange(17) // 2],
    "table": lambda x: x[:, :, torch.tensor([3, 1, 14, -2, 0])],
}


@pytest.mark.parametrize("name", FORMS)
def test_moved_elements(name):
    x, module = image(2, 3, 15, 17), Indexed(FORMS[name])
    program = mlirfuse.compile(module, (x,))
    torch.testing.assert_close(program(x), module(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["bilinear_odd", "bicubic", "nearest_odd"])
def test_one_kernel_on_cuda(name):
    """The kernel reads the image and weights along one axis each, no table of indices."""
    x = image(2, 3, 15, 17, dtype=torch.float16)
    program = mlirfuse.compile(Resize(RESIZES[name]), (x,), target="cuda:sm_90")
    (kernel,) = program.kernels
    assert not [o for o in kernel.operands if o.dtype.startswith("i")]
