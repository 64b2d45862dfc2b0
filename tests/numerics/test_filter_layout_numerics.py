"""Convolutions with transposed filters, before and after, run on the CPU: the pass acts on CUDA."""

import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine

FILTERS = {"fcij": (24, 16, 3, 2), "cijf": (3, 3, 2, 24), "jfic": (2, 24, 3, 16)}


def text(order, weight):
    """A strided convolution; the filter is a constant."""
    channels = FILTERS[order][order.index("c")]
    image, result = f"tensor<2x11x9x{channels}xf16>", "tensor<2x5x8x24xf32>"
    kind = f"tensor<{'x'.join(map(str, weight.shape))}xf16>"
    data = weight.astype(np.float16).tobytes().hex().upper()
    kinds = ", ".join(['"parallel"'] * 4 + ['"reduction"'] * 3)
    return f"""
#x = affine_map<(b, h, w, f, i, j, c) -> (b, h * 2 + i, w + j, c)>
#w = affine_map<(b, h, w, f, i, j, c) -> ({", ".join(order)})>
#y = affine_map<(b, h, w, f, i, j, c) -> (b, h, w, f)>
func.func @main(%x: {image}) -> {result} {{
  %w = arith.constant dense<"0x{data}"> : {kind}
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {result}
  %s = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
  %y = linalg.generic {{indexing_maps = [#x, #w, #y], iterator_types = [{kinds}]}}
      ins(%x, %w : {image}, {kind}) outs(%s : {result}) {{
  ^bb0(%i: f16, %j: f16, %o: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  }} -> {result}
  return %y : {result}
}}
"""


@pytest.mark.parametrize("order", FILTERS)
def test_transposed_filters(order, monkeypatch):
    monkeypatch.setattr(triton_compiler, "missing", lambda: None)
    draws = np.random.default_rng(0)
    weight = draws.standard_normal(FILTERS[order]).astype(np.float16)
    with ir.Context():
        options = FusionOptions(pipeline="filter_layout_rewrite", enable_feature=("kernels",))
        after, report = engine.run(
            ir.Module.parse(text(order, weight)),
            target=targets.parse("cuda:sm_90"),
            options=options,
        )
        assert report.counts() == {"filter_layout_rewrite": 1}
        turned = str(after)
    w = weight.astype(np.float64).transpose([order.index(a) for a in "ijcf"])
    x = draws.standard_normal((2, 11, 9, w.shape[2])).astype(np.float16)
    found = mlirfuse.compile(turned, stock=True, cache=False)(x)
    wide = x.astype(np.float64)
    expected = sum(wide[:, i : i + 9 : 2, j : j + 8] @ w[i, j] for i in range(3) for j in range(2))
    np.testing.assert_allclose(np.asarray(found), expected, atol=2e-4)
