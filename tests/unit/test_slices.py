"""Which sets of ops may become one group: one test for each reason why not."""

import pytest
from iree.compiler import ir

from mlirfuse.core import Reason
from mlirfuse.structured.ir import ops, slices

MODULE = """
util.func public @main(%x: tensor<8xf32>, %c: i1) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = math.exp %x {id = "a"} : tensor<8xf32>
  %b = math.absf %a {id = "b"} : tensor<8xf32>
  %bar = util.optimization_barrier {id = "barrier"} %b : tensor<8xf32>
  %d = arith.addf %a, %bar {id = "d"} : tensor<8xf32>
  %e = math.sqrt %d {id = "e"} : tensor<8xf32>
  %r = flow.dispatch.region -> (tensor<8xf32>) {
    %i = math.exp %e {id = "inside"} : tensor<8xf32>
    %j = math.exp %i {id = "outside"} : tensor<8xf32>
    flow.return %j : tensor<8xf32>
  }
  %s = scf.if %c -> tensor<8xf32> {
    %t = math.exp %r {id = "then"} : tensor<8xf32>
    scf.yield %t : tensor<8xf32>
  } else {
    scf.yield %r : tensor<8xf32>
  }
  util.return %s, %r : tensor<8xf32>, tensor<8xf32>
}
"""


@pytest.fixture(scope="module")
def group():
    with ir.Context():
        module = ir.Module.parse(MODULE)
        named = {
            ir.StringAttr(op.attributes["id"]).value: op
            for function in ops.functions(module)
            for op in ops.nested_ops(function)
            if "id" in op.attributes
        }
        yield lambda *names: [named[name] for name in names]


def reason(group, limit=16):
    refusal = slices.check(group, limit)
    return None if refusal is None else refusal.reason


def test_ops_that_read_one_another_may(group):
    assert reason(group("a", "b")) is None
    assert reason(group("d", "e")) is None


def test_ops_inside_a_group_may_not(group):
    assert reason(group("inside", "outside")) is Reason.ALREADY_GROUPED


def test_ops_with_effects_may_not(group):
    assert reason(group("b", "barrier")) is Reason.SIDE_EFFECTS


def test_ops_of_two_blocks_may_not(group):
    assert reason(group("e", "then")) is Reason.DIFFERENT_BLOCKS


def test_ops_around_another_that_reads_and_feeds_them_may_not(group):
    refusal = slices.check(group("a", "d"), 16)
    assert refusal.reason is Reason.WOULD_CYCLE
    assert "util.optimization_barrier" in refusal.detail


def test_operands_and_results_are_counted(group):
    assert reason(group("d", "e"), limit=3) is None
    assert reason(group("d", "e"), limit=2) is Reason.TOO_MANY_OPERANDS


GATHER = """
#i = affine_map<(i, j) -> (i)>
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
func.func @main(%x: tensor<4x4xf32>, %r: tensor<4xi64>) -> tensor<16xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %t = linalg.generic {indexing_maps = [MAP, #ij], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    BODY
  } -> tensor<4x4xf32>
  %f = tensor.collapse_shape %t [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
  %n = tensor.empty() : tensor<16xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%n : tensor<16xf32>) {
  ^bb0(%o: f32):
    %k = linalg.index 0 : index
    %v = tensor.extract %f[%k] : tensor<16xf32>
    linalg.yield %v : f32
  } -> tensor<16xf32>
  return %g : tensor<16xf32>
}
"""


@pytest.mark.parametrize(
    ("index_map", "body", "expected"),
    [
        ("#ij", "%v = math.exp %a : f32 linalg.yield %v : f32", Reason.INDEXING_MAP),
        ("#ji", "linalg.yield %a : f32", None),
    ],
)
def test_a_gather_and_the_tensor_that_it_reads(index_map, body, expected):
    with ir.Context():
        module = ir.Module.parse(GATHER.replace("MAP", index_map).replace("BODY", body))
        names = ("linalg.generic", "tensor.collapse_shape")
        group = [op for op in ops.nested_ops(module.operation) if op.name in names]
        assert len(group) == 3
        assert reason(group) is expected
