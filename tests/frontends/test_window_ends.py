"""Convolutions and poolings with a single position, whose image is larger than the window."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import torch
from onnx import helper

import mlirfuse

SIZES = ((1, 2, 2, 1), (4, 2, 5, 0), (5, 3, 7, 1), (3, 2, 2, 0))
"""Length of the image, of the window, stride and padding."""


def test_torch():
    layers = torch.nn.ModuleList(
        [torch.nn.Conv1d(3, 4, window, stride, padding) for _, window, stride, padding in SIZES]
        + [torch.nn.Conv2d(3, 4, (2, 1), (1, 1), (1, 2)), torch.nn.Conv3d(3, 4, 2, 3)]
    )
    images = [torch.randn(2, 3, length) for length, *_ in SIZES]
    images += [torch.randn(2, 3, 1, 1), torch.randn(2, 3, 3, 2, 4)]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, *images):
            return [layer(image) for layer, image in zip(self.layers, images, strict=True)]

    model = Model().eval()
    results = mlirfuse.compile(model, tuple(images), target="cpu", cache=False)(*images)
    for result, expected in zip(results, model(*images), strict=True):
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)


def test_jax():
    def model(images, filters):
        found = []
        for image, taps, (_, window, stride, padding) in zip(images, filters, SIZES, strict=True):
            pads = [(padding, padding)]
            found.append(jax.lax.conv_general_dilated(image, taps, (stride,), pads))
            found.append(
                jax.lax.reduce_window(
                    image,
                    -jnp.inf,
                    jax.lax.max,
                    (1, 1, window),
                    (1, 1, stride),
                    [(0, 0), (0, 0), (padding, padding)],
                )
            )
        return found

    draw = np.random.default_rng(0).standard_normal
    images = [draw((2, 3, length)).astype(np.float32) for length, *_ in SIZES]
    filters = [draw((4, 3, window)).astype(np.float32) for _, window, *_ in SIZES]
    results = mlirfuse.compile(model, (images, filters), target="cpu", cache=False)(images, filters)
    for result, expected in zip(results, model(images, filters), strict=True):
        np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", SIZES[1:2])
def test_onnx(size: tuple[int, int, int, int], tmp_path: Path):
    length, window, stride, _ = size
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[window], strides=[stride])
    shapes = {"x": (2, 3, length), "w": (4, 3, window), "y": (2, 4, 1)}
    x, w, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    graph = helper.make_graph([node], "graph", [x, w], [y])
    path = tmp_path / "model.onnx"
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    draw = np.random.default_rng(0).standard_normal
    image, taps = (draw(shapes[name]).astype(np.float32) for name in "xw")
    result = mlirfuse.compile(path, target="cpu", cache=False)(image, taps)
    expected = torch.conv1d(torch.from_numpy(image), torch.from_numpy(taps), stride=stride)
    np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=1e-5)
