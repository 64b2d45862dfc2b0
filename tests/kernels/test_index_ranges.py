"""Integers computed from indices: their ranges, and 32 bits where these fit."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import needs_triton, planned, run

TEXT = """
#id = affine_map<(r, c) -> (r, c)>
func.func @main(%x: tensor<6x40xf16>) -> tensor<12x80xf16> {{
  %e = tensor.empty() : tensor<12x80xf16>
  %y = linalg.generic {{indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}}
      outs(%e : tensor<12x80xf16>) {{
  ^bb0(%o: f16):
    %r = linalg.index 0 : index
    %c = linalg.index 1 : index
    %i = arith.index_cast %r : index to i64
    %j = arith.index_cast %c : index to i64
    %zero = arith.constant 0 : i64
    %two = arith.constant 2 : i64
    %large = arith.constant {large} : i64
    %p = {divide} %i, %two : i64
    %a = arith.muli %j, %large : i64
    %b = arith.floordivsi %a, %large : i64
    %q = arith.floordivsi %b, %two : i64
    %n = arith.cmpi slt, %q, %zero : i64
    %w = arith.addi %q, %large : i64
    %s = arith.select %n, %w, %q : i64
    %k = arith.index_cast %p : i64 to index
    %l = arith.index_cast %s : i64 to index
    %t = tensor.extract %x[%k, %l] : tensor<6x40xf16>
    linalg.yield %t : f16
  }} -> tensor<12x80xf16>
  return %y : tensor<12x80xf16>
}}
"""


AS_GIVEN = ("index_arithmetic_rewrite",)
"""The pass that would shorten the indices."""


@needs_triton
@pytest.mark.parametrize("divide", ["arith.floordivsi", "arith.divsi", "arith.divui"])
@pytest.mark.parametrize("large", [1, 7, 1 << 24, 1 << 28, 1 << 40])
def test_positions(interpreter, divide, large):
    """Products of 79 with 2^28 and 2^40 do not fit 32 bits."""
    x = np.arange(240, dtype=np.float16).reshape(6, 40)
    text = TEXT.format(divide=divide, large=large)
    (found,) = run(interpreter, text, "elementwise", [x], [(12, 80)], AS_GIVEN)
    assert np.array_equal(found, x.repeat(2, 0).repeat(2, 1))


def source_of(text):
    with ir.Context():
        _, (plan,) = planned(text, "elementwise", AS_GIVEN)
        return plan.program.source


def test_numbers_that_fit_have_32_bits():
    source = source_of(TEXT.format(divide="arith.floordivsi", large=7))
    assert "floor_divide" not in source
    assert ".to(tl.int64)" not in source
    computed = [line for line in source.splitlines() if "_mask = " not in line]
    assert not any(" < " in line for line in computed)  # the comparison is decided
    assert "tl.where" not in source


def test_others_have_64_bits():
    source = source_of(TEXT.format(divide="arith.floordivsi", large=1 << 40))
    assert source.count("library.floor_divide") == 2
    assert ".to(tl.int64)" in source


NEGATIVE = """
#id = affine_map<(r) -> (r)>
func.func @main(%x: tensor<33xf16>) -> tensor<33xi64> {{
  %e = tensor.empty() : tensor<33xi64>
  %y = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%x : tensor<33xf16>) outs(%e : tensor<33xi64>) {{
  ^bb0(%z: f16, %o: i64):
    %r = linalg.index 0 : index
    %i = arith.index_cast %r : index to i64
    %c = arith.constant {number} : i64
    %d = arith.subi %i, %c : i64
    %a = {op} : i64
    %f = arith.fptosi %z : f16 to i64
    %s = arith.addi %a, %f : i64
    linalg.yield %s : i64
  }} -> tensor<33xi64>
  return %y : tensor<33xi64>
}}
"""


@needs_triton
@pytest.mark.parametrize("number", [3, 40, -5, (1 << 31) - 1, 1 << 33])
@pytest.mark.parametrize(
    ("op", "reference"),
    [
        ("math.absi %d", lambda d, c: abs(d)),
        ("arith.minsi %d, %c", min),
        ("arith.maxsi %d, %c", max),
        ("arith.muli %d, %d", lambda d, c: d * d),
        ("arith.remsi %i, %c", lambda d, c: (d + c) % c if c > 0 else (d + c) % -c),
        ("arith.floordivsi %d, %c", lambda d, c: d // c),
    ],
)
def test_ranges_with_negative_numbers(interpreter, number, op, reference):
    """A division of a negative number, and a comparison that its range does not decide."""
    x = np.zeros(33, np.float16)
    text = NEGATIVE.format(number=number, op=op)
    (found,) = run(interpreter, text, "elementwise", [x], [(33,)])
    expected = [reference(i - number, number) for i in range(33)]
    wrapped = np.array([(n + (1 << 63)) % (1 << 64) - (1 << 63) for n in expected])
    assert np.array_equal(found.astype(np.int64), wrapped)
