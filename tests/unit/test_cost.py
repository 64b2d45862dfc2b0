"""The modelled time of ops and groups."""

import pytest
from iree.compiler import ir

from mlirfuse import cost, targets
from mlirfuse.structured.ir import ops

TEXT = """
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
func.func @main(%x: tensor<1024x4096xf32>) -> tensor<1024x64x64xf16> {
  %e = tensor.empty() : tensor<1024x4096xf16>
  %cast = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<1024x4096xf32>) outs(%e : tensor<1024x4096xf16>) {
  ^bb0(%i: f32, %o: f16):
    %r = arith.truncf %i : f32 to f16
    linalg.yield %r : f16
  } -> tensor<1024x4096xf16>
  %heads = tensor.expand_shape %cast [[0], [1, 2]] output_shape [1024, 64, 64]
      : tensor<1024x4096xf16> into tensor<1024x64x64xf16>
  return %heads : tensor<1024x64x64xf16>
}
"""


@pytest.fixture(name="group")
def _group():
    with ir.Context():
        module = ir.Module.parse(TEXT)
        (function,) = ops.functions(module)
        block = function.regions[0].blocks[0]
        yield [o.operation for o in block.operations if o.operation.name != "func.return"][1:]


def test_a_cast_takes_the_time_of_its_bytes(group):
    """It has no operations, but as many independent iterations as elements."""
    target = targets.parse("cuda:sm_90")
    moved = 1024 * 4096 * 6
    expected = moved / target.bandwidth * 1e6 + target.launch_us
    assert cost.work_alone(group[0]).microseconds(target) == pytest.approx(expected)
    assert cost.work(group).microseconds(target) == pytest.approx(expected)
