"""Keys that a mask hides from all queries of a tile are left out; against numpy."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import close, draw, needs_triton, planned, run
from helpers.softmax_text import softmax_reference
from mlirfuse.kernels.attention import heuristics
from mlirfuse.kernels.attention.mask_bounds import ANY, NONE, Bounds

QUERIES, KEYS, HEADS, SIZE = 150, 171, 2, 16

TEXT = """
#m = affine_map<(i, j) -> (i, j)>
#q = affine_map<(h, m, n, d, k) -> (h, m, d)>
#k = affine_map<(h, m, n, d, k) -> (h, k, d)>
#v = affine_map<(h, m, n, d, k) -> (h, k, n)>
#s = affine_map<(h, m, n, d, k) -> ()>
#i = affine_map<(h, m, n, d, k) -> (m, k)>
#o = affine_map<(h, m, n, d, k) -> (h, m, n)>
!q = tensor<HxMxDxf32>
!k = tensor<HxKxDxf32>
!m = tensor<MxKxKIND>
func.func @main(%q: !q, %k: !k, %v: !k) -> !q {
  %r = flow.dispatch.region -> (!q) {
    %e = tensor.empty() : !m
    %mask = linalg.generic {indexing_maps = [#m], iterator_types = ["parallel", "parallel"]}
        outs(%e : !m) {
    ^bb0(%o: KIND):
      %true = arith.constant true
      %false = arith.constant false
      %zero = arith.constant 0.0 : f32
      %low = arith.constant 0xFF800000 : f32
      %c0 = arith.constant 0 : i64
      %c3 = arith.constant 3 : i64
      %c2 = arith.constant 2 : i64
      %c128 = arith.constant 128 : i64
      %c20 = arith.constant 20 : i64
      %c100 = arith.constant 100 : i64
      %im = linalg.index 0 : index
      %in = linalg.index 1 : index
      %m = arith.index_cast %im : index to i64
      %n = arith.index_cast %in : index to i64
      %d = arith.subi %m, %n : i64
      BODY
      linalg.yield %y : KIND
    } -> !m
    %scale = arith.constant 0.25 : f32
    %t = tensor.empty() : !q
    %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #i, #o]>
        ins(%q, %k, %v, %scale, %mask : !q, !k, !k, f32, !m) outs(%t : !q) {
    ^bb0(%x: f32):
      iree_linalg_ext.yield %x : f32
    } -> !q
    flow.return %a : !q
  }
  return %r : !q
}
"""

MASKS = {
    "window": (
        """%p = math.absi %d : i64
      %y = arith.cmpi slt, %p, %c20 : i64""",
        lambda m, n: abs(m - n) < 20,
        2,
    ),
    "outside of a window, not": (
        """%p = math.absi %d : i64
      %z = arith.cmpi sgt, %p, %c20 : i64
      %y = arith.xori %z, %true : i1""",
        lambda m, n: abs(m - n) <= 20,
        2,
    ),
    "sliding": (
        """%a = arith.cmpi sge, %d, %c0 : i64
      %b = arith.cmpi slt, %d, %c20 : i64
      %y = arith.andi %a, %b : i1""",
        lambda m, n: (m - n >= 0) & (m - n < 20),
        2,
    ),
    "prefix": (
        """%a = arith.cmpi sle, %n, %m : i64
      %b = arith.cmpi slt, %n, %c20 : i64
      %y = arith.ori %a, %b : i1""",
        lambda m, n: (n <= m) | (n < 20),
        1,
    ),
    "diagonal": (
        """%a = arith.subi %d, %c3 : i64
      %y = arith.cmpi eq, %a, %c0 : i64""",
        lambda m, n: m == n + 3,
        2,
    ),
    "first keys": ("%y = arith.cmpi slt, %n, %c100 : i64", lambda m, n: (n < 100) | (m < 0), 1),
    "last keys": ("%y = arith.cmpi sgt, %n, %c100 : i64", lambda m, n: (n > 100) | (m < 0), 1),
    "steep": (
        """%a = arith.muli %c3, %m : i64
      %b = arith.addi %n, %c20 : i64
      %y = arith.cmpi sge, %b, %a : i64""",
        lambda m, n: n + 20 >= 3 * m,
        1,
    ),
    "falling": (
        """%a = arith.addi %m, %n : i64
      %y = arith.cmpi sgt, %a, %c100 : i64""",
        lambda m, n: m + n > 100,
        1,
    ),
    "selected": (
        """%a = arith.cmpi slt, %m, %c20 : i64
      %b = arith.cmpi slt, %n, %c3 : i64
      %z = arith.cmpi sge, %m, %n : i64
      %c = arith.andi %z, %z : i1
      %y = arith.select %a, %b, %c : i1""",
        lambda m, n: np.where(m < 20, n < 3, n <= m),
        1,
    ),
    "added": (
        """%a = arith.cmpi sge, %m, %n : i64
      %b = arith.cmpi slt, %d, %c20 : i64
      %p = arith.select %a, %zero, %low : f32
      %z = arith.select %b, %zero, %low : f32
      %y = arith.addf %p, %z : f32""",
        lambda m, n: (n <= m) & (m - n < 20),
        2,
    ),
    # The last key is the first one of a block.
    "neighbors": (
        """%p = math.absi %d : i64
      %y = arith.cmpi slt, %p, %c2 : i64""",
        lambda m, n: abs(m - n) < 2,
        2,
    ),
    "up to the first of a block": (
        "%y = arith.cmpi sle, %n, %c128 : i64",
        lambda m, n: (n <= 128) | (m < 0),
        1,
    ),
    "residues": (
        """%a = arith.remsi %n, %c3 : i64
      %y = arith.cmpi eq, %a, %c0 : i64""",
        lambda m, n: (n % 3 == 0) | (m < 0),
        0,
    ),
    "no key": ("%y = arith.andi %false, %true : i1", lambda m, n: (m < 0) & (n < 0), 0),
}


def text_of(body):
    kind = "f32" if "%y = arith.addf" in body else "i1"
    sizes = {"HxM": f"{HEADS}x{QUERIES}", "HxK": f"{HEADS}x{KEYS}", "MxKx": f"{QUERIES}x{KEYS}x"}
    found = TEXT.replace("BODY", body).replace("KIND", kind).replace("xDx", f"x{SIZE}x")
    for name, size in sizes.items():
        found = found.replace(name, size)
    return found


@needs_triton
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("name", MASKS)
def test_masks(interpreter, monkeypatch, name, splits):
    monkeypatch.setattr(heuristics, "num_kv_splits", lambda *_: splits)
    body, shown, ends = MASKS[name]
    text = text_of(body)
    arrays = [draw((HEADS, rows, SIZE), "f32", n) for n, rows in enumerate((QUERIES, KEYS, KEYS))]
    with ir.Context():
        _, (plan,) = planned(text, "attention")
        source = plan.kernels()[0].program.source
        assert ("keys_start =" in source) + ("keys_end =" in source) == ends
    (found,) = run(interpreter, text, "attention", arrays, [(HEADS, QUERIES, SIZE)])
    q, k, v = (array.astype(np.float64) for array in arrays)
    seen = shown(np.arange(QUERIES)[:, None], np.arange(KEYS)[None, :])
    scores = np.einsum("hmd,hkd->hmk", q, k) * 0.25
    with np.errstate(invalid="ignore"):
        weights = softmax_reference(np.where(seen, scores, -np.inf))
    close(found, np.einsum("hmk,hkd->hmd", weights, v), "f32")


def test_bounds_of_logic():
    low, end, two = Bounds(low="a"), Bounds(end="b"), Bounds("c", "d")
    assert low.both(end) == Bounds("a", "b")
    assert two.both(low) == Bounds("tl.maximum(c, a)", "d")
    assert two.either(low) == Bounds("tl.minimum(c, a)")
    assert two.either(ANY) == ANY
    assert two.both(ANY) == two
    assert two.either(NONE) == two
    assert two.both(NONE).none
