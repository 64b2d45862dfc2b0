"""Tile sizes of the CPU's passes are a property of the target, by its instruction set."""

import dataclasses

import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.targets import cpu

SOFTMAX = """
func.func @f(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %e = tensor.empty() : tensor<64x128xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<64x128xf32>) outs(%e : tensor<64x128xf32>)
      -> tensor<64x128xf32>
  return %y : tensor<64x128xf32>
}
"""
MATMUL = """
util.global private @w : tensor<64x64xf32>
func.func @f(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load immutable @w : tensor<64x64xf32>
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = linalg.matmul ins(%x, %w : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
"""


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        ("x86-64-v4", "avx512"),
        ("znver5", "avx512"),
        ("x86-64-v3", "avx2"),
        ("haswell", "avx2"),
        ("znver3", "avx2"),
        ("x86-64-v2", "baseline"),
        ("generic", "baseline"),
        ("aarch64", "neon"),
        ("neoverse-v1", "neon"),
    ],
)
def test_instruction_sets(arch, expected):
    target = targets.parse(f"cpu:{arch}")
    assert cpu.instruction_set(target.cpu) == expected
    assert target.cpu_tiles is not None


def test_other_targets_have_no_tiles_of_a_cpu():
    assert targets.parse("cuda:sm_90").cpu_tiles is None


@pytest.mark.parametrize(
    ("text", "name", "changes", "expected"),
    [
        (SOFTMAX, "softmax_fusion", {"softmax_rows": 2}, "vector_common_parallel = [2, 0, 0]"),
        (MATMUL, "weight_packing_rewrite", {"max_packed_m": 16}, "distribution = [16, 2, 32, 0]"),
        (MATMUL, "data_tiling_rewrite", {"min_data_tiled_n": 8}, "iree.opt.data_tiling"),
    ],
)
def test_passes_take_the_tiles_of_the_target(text, name, changes, expected):
    target = targets.parse("cpu:x86-64-v4")
    changed = dataclasses.replace(target.cpu_tiles, **changes)
    other = dataclasses.replace(target.cpu_tiles, softmax_rows=8, max_packed_m=32)
    other = dataclasses.replace(other, min_data_tiled_n=65)
    options = FusionOptions(pipeline=name, single_op_groups=True, disable_feature=("kernels",))
    found = []
    for tiles in (changed, other):
        with ir.Context():
            own = dataclasses.replace(target, cpu_tiles=tiles)
            fused, _ = engine.run(ir.Module.parse(text), target=own, options=options)
            found.append(expected in str(fused))
    assert found == [True, False]
