"""Filters with many taps along a row, as those of positions in wav2vec 2.0, on CPUs."""

import numpy as np
import pytest

import mlirfuse
from mlirfuse.kernels.vector import tiled

TAPS = tiled.MAX_UNROLLED_TAPS + 8


@pytest.mark.parametrize(("groups", "padding"), [(2, TAPS // 2), (1, 0)])
def test_long_filters_are_kernels_of_padded_images(groups, padding):
    torch = pytest.importorskip("torch")
    layer = torch.nn.Conv1d(16, 16, TAPS, padding=padding, groups=groups).eval()
    x = torch.linspace(-1, 1, 16 * 100).reshape(1, 16, 100).sin()
    module = mlirfuse.compile(layer, (x,), target="cpu", cache=False)
    assert "conv_vector_kernel" in [kernel.code for kernel in module.report.kernels]
    with torch.inference_mode():
        expected = layer.double()(x.double()).numpy()
    np.testing.assert_allclose(np.asarray(module(x)), expected, rtol=0, atol=2e-5)


def test_windows_over_the_border_have_fewer_taps():
    window = tiled.Window(axis=1, stride=1, taps=TAPS, dilation=1, low=1, size=100, step=1)
    assert not window.always_inside(100 + 2 - TAPS + 1)
    inside = tiled.Window(axis=1, stride=1, taps=TAPS, dilation=1, low=0, size=100, step=1)
    assert inside.always_inside(100 - TAPS + 1)
