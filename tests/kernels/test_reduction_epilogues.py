"""Kernels of norms with their epilogues: operands by batch, by channel, and whole tensors."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import close, draw, needs_triton, planned, run
from helpers.linalg_text import Function
from helpers.norm_text import EPSILON, layer_norm, rms_norm, silu
from mlirfuse.kernels import triton_compiler


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def normed(x, axes):
    shifted = x - x.mean(axes, keepdims=True)
    return shifted / np.sqrt((shifted * shifted).mean(axes, keepdims=True) + EPSILON)


@needs_triton
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_group_norm_with_silu(interpreter, dtype):
    """Channels and space are columns, the scale is by channel, with reshapes between."""
    f = Function("main", (3, 20, 4, 2, 8, 20))
    x, gamma = f.argument((0, 4, 5), dtype), f.argument((4,), dtype)
    dims = "[[0], [1, 2], [3]]"
    wide = f.reshape(f.cast(x, "f32"), (0, 2, 3, 5), dims)
    n = f.reshape(layer_norm(f, wide, (3, 5), None, None, "f32"), (0, 4, 5), dims)
    y = silu(f, f.cast(f.apply("arith.mulf", n, f.cast(gamma, "f32")), dtype))
    arrays = [draw((3, 8, 20), dtype, 1), draw((8,), dtype, 2)]
    (found,) = run(interpreter, f.finish(y), "rows", arrays, [(3, 8, 20)])
    a, g = (array.astype(np.float64) for array in arrays)
    n = normed(a.reshape(3, 4, -1), 2).reshape(a.shape) * g[:, None]
    close(found, n * sigmoid(n), dtype)


@needs_triton
@pytest.mark.parametrize("rows", [3, None])
def test_modulation_by_batch_and_column(interpreter, rows):
    f = Function("main", (rows, 5, 40))
    x, scale, shift = (f.argument(axes, "f16") for axes in ((0, 1, 2), (0, 2), (0, 2)))
    n = layer_norm(f, x, (2,), None, None, "f32")
    m = f.apply("arith.mulf", n, f.apply("arith.addf", scale, 1.0))
    text = f.finish(f.apply("arith.addf", m, shift))
    arrays = [draw((3, 5, 40), "f16", 1), draw((3, 40), "f16", 2), draw((3, 40), "f16", 3)]
    (found,) = run(interpreter, text, "rows", arrays, [(3, 5, 40)])
    a, scale, shift = (array.astype(np.float64) for array in arrays)
    close(found, normed(a, 2) * (1 + scale[:, None]) + shift[:, None], "f16")


@needs_triton
def test_gate_and_residual(interpreter):
    f = Function("main", (7, 96))
    x, g, z, r = (f.argument(axes, "f32") for axes in ((0, 1), (1,), (0, 1), (0, 1)))
    y = f.apply("arith.mulf", rms_norm(f, x, (1,), g, "f32"), silu(f, z))
    arrays = [draw(s, "f32", n) for n, s in enumerate(((7, 96), (96,), (7, 96), (7, 96)))]
    (found,) = run(interpreter, f.finish(f.apply("arith.addf", r, y)), "rows", arrays, [(7, 96)])
    a, g, z, r = (array.astype(np.float64) for array in arrays)
    n = a / np.sqrt((a * a).mean(1, keepdims=True) + EPSILON) * g
    close(found, r + n * z * sigmoid(z), "f32")


SCALARS = """
#v = affine_map<(i) -> (i)>
#s = affine_map<(i) -> ()>
#n = affine_map<() -> ()>
func.func @main(%x: tensor<5xf32>, %y: tensor<5xf32>, %z: tensor<f32>)
    -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %a = linalg.generic {indexing_maps = [#v, #s], iterator_types = ["reduction"]}
      ins(%x : tensor<5xf32>) outs(%f : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %p = arith.addf %in, %out : f32
    linalg.yield %p : f32
  } -> tensor<f32>
  %b = linalg.generic {indexing_maps = [#v, #s], iterator_types = ["reduction"]}
      ins(%y : tensor<5xf32>) outs(%f : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %p = arith.addf %in, %out : f32
    linalg.yield %p : f32
  } -> tensor<f32>
  %c = linalg.generic {indexing_maps = [#n, #n, #n, #n], iterator_types = []}
      ins(%a, %b, %z : tensor<f32>, tensor<f32>, tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %out: f32):
    %p = arith.mulf %i, %j : f32
    %q = arith.addf %p, %k : f32
    linalg.yield %q : f32
  } -> tensor<f32>
  return %a, %b, %c : tensor<f32>, tensor<f32>, tensor<f32>
}
"""


@needs_triton
def test_results_of_rank_zero(interpreter):
    arrays = [draw((5,), "f32", 1), draw((5,), "f32", 2), draw((), "f32", 3)]
    found = run(interpreter, SCALARS, "rows", [np.asarray(a) for a in arrays], [()] * 3)
    x, y, z = (array.astype(np.float64) for array in arrays)
    for got, expected in zip(found, (x.sum(), y.sum(), x.sum() * y.sum() + z), strict=True):
        close(got, expected, "f32")
    with ir.Context():
        _, (plan,) = planned(SCALARS, "rows")
        assert triton_compiler.build(plan.program, "sm_90").code
