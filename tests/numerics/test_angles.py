"""Sines, cosines and tangents of large numbers on the CPU, of arguments and of constants."""

import math

import numpy as np
import pytest

import mlirfuse

ANGLES = [0.5, 3.0, -30.0, 1e3, 12345.0, 65504.0, -1e6, 1e7, 2.0**31, 1e10, -1e20, 3.4e38]

TEXT = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<COUNTxf32>, %h: tensor<COUNTxf16>)
    -> (tensor<COUNTxf32>, tensor<COUNTxf32>, tensor<COUNTxf32>, tensor<COUNTxf16>) {
  %e = tensor.empty() : tensor<COUNTxf32>
  %eh = tensor.empty() : tensor<COUNTxf16>
  %0:2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<COUNTxf32>) outs(%e, %e : tensor<COUNTxf32>, tensor<COUNTxf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = math.sin %a : f32
    %t = math.tan %a : f32
    linalg.yield %s, %t : f32, f32
  } -> (tensor<COUNTxf32>, tensor<COUNTxf32>)
  %constant = arith.constant dense<VALUES> : tensor<COUNTxf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%constant : tensor<COUNTxf32>) outs(%e : tensor<COUNTxf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = math.cos %a : f32
    linalg.yield %c : f32
  } -> tensor<COUNTxf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%h : tensor<COUNTxf16>) outs(%eh : tensor<COUNTxf16>) {
  ^bb0(%a: f16, %b: f16):
    %c = math.cos %a : f16
    linalg.yield %c : f16
  } -> tensor<COUNTxf16>
  return %0#0, %0#1, %1, %2
      : tensor<COUNTxf32>, tensor<COUNTxf32>, tensor<COUNTxf32>, tensor<COUNTxf16>
}
"""


@pytest.mark.parametrize("target", ["cpu", "cpu:generic"])
def test_large_angles(target):
    x = np.array([*ANGLES, math.inf, math.nan], np.float32)
    h = np.clip(x, -65504, 65504).astype(np.float16)
    values = "[" + ", ".join(f"0x{bits:08X}" for bits in x.view(np.uint32)) + "]"
    text = TEXT.replace("COUNT", str(len(x))).replace("VALUES", values)
    sine, tangent, cosine, half = mlirfuse.compile(text, target=target)(x, h)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
        np.testing.assert_allclose(sine, np.sin(wide), atol=4e-7)
        np.testing.assert_allclose(tangent, np.tan(wide), rtol=4e-6)
        np.testing.assert_allclose(cosine, np.cos(wide), atol=4e-7)
        np.testing.assert_allclose(half, np.cos(h.astype(np.float64)), atol=1e-3)
