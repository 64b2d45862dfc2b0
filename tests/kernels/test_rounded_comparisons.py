"""Regions that compare computed values: each op of the region is rounded once, as in PyTorch."""

import functools

import numpy as np
import pytest
from iree.compiler import ir

from helpers import kernel_runner
from helpers.kernel_runner import needs_triton, planned, run
from mlirfuse.kernels.reduction.family import REDUCTION
from mlirfuse.kernels.reduction.problem import ReductionConfig

LOOP = {"block_rows": 4, "block_columns": 16, "num_warps": 1}
CONFIGS = {
    "registers": None,
    "loop": ReductionConfig(64, 16, 32768, **LOOP),
    "split": ReductionConfig(64, 16, 32768, splits=3, **LOOP),
}

TEXT = """
#full = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<6x160xf16>) -> tensor<6xf32> {
  %low = arith.constant 0xFC00 : f16
  %inf = arith.constant 0x7F800000 : f32
  %one = arith.constant 1.0 : f16
  %w = tensor.empty() : tensor<6x160xf16>
  %y = linalg.generic {indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<6x160xf16>) outs(%w : tensor<6x160xf16>) {
  ^bb0(%a: f16, %o: f16):
    %n = arith.negf %a : f16
    %p = math.exp %n : f16
    %s = arith.addf %p, %one : f16
    %q = arith.divf %one, %s : f16
    linalg.yield %q : f16
  } -> tensor<6x160xf16>
  %e = tensor.empty() : tensor<6xf16>
  %f = linalg.fill ins(%low : f16) outs(%e : tensor<6xf16>) -> tensor<6xf16>
  %v = linalg.generic {indexing_maps = [#full, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%y : tensor<6x160xf16>) outs(%f : tensor<6xf16>) {
  ^bb0(%a: f16, %o: f16):
    %r = arith.maximumf %a, %o : f16
    linalg.yield %r : f16
  } -> tensor<6xf16>
  %h = tensor.empty() : tensor<6xf32>
  %g = linalg.fill ins(%inf : f32) outs(%h : tensor<6xf32>) -> tensor<6xf32>
  %i = linalg.generic {indexing_maps = [#full, #rows, #rows],
      iterator_types = ["parallel", "reduction"]}
      ins(%y, %v : tensor<6x160xf16>, tensor<6xf16>) outs(%g : tensor<6xf32>) {
  ^bb0(%a: f16, %b: f16, %o: f32):
    %n = linalg.index 1 : index
    %m = arith.index_cast %n : index to i32
    %k = arith.sitofp %m : i32 to f32
    %d = arith.extf %a : f16 to f32
    %e1 = arith.extf %b : f16 to f32
    %c = arith.cmpf oeq, %d, %e1 : f32
    %s = arith.select %c, %k, %inf : f32
    %r = arith.minimumf %s, %o : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  return %i : tensor<6xf32>
}
"""


@pytest.fixture(params=CONFIGS)
def strategy(monkeypatch, request):
    """Has kernels planned in one of three forms."""
    chosen = functools.partial(REDUCTION.plan, config=CONFIGS[request.param])
    monkeypatch.setitem(kernel_runner.SUPPORTS, "rows", lambda op, target: chosen(op, target))
    return request.param


@needs_triton
def test_the_first_largest_sigmoid(interpreter, strategy):
    """Those from 8.3 on are one in f16; with rounded steps those from 7.6 on would be."""
    x = np.linspace(2.0, 8.0, 160)
    x = np.stack([x + offset for offset in np.linspace(0.0, 2.0, 6)]).astype(np.float16)
    exact = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float16)
    rounded = (1 + np.exp(-x.astype(np.float64)).astype(np.float16)).astype(np.float64)
    steps = (1 / rounded).astype(np.float16)
    expected = exact.astype(np.float64).argmax(1)
    assert (expected != steps.astype(np.float64).argmax(1)).any()
    (found,) = run(interpreter, TEXT, "rows", [x], [(6,)])
    assert found.tolist() == expected.tolist()


@needs_triton
def test_exact_ops_are_not_rounded(strategy):
    """But by the comparison itself, which needs its operands as memory would have them."""

    def rounded(text):
        with ir.Context():
            _, (plan,) = planned(text, "rows")
            lines = plan.kernels()[0].program.source.splitlines()
        return sum(".to(tl.float16).to(tl.float32)" in line and "==" not in line for line in lines)

    text = TEXT.replace("math.exp %n", "math.absf %n").replace("arith.addf", "arith.maximumf")
    assert rounded(text.replace("arith.divf", "arith.minimumf")) == 0
    assert rounded(TEXT) > 0
