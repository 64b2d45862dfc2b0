"""Convolutions of copied images, and of rounded ones, run on the CPU: the passes act on CUDA."""

import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.codegen import dot_precision
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import channels_last_rewrite
from mlirfuse.pipelines import engine

HOPPER = targets.parse("cuda:sm_90")


def text(channels, size, filters):
    """A padded convolution of an image with channels first."""
    image, padded = f"2x{channels}x{size}x{size}xf32", f"2x{channels}x{size + 2}x{size + 2}xf32"
    weight, result = f"{filters}x{channels}x3x3xf32", f"2x{filters}x{size}x{size}xf32"
    kinds = ", ".join(['"parallel"'] * 4 + ['"reduction"'] * 3)
    return f"""
#x = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#w = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#y = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>
func.func @main(%x: tensor<{image}>, %w: tensor<{weight}>) -> tensor<{result}> {{
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {{
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  }} : tensor<{image}> to tensor<{padded}>
  %e = tensor.empty() : tensor<{result}>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{result}>) -> tensor<{result}>
  %y = linalg.generic {{indexing_maps = [#x, #w, #y], iterator_types = [{kinds}]}}
      ins(%p, %w : tensor<{padded}>, tensor<{weight}>) outs(%z : tensor<{result}>) {{
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  }} -> tensor<{result}>
  return %y : tensor<{result}>
}}
"""


def transposed_text():
    """A transposed convolution with a stride of 2: zeros around and between the elements."""
    found = text(32, 16, 24).replace("2x24x16x16", "2x24x33x33").replace("18x18", "35x35")
    start, end = found.index("  %p = tensor.pad"), found.index("  %e = tensor.empty")
    spread = """
  %u = tensor.empty() : tensor<2x32x35x35xf32>
  %q = linalg.fill ins(%zero : f32) outs(%u : tensor<2x32x35x35xf32>) -> tensor<2x32x35x35xf32>
  %p = tensor.insert_slice %x into %q[0, 0, 2, 1] [2, 32, 16, 16] [1, 1, 2, 2]
      : tensor<2x32x16x16xf32> into tensor<2x32x35x35xf32>
"""
    return found[:start] + spread + found[end:]


def rewritten(source, passes, **options):
    """The module behind some passes, and how often each was applied."""
    switches = FusionOptions(pipeline=passes, enable_feature=("kernels",), **options)
    with ir.Context():
        after, report = engine.run(ir.Module.parse(source), target=HOPPER, options=switches)
        return str(after), report.counts()


def nearest(x):
    """Numbers of TF32: ten bits behind the point, halves away from zero."""
    bits = x.view(np.int32)
    rounded = ((bits + (1 << 12)) & ~((1 << 13) - 1)).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)


def convolved(x, w):
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    size = x.shape[-1]
    total = 0.0
    for i in range(3):
        for j in range(3):
            part = padded[:, :, i : i + size, j : j + size]
            total = total + np.einsum("nchw,fc->nfhw", part, w[:, :, i, j].astype(np.float64))
    return total


@pytest.fixture(autouse=True)
def small_images_are_copied(monkeypatch):
    """Also where Triton is missing; `lit_tests` has those that the model of time leaves."""
    monkeypatch.setattr(triton_compiler, "missing", lambda: None)
    monkeypatch.setattr(channels_last_rewrite, "gains_from_copied_image", lambda *_: True)


def test_copied_images():
    source = text(32, 16, 24)
    turned, counts = rewritten(source, "channels_last_rewrite")
    assert counts == {"channels_last_rewrite": 1}
    draws = np.random.default_rng(0)
    x = draws.standard_normal((2, 32, 16, 16)).astype(np.float32)
    w = draws.standard_normal((24, 32, 3, 3)).astype(np.float32)
    found = mlirfuse.compile(turned, target="cpu", stock=True, cache=False)(x, w)
    assert np.abs(np.asarray(found) - convolved(x, w)).max() < 5e-4


def test_copied_images_of_transposed_convolutions():
    turned, counts = rewritten(transposed_text(), "channels_last_rewrite")
    assert counts == {"channels_last_rewrite": 1}
    draws = np.random.default_rng(0)
    x = draws.standard_normal((2, 32, 16, 16)).astype(np.float32)
    w = draws.standard_normal((24, 32, 3, 3)).astype(np.float32)
    found = mlirfuse.compile(turned, target="cpu", stock=True, cache=False)(x, w)
    spread = np.zeros((2, 32, 35, 35), np.float32)
    spread[:, :, 2:34:2, 1:33:2] = x
    exact = convolved(spread, w)[:, :, 1:-1, 1:-1]
    assert np.abs(np.asarray(found) - exact).max() < 5e-4


@pytest.fixture
def any_size(monkeypatch):
    """Convolutions of few operations may be in TF32, too."""
    monkeypatch.setattr(dot_precision, "MIN_TF32_OPERATIONS", 0)


@pytest.mark.usefixtures("any_size")
def test_rounded_images():
    """Both operands are copies: of the image, and of the filter."""
    source = text(32, 16, 24)
    passes = "channels_last_rewrite,filter_layout_rewrite,tf32_rounding_rewrite"
    turned, counts = rewritten(source, passes, float32_conv_precision="high")
    assert counts["tf32_rounding_rewrite"] == 2
    draws = np.random.default_rng(1)
    x = draws.uniform(0.5, 2.0, (2, 32, 16, 16)).astype(np.float32)
    w = draws.uniform(0.5, 2.0, (24, 32, 3, 3)).astype(np.float32)
    found = mlirfuse.compile(turned, target="cpu", stock=True, cache=False)(x, w)
    expected, exact = convolved(nearest(x), nearest(w)), convolved(x, w)
    assert np.abs(np.asarray(found) / expected - 1).max() < 2e-6
    assert np.abs(expected / exact - 1).max() > 2e-5


@pytest.mark.usefixtures("any_size")
def test_infinities_and_nan_are_kept():
    source = text(32, 16, 24)
    passes = "channels_last_rewrite,tf32_rounding_rewrite"
    turned, _ = rewritten(source, passes, float32_conv_precision="high")
    x = np.ones((2, 32, 16, 16), np.float32)
    x[0, 0, 4, 4], x[0, 0, 8, 8] = np.inf, np.uint32(0x7FFFFFFF).view(np.float32)
    x[0, 0, 12, 12] = np.finfo(np.float32).max
    w = np.ones((24, 32, 3, 3), np.float32)
    found = np.asarray(mlirfuse.compile(turned, target="cpu", stock=True, cache=False)(x, w))
    assert np.isinf(found[0, :, 3:6, 3:6]).all()
    assert np.isnan(found[0, :, 7:10, 7:10]).all()
    assert np.isinf(found[0, :, 12, 12]).all()  # the nearest number of TF32
    assert np.isfinite(found[1]).all()
