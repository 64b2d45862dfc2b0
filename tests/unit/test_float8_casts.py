"""Casts of 8-bit floats in integer arithmetic: the values of `ml_dtypes`, bit by bit."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from mlirfuse.builders import float8_casts

TYPES = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}
WIDE = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
PAIRS = list(itertools.product(TYPES, WIDE))


def text(kind, wide, size, widens):
    """A function of bits: i8 to the bits of the wide type, or the other way."""
    bits = "i32" if wide == "f32" else "i16"
    given, wanted = ("i8", bits) if widens else (bits, "i8")
    before, after = (kind, wide) if widens else (wide, kind)
    return f"""
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<{size}x{given}>) -> tensor<{size}x{wanted}> {{
  %e = tensor.empty() : tensor<{size}x{wanted}>
  %y = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%x : tensor<{size}x{given}>) outs(%e : tensor<{size}x{wanted}>) {{
  ^bb0(%a: {given}, %out: {wanted}):
    %b = arith.bitcast %a : {given} to {before}
    %c = arith.{"extf" if widens else "truncf"} %b : {before} to {after}
    %d = arith.bitcast %c : {after} to {wanted}
    linalg.yield %d : {wanted}
  }} -> tensor<{size}x{wanted}>
  return %y : tensor<{size}x{wanted}>
}}
"""


def run(source, array, tmp_path):
    with ir.Context():
        module = ir.Module.parse(source)
        assert float8_casts.repair(module)
        assert not float8_casts.repair(module)
        module.operation.verify()
        found = str(module)
    assert "to f8" not in found.replace("arith.bitcast", "").replace(" : i8 to f8", "")
    place = tmp_path / "repaired.mlir"
    place.write_text(found)
    return mlirfuse.compile(place, target="cpu", cache=False)(array)


def same(found, expected):
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(found[known], expected[known])
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


@pytest.mark.parametrize(("kind", "wide"), PAIRS)
def test_every_number_is_extended(kind, wide, tmp_path):
    given = np.arange(256, dtype=np.uint8).view(np.int8)
    bits = run(text(kind, wide, 256, True), given, tmp_path)
    expected = given.view(TYPES[kind]).astype(np.float32)
    same(bits.view(WIDE[wide]).astype(np.float32), expected)


@pytest.mark.parametrize(("kind", "wide"), PAIRS)
def test_numbers_between_are_rounded(kind, wide, tmp_path):
    every = np.arange(256, dtype=np.uint8).view(TYPES[kind]).astype(np.float32)
    known = np.unique(every[np.isfinite(every)])
    between = (known[1:] + known[:-1]) / 2
    extremes = [np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, -1e-30, 0.0, -0.0, 65504.0]
    extremes += [known[-1] * f for f in (1.01, 1.0624, 1.0626, 1.124, 1.126, 1.5)]
    near = [between * np.float32(1 - 2**-12), between, between * np.float32(1 + 2**-12)]
    with np.errstate(all="ignore"):
        numbers = np.concatenate([known, *near, np.float32(extremes)]).astype(WIDE[wide])
    bits = numbers.view(np.int32 if wide == "f32" else np.int16)
    found = run(text(kind, wide, len(bits), False), bits, tmp_path)
    with np.errstate(all="ignore"):
        expected = numbers.astype(TYPES[kind]).astype(np.float32)
    same(found.view(TYPES[kind]).astype(np.float32), expected)
