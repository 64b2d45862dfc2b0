"""PyTorch models whose images or batches have open sizes."""

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import mlirfuse
from mlirfuse.core import Reason

torch.manual_seed(0)


def compared(model, *argument_lists, dynamic_shapes):
    program = mlirfuse.compile(model, argument_lists[0], dynamic_shapes=dynamic_shapes)
    for arguments in argument_lists:
        with torch.no_grad():
            torch.testing.assert_close(program(*arguments), model(*arguments), rtol=1e-4, atol=1e-5)
    return program


def resized(x):
    return (
        F.interpolate(x, scale_factor=2),
        F.interpolate(x, scale_factor=1.5, mode="nearest-exact"),
        F.interpolate(x, scale_factor=2, mode="bilinear"),
        F.interpolate(x, size=(7, 9), mode="bilinear"),
        F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
        F.interpolate(x, scale_factor=1.5, mode="bicubic"),
    )


def test_resized_images():
    sizes = {2: Dim("rows", min=3, max=32), 3: Dim("columns", min=3, max=32)}
    images = [(torch.randn(1, 2, *size),) for size in ((5, 6), (9, 11), (4, 4))]
    compared(resized, *images, dynamic_shapes=(sizes,))


def test_recurrent_layer_of_an_open_batch():
    """Passes made slices of size 0 of such a batch, and were left out."""
    layer = nn.LSTM(8, 8, batch_first=True).eval()
    batches = [(torch.randn(n, 9, 8),) for n in (2, 5)]
    program = compared(layer, *batches, dynamic_shapes=({0: Dim("batch", min=2)},))
    assert not any(d.reason is Reason.FELL_BACK for d in program.report.decisions)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_antialiased_images(dtype):
    x = torch.rand(2, 3, 9, 8) * 255

    def model(x):
        sizes = ((4, 5), (13, 11))
        return [F.interpolate(x, size=n, mode="bicubic", antialias=True) for n in sizes]

    x = x.to(dtype)
    program = mlirfuse.compile(model, (x,))
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-3)
