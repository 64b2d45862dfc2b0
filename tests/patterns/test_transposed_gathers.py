"""Images that are resized between ops with channels last, beside float64 and the plain program."""

import pytest
import torch
import torch.nn.functional as F

import mlirfuse
from helpers.torch_program import Program

PASS = "transposed_gather_rewrite"


def values(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.manual_seed(2)).to(dtype)


def image(tokens, size):
    """Tokens (batch, pixels, channels) as an image with channels first."""
    return tokens.mT.reshape(tokens.shape[0], -1, *size)


def resized(x, mode, size=(16, 12)):
    corners = {} if mode.startswith("nearest") else {"align_corners": False}
    return F.interpolate(x, size=size, mode=mode, **corners)


def projected(tokens, weight, mode):
    return F.conv2d(resized(image(tokens, (8, 6)), mode), weight)


def head(first, second, weight):
    """The head of SegFormer: maps of several sizes, resized to one, and a convolution."""
    maps = [image(first, (16, 12)), image(second, (8, 6))]
    return F.conv2d(torch.cat([resized(x, "bilinear") for x in maps], 1), weight)


def neck(x, skip, weight):
    """A resized map beside one that is not, with a gate."""
    up = resized(image(x, (8, 6)), "nearest") * torch.sigmoid(skip[:, :1])
    return F.conv2d(torch.cat([up, skip], 1), weight)


WEIGHT = values(32, 48, 1, 1)

PROGRAMS = {
    "nearest": (lambda x, w: projected(x, w, "nearest"), values(1, 48, 48), WEIGHT),
    "bilinear": (lambda x, w: projected(x, w, "bilinear"), values(1, 48, 48), WEIGHT),
    "bicubic": (lambda x, w: projected(x, w, "bicubic"), values(1, 48, 48), WEIGHT),
    "half": (
        lambda x, w: projected(x, w, "bilinear"),
        values(1, 48, 48, dtype=torch.float16),
        WEIGHT.half(),
    ),
    "of_two_images": (lambda x, w: projected(x, w, "bilinear"), values(2, 48, 48), WEIGHT),
    "concatenated": (head, values(1, 192, 24), values(1, 48, 24), WEIGHT),
    "beside_another": (neck, values(1, 48, 32), values(1, 16, 16, 12), WEIGHT),
}

OTHERS = {
    # Most of the concatenation is in the order of the convolution's image already, or of no gather.
    "mostly_another": (neck, values(1, 48, 16), values(1, 32, 16, 12), WEIGHT),
    # Images with channels first have adjacent pixels.
    "channels_first": (
        lambda x, w: F.conv2d(resized(x, "bilinear"), w),
        values(1, 48, 8, 6),
        WEIGHT,
    ),
}


@pytest.mark.parametrize("name", [*PROGRAMS, *OTHERS])
def test_values(name):
    function, *arguments = (PROGRAMS | OTHERS)[name]
    exact = function(*(x.double() for x in arguments))
    program = mlirfuse.compile(Program(function), arguments, target="cpu")
    taken = any(d.taken and d.pass_name == PASS for d in program.report.decisions)
    assert taken == (name in PROGRAMS)
    without = mlirfuse.compile(Program(function), arguments, target="cpu", disable_pass=[PASS])
    got, expected = program(*arguments), without(*arguments)
    error = 2e-2 if got.dtype == torch.float16 else 2e-5
    torch.testing.assert_close(got.double(), exact, rtol=error, atol=error)
    torch.testing.assert_close(got, expected, rtol=error / 2, atol=error)
