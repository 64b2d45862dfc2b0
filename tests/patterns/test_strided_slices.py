"""Strided 1x1 convolutions, whose images IREE copies as slices, beside float64."""

import pytest
import torch

import mlirfuse

PASS = "strided_slice_rewrite"


class Block(torch.nn.Module):
    """A block of a residual network with a strided shortcut, behind a convolution."""

    def __init__(self, channels=24, filters=40, stride=2, before=True):
        super().__init__()
        conv = torch.nn.Conv2d
        self.before = conv(channels, channels, 3, padding=1) if before else torch.nn.Identity()
        self.main = conv(channels, filters, 3, stride=stride, padding=1)
        self.shortcut = conv(channels, filters, 1, stride=stride)

    def forward(self, x):
        x = torch.relu(self.before(x))
        return torch.relu(self.main(x) + self.shortcut(x))


MODELS = {
    "block": Block(),
    "strides": Block(stride=(3, 2)),
    "image_of_the_caller": Block(before=False),
    "one_dimension": torch.nn.Conv1d(24, 32, 1, stride=2),
    "three_dimensions": torch.nn.Conv3d(24, 32, 1, stride=2),
}

IMAGES = {"one_dimension": (2, 24, 30), "three_dimensions": (1, 24, 6, 7, 8)}


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
@pytest.mark.parametrize("name", MODELS)
def test_values(name, target):
    model = MODELS[name].eval().float()
    image = torch.randn(IMAGES.get(name, (1, 24, 17, 20)), generator=torch.manual_seed(3))
    with torch.no_grad():
        program = mlirfuse.compile(model, (image,), target=target)
        got = program(image)
        exact = model.double()(image.double())
    assert any(d.taken and d.pass_name == PASS for d in program.report.decisions)
    assert not any("slow_memcpy" in kernel.name for kernel in program.report.kernels)
    torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-5)
