"""Kernels of gathers whose indices are computed in place of a table, by Triton's interpreter."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import close, draw, needs_triton, planned, run

MAPS = """
#id = affine_map<(n, h, w) -> (n, h, w)>
#h = affine_map<(n, h, w) -> (h)>
#w = affine_map<(n, h, w) -> (w)>
"""

LOOPS = 'iterator_types = ["parallel", "parallel", "parallel"]'


def table(name, numbers):
    return f"  %{name} = arith.constant dense<{list(map(int, numbers))}> : {kind(len(numbers))}\n"


def kind(*sizes, element="i64"):
    return f"tensor<{'x'.join(map(str, sizes))}x{element}>"


def wrapped(name, size):
    """A negative index counts from the end, as frontends write it."""
    return f"""
    %{name}n = arith.cmpi slt, %{name}, %zero : i64
    %{name}s = arith.constant {size} : i64
    %{name}a = arith.addi %{name}, %{name}s : i64
    %{name}c = arith.select %{name}n, %{name}a, %{name} : i64
    %{name}i = arith.index_cast %{name}c : i64 to index"""


def lerp_text(sizes, lows, highs, element="f16"):
    """x[h, w] + (x[h + 1, w + 1] - x[h, w]) / 4, as one op with two gathers."""
    whole, result = kind(*sizes, element=element), kind(sizes[0], *map(len, lows), element=element)
    tables = "".join(
        table(name, numbers)
        for name, numbers in zip(("p", "q", "r", "s"), (*lows, *highs), strict=True)
    )
    heights, widths = kind(len(lows[0])), kind(len(lows[1]))
    return f"""{MAPS}
func.func @main(%x: {whole}) -> {result} {{
  %zero = arith.constant 0 : i64
  %quarter = arith.constant 0.25 : {element}
{tables}
  %e = tensor.empty() : {result}
  %y = linalg.generic {{indexing_maps = [#h, #w, #h, #w, #id], {LOOPS}}}
      ins(%p, %q, %r, %s : {heights}, {widths}, {heights}, {widths}) outs(%e : {result}) {{
  ^bb0(%a: i64, %b: i64, %c: i64, %d: i64, %o: {element}):
    %n = linalg.index 0 : index{wrapped("a", sizes[1])}{wrapped("b", sizes[2])}
    {wrapped("c", sizes[1])}{wrapped("d", sizes[2])}
    %u = tensor.extract %x[%n, %ai, %bi] : {whole}
    %v = tensor.extract %x[%n, %ci, %di] : {whole}
    %t = arith.subf %v, %u : {element}
    %m = arith.mulf %t, %quarter : {element}
    %k = arith.addf %u, %m : {element}
    linalg.yield %k : {element}
  }} -> {result}
  return %y : {result}
}}"""


def resized(size, count):
    low = ((2 * np.arange(count) + 1) * size - count).clip(min=0) // (2 * count)
    return low, (low + 1).clip(max=size - 1)


def padded(size, before, after, mode):
    found = np.pad(np.arange(size), (before, after), mode=mode)
    return found, found[::-1].copy()


AXES = {
    "twice": (resized(8, 16), resized(12, 24)),
    "odd": (resized(7, 13), resized(17, 29)),
    "smaller": (resized(33, 10), resized(17, 5)),
    "reflect": (padded(7, 2, 3, "reflect"), padded(17, 4, 1, "reflect")),
    "edge": (padded(7, 2, 3, "edge"), padded(17, 4, 1, "edge")),
    "wrap": (padded(7, 2, 3, "wrap"), padded(17, 4, 1, "wrap")),
    "negative": ((np.arange(-7, 0), np.arange(-1, -8, -1)), resized(5, 5)),
}


@needs_triton
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("name", AXES)
def test_lerp(interpreter, name, dtype):
    lows, highs = zip(*AXES[name], strict=True)
    sizes = (3, *(int(max(a.max(), b.max(), -a.min() - 1)) + 1 for a, b in AXES[name]))
    x = draw(sizes, dtype)
    shape = (3, *map(len, lows))
    (found,) = run(interpreter, lerp_text(sizes, lows, highs, dtype), "elementwise", [x], [shape])
    wide = x.astype(np.float64)
    first, second = (wide[:, h][:, :, w] for h, w in (lows, highs))
    close(found, first + (second - first) / 4, dtype)


@pytest.mark.parametrize("name", AXES)
def test_no_table_is_read(name):
    lows, highs = zip(*AXES[name], strict=True)
    sizes = (3, *(int(max(a.max(), b.max(), -a.min() - 1)) + 1 for a, b in AXES[name]))
    with ir.Context():
        grouped, (plan,) = planned(lerp_text(sizes, lows, highs), "elementwise")
        assert [str(value.type) for value in plan.operands] == [kind(*sizes, element="f16")]
        assert "dense<" not in str(grouped)


def test_a_permutation_is_a_table():
    lows, highs = zip((np.random.RandomState(1).permutation(17),) * 2, resized(8, 16), strict=True)
    with ir.Context():
        _, (plan,) = planned(lerp_text((3, 17, 8), lows, highs), "elementwise")
        assert kind(17) in [str(value.type) for value in plan.operands]


MOVES = """
#id = affine_map<(h, w) -> (h, w)>
func.func @main(%x: tensor<5x7xf32>) -> tensor<9x14xf32> {{
  %two = arith.constant 2 : index
  %last = arith.constant {last} : index
  %e = tensor.empty() : tensor<9x7xf32>
  %r = linalg.generic {{indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}}
      outs(%e : tensor<9x7xf32>) {{
  ^bb0(%o: f32):
    %h = linalg.index 0 : index
    %w = linalg.index 1 : index
    %i = arith.divui %h, %two : index
    %v = tensor.extract %x[%i, %w] : tensor<5x7xf32>
    {use}
  }} -> tensor<9x7xf32>
  %f = tensor.empty() : tensor<9x14xf32>
  %y = linalg.generic {{indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}}
      outs(%f : tensor<9x14xf32>) {{
  ^bb0(%o: f32):
    %h = linalg.index 0 : index
    %w = linalg.index 1 : index
    %j = arith.subi %last, %h : index
    %i = arith.divui %w, %two : index
    %v = tensor.extract %r[%j, %i] : tensor<9x7xf32>
    linalg.yield %v : f32
  }} -> tensor<9x14xf32>
  return %y : tensor<9x14xf32>
}}"""


@needs_triton
def test_a_gather_of_a_gather(interpreter):
    x = draw((5, 7), "f32")
    text = MOVES.format(use="linalg.yield %v : f32", last=8)
    (found,) = run(interpreter, text, "elementwise", [x], [(9, 14)])
    assert np.array_equal(found, x.repeat(2, 0)[:9][::-1].repeat(2, 1))


@needs_triton
def test_functions_are_not_computed_for_each_element_that_is_read():
    use = "%u = math.exp %v : f32\n    linalg.yield %u : f32"
    with ir.Context():
        moves = MOVES.format(use=use, last=8)
        _, plans = planned(moves, "elementwise", without=["nested_gather_rewrite"])
        assert len(plans) == 2
