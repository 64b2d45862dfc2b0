"""Programs with parts that few models have: they compile, and compute what they say."""

import jax.numpy as jnp
import numpy as np
import torch

import mlirfuse
from helpers.kernel_runner import needs_triton

COMPLEX = """
#row = affine_map<(i) -> (i)>
func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %same = arith.constant dense<(1.0, 2.0)> : tensor<4xcomplex<f32>>
  %each = arith.constant dense<[(1.0, 2.0), (0.0, 2.0), (1.0, 3.0), (1.0, 4.0)]>
      : tensor<4xcomplex<f32>>
  %e = tensor.empty() : tensor<4xcomplex<f32>>
  %r = linalg.generic {indexing_maps = [#row, #row, #row, #row], iterator_types = ["parallel"]}
      ins(%x, %same, %each
          : tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>)
      outs(%e : tensor<4xcomplex<f32>>) {
  ^bb0(%a: complex<f32>, %b: complex<f32>, %c: complex<f32>, %unused: complex<f32>):
    %p = complex.mul %a, %b : complex<f32>
    %q = complex.add %p, %c : complex<f32>
    linalg.yield %q : complex<f32>
  } -> tensor<4xcomplex<f32>>
  return %r : tensor<4xcomplex<f32>>
}
"""


def compiled(model, *given, **switches):
    switches.setdefault("disable_feature", "fallback")
    return mlirfuse.compile(model, *given, cache=False, **switches)


def test_constants_of_complex_numbers():
    x = np.array([1, 1j, 2, 3 - 1j], np.complex64)
    expected = x * (1 + 2j) + np.array([1 + 2j, 2j, 1 + 3j, 1 + 4j])
    np.testing.assert_allclose(compiled(COMPLEX)(x), expected, rtol=1e-6)


def test_a_function_of_jax_with_a_small_array_of_complex_numbers():
    constant = np.array([1 + 2j, 3 - 1j], np.complex64)
    x = np.ones(2, np.float32)
    program = compiled(lambda x: jnp.abs(x * constant), (x,))
    np.testing.assert_allclose(program(x), np.abs(constant), rtol=1e-6)


ASSERTIONS = """
#row = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<4x8xf32>, %n: tensor<4xi32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#all, #row, #all],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %n : tensor<4x8xf32>, tensor<4xi32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: i32, %unused: f32):
    %c = arith.sitofp %b : i32 to f32
    %p = math.sqrt %c : f32
    %q = arith.mulf %a, %p : f32
    linalg.yield %q : f32
  } -> tensor<4x8xf32>
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%n : tensor<4xi32>) {
  ^bb0(%a: i32):
    %ok = arith.cmpi sge, %a, %zero : i32
    cf.assert %ok, "negative"
    linalg.yield
  }
  return %r : tensor<4x8xf32>
}
"""


def test_a_loop_of_assertions_without_results():
    """As ONNX's softmax cross entropy has it for labels that are ignored."""
    x, n = np.ones((4, 8), np.float32), np.array([0, 1, 4, 9], np.int32)
    np.testing.assert_allclose(compiled(ASSERTIONS)(x, n), x * np.sqrt(n)[:, None], rtol=1e-6)


class Masked(torch.nn.Module):
    """A mask that constants decide, in front of itself, as of Funnel's token types."""

    def forward(self, x):
        ids = torch.zeros(2, 16, dtype=torch.long)
        kinds, first = ids[:, :, None] == ids[:, None], ids == 2
        mask = (first[:, :, None] | first[:, None]) | kinds
        mask = torch.cat([mask[:, :1], mask], 1)[:, :-1:2]
        return torch.where(mask, x, -x)


def test_parts_of_a_mask_that_constants_decide():
    x = torch.randn(2, 8, 16)
    assert torch.equal(compiled(Masked(), (x,))(x), Masked()(x))


PATCHES = """
#patch = affine_map<(i, j, k, l) -> (i * 4 + k, j * 4 + l)>
#all = affine_map<(i, j, k, l) -> (i, j, k, l)>
func.func @main(%x: tensor<64x64xf32>, %s: tensor<16x16x4x4xf32>) -> tensor<16x16x4x4xf32> {
  %e = tensor.empty() : tensor<16x16x4x4xf32>
  %r = linalg.generic {indexing_maps = [#patch, #all, #all],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %s : tensor<64x64xf32>, tensor<16x16x4x4xf32>)
      outs(%e : tensor<16x16x4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %unused: f32):
    %p = arith.addf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<16x16x4x4xf32>
  return %r : tensor<16x16x4x4xf32>
}
"""


@needs_triton
def test_patches_that_are_cut_by_an_indexing_map():
    """As `unfold` leaves them: the kernels' loop nests read no such map."""
    mlirfuse.fuse(PATCHES, target="cuda:sm_90", enable_feature="kernels")
