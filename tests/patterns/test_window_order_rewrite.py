"""Convolutions whose result has its loops in another order, on a software Vulkan device."""

import pytest

import mlirfuse

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("channels", [2, 4, 12])
def test_depthwise_convolutions_of_few_channels(vulkan, channels):
    """IREE gives the lanes of a subgroup to channels that are not as many."""

    def depthwise(x, w):
        return torch.nn.functional.conv2d(x, w, padding=1, groups=channels)

    x, w = torch.randn(1, channels, 6, 6), torch.randn(channels, 1, 3, 3)
    found = mlirfuse.compile(depthwise, (x, w), target=vulkan)(x, w)
    torch.testing.assert_close(found, depthwise(x, w), rtol=1e-5, atol=1e-5)


def test_a_complex_convolution(vulkan):
    """Its filters are sums of parts, which no dispatch computes again for each pixel."""
    x = torch.randn(1, 3, 6, 6, dtype=torch.complex64)
    w = torch.randn(4, 3, 3, 3, dtype=torch.complex64)
    found = mlirfuse.compile(torch.nn.functional.conv2d, (x, w), target=vulkan)(x, w)
    torch.testing.assert_close(found, torch.nn.functional.conv2d(x, w), rtol=1e-5, atol=1e-5)
