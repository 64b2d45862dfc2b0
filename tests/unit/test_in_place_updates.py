"""Dispatches keep their order where one updates a tensor in place that another one reads."""

import numpy as np
import pytest
import torch
from iree.compiler import ir
from torch import nn
from torch.nn import functional as F

import mlirfuse
from mlirfuse.backend import in_place_updates

GATHER = """
  %g = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
      ins(%i : tensor<9xi64>) outs(%e : tensor<9xf32>) {
  ^bb0(%p: i64, %o: f32):
    %k = arith.index_cast %p : i64 to index
    %r = tensor.extract SOURCE[%k] : tensor<40xf32>
    linalg.yield %r : f32
  } -> tensor<9xf32>
"""

UPDATES = {
    "scatter": """
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(VALUES, %i : tensor<9xf32>, tensor<9xi64>) outs(SOURCE : tensor<40xf32>) {
  ^bb0(%u: f32, %o: f32):
    iree_linalg_ext.yield %u : f32
  } -> tensor<40xf32>
""",
    "insertion": """
  %y = tensor.insert_slice VALUES into SOURCE[3] [9] [1] : tensor<9xf32> into tensor<40xf32>
""",
    "sum": """
  %b = linalg.broadcast ins(VALUES : tensor<9xf32>) outs(%t : tensor<9x40xf32>) dimensions = [1]
  %y = linalg.generic {indexing_maps = [#m, #n], iterator_types = ["parallel", "reduction"]}
      ins(%b : tensor<9x40xf32>) outs(SOURCE : tensor<40xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<40xf32>
""",
    "elementwise": """
  %y = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
      ins(%x : tensor<40xf32>) outs(SOURCE : tensor<40xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  } -> tensor<40xf32>
""",
}

FUNCTION = """
#v = affine_map<(a) -> (a)>
#m = affine_map<(a, b) -> (b, a)>
#n = affine_map<(a, b) -> (a)>
func.func @main(%x: tensor<40xf32>, %v: tensor<9xf32>, %i: tensor<9xi64>)
    -> (tensor<9xf32>, tensor<40xf32>) {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9xf32>
  %t = tensor.empty() : tensor<9x40xf32>
  %n = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%c : f32) outs(%n : tensor<40xf32>) -> tensor<40xf32>
  %h = tensor.expand_shape %x [[0, 1]] output_shape [8, 5] : tensor<40xf32> into tensor<8x5xf32>
  %w = tensor.collapse_shape %h [[0, 1]] : tensor<8x5xf32> into tensor<40xf32>
BODY
  return %g, %y : tensor<9xf32>, tensor<40xf32>
}
"""


def flags(update, *, source="%x", read="%x", values="%v"):
    body = GATHER.replace("SOURCE", read) + UPDATES[update].replace("SOURCE", source)
    text = FUNCTION.replace("BODY", body.replace("VALUES", values))
    with ir.Context():
        return in_place_updates.safe_flags(ir.Module.parse(text))


@pytest.mark.parametrize("update", ["scatter", "insertion", "sum"])
def test_a_reader_beside_an_update(update):
    assert flags(update)
    assert flags(update, source="%w")
    assert flags(update, read="%w")
    assert not flags(update, read="%f")
    assert not flags(update, source="%f", read="%f")  # of which each has its own


@pytest.mark.parametrize("update", ["scatter", "insertion", "sum"])
def test_an_update_that_waits_for_the_reader(update):
    assert not flags(update, values="%g")


def test_an_op_that_reads_nothing_of_its_destination():
    assert not flags("elementwise")


def test_calls_and_dispatches_that_are_tied():
    text = """
      util.func private @f(%x: tensor<4xf32>) -> %x
      util.func private @g(%x: tensor<4xf32>) -> tensor<4xf32>
      util.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
        %a = util.call @FIRST(%x) : (tensor<4xf32>) -> TIE
        %b = util.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
        util.return %a, %b : tensor<4xf32>, tensor<4xf32>
      }
    """
    with ir.Context():
        for first, tie in (("f", "%x"), ("g", "tensor<4xf32>")):
            module = ir.Module.parse(text.replace("FIRST", first).replace("TIE", tie))
            assert bool(in_place_updates.safe_flags(module)) == (first == "f")


def test_an_op_without_results():
    text = """
      func.func @main(%x: memref<4xf32>) {
        linalg.generic {
          indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]
        } outs(%x : memref<4xf32>) {
        ^bb0(%o: f32):
          linalg.yield %o : f32
        }
        return
      }
    """
    with ir.Context():
        assert not in_place_updates.safe_flags(ir.Module.parse(text))


class Moved(nn.Module):
    """The part that is overwritten is added elsewhere."""

    def forward(self, a, b):
        x = a + b
        part = torch.as_strided(x, [2, 3, 2, 9], [216, 72, 9, 1], 0).clone()
        zeros = torch.zeros_like(part)
        rest = torch.as_strided_scatter(x, zeros, [2, 3, 2, 9], [216, 72, 9, 1], 0)
        return rest + F.pad(part, (0, 0, 5, 1)), part


@pytest.mark.parametrize("safe", [True, False])
def test_results(monkeypatch, safe):
    """Without the flags IREE reads what was updated; a kernel would read the slice elsewhere."""
    if not safe:
        monkeypatch.setattr(in_place_updates, "IN_ORDER", ())
    a, b = torch.randn(2, 2, 3, 8, 9)
    off = {"disable_feature": ["kernels"]}
    program = mlirfuse.compile(Moved(), (a, b), target="cpu", cache=False, **off)
    pairs = zip(program(a, b), Moved()(a, b), strict=True)
    assert all(np.array_equal(found, expected) for found, expected in pairs) == safe


def test_an_analysis_that_raises_keeps_the_order(monkeypatch, caplog):
    def broken(module):
        raise ValueError("a fault")

    monkeypatch.setattr(in_place_updates, "safe_flags", broken)
    a, b = torch.randn(2, 2, 3, 8, 9)
    program = mlirfuse.compile(Moved(), (a, b), target="cpu", cache=False)
    pairs = zip(program(a, b), Moved()(a, b), strict=True)
    assert all(np.array_equal(found, expected) for found, expected in pairs)
    assert "in_place_updates left out" in caplog.text
