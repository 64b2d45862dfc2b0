"""Which quantizations of an RMS norm are recognized, beyond the lit files of the two passes."""

import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.core import Reason
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine

TEXT = """
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
func.func @f(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %p: tensor<f32>) -> tensor<4x8xi8> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %q = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %o, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xi8>
  %y = linalg.generic {indexing_maps = [#mn, #m, #n, affine_map<(m, n) -> ()>, #mn],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %q, %s, %p : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>, tensor<f32>)
      outs(%e : tensor<4x8xi8>) {
  ^bb0(%i: f32, %j: f32, %scale: f32, %point: f32, %o: i8):
    %mean = arith.divf %j, %n : f32
    %shifted = arith.addf %mean, %eps : f32
    %r = math.rsqrt %shifted : f32
    %y0 = arith.mulf %i, %r : f32
BODY
    linalg.yield %v : i8
  } -> tensor<4x8xi8>
  return %y : tensor<4x8xi8>
}
"""

STEPS = {
    "scale": "%y1 = arith.mulf %y0, %scale : f32",
    "offset": "%y2 = arith.addf %y1, %point : f32",
    "round": "%y3 = math.roundeven %y2 : f32",
    "low": "%y4 = arith.maximumf %y3, %low : f32",
    "high": "%y5 = arith.minimumf %y4, %high : f32",
    "convert": "%v = arith.fptosi %y5 : f32 to i8",
}
"""The lines of `BODY`."""


def decide(**changed: str):
    """The decisions of both passes when lines of the body are others."""
    body = "\n".join(f"    {line}" for line in {**STEPS, **changed}.values())
    module = ir.Module.parse(TEXT.replace("BODY", body), ir.Context())
    options = FusionOptions(pipeline="add_rms_norm_quant_fusion,rms_norm_quant_fusion")
    return engine.run(module, target=targets.parse("cpu"), options=options)[1].decisions


LESS = "%c = arith.cmpf {0}, %y3, %low : f32\n    %y4 = arith.select %c, {1} : f32"
MORE = "%d = arith.cmpf {0}, %y4, %high : f32\n    %y5 = arith.select %d, {1} : f32"


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"scale": "%y1 = arith.divf %y0, %scale : f32"},
        {"scale": "%y1 = arith.mulf %scale, %y0 : f32"},
        {"offset": "%y2 = arith.subf %y1, %point : f32"},
        {"offset": "%y2 = arith.addf %point, %y1 : f32"},
        {
            "low": "%y4 = arith.maxnumf %low, %y3 : f32",
            "high": "%y5 = arith.minnumf %y4, %high : f32",
        },
        {"low": LESS.format("ult", "%low, %y3"), "high": MORE.format("ugt", "%high, %y4")},
        {"low": LESS.format("ole", "%low, %y3"), "high": MORE.format("oge", "%high, %y4")},
        {"convert": "%w = arith.fptosi %y5 : f32 to i32\n    %v = arith.trunci %w : i32 to i8"},
        {
            "round": "%y3 = arith.maximumf %y2, %low : f32",
            "low": "%y4 = math.roundeven %y3 : f32",
        },
        {
            "offset": "%y2 = math.roundeven %y1 : f32",
            "round": "%y3 = arith.addf %y2, %point : f32",
        },
        {"low": "%m7 = arith.constant -127.0 : f32\n    %y4 = arith.maximumf %y3, %m7 : f32"},
    ],
)
def test_a_quantization(changed):
    assert [(d.pass_name, d.taken) for d in decide(**changed)] == [("rms_norm_quant_fusion", True)]


UNSIGNED = {
    "low": "%y4 = arith.maximumf %y3, %zero : f32",
    "high": "%top = arith.constant 255.0 : f32\n    %y5 = arith.minimumf %y4, %top : f32",
}


@pytest.mark.parametrize(("op", "taken"), [("fptoui", True), ("fptosi", False)])
def test_the_range_belongs_to_the_conversion(op, taken):
    (found,) = decide(**UNSIGNED, convert=f"%v = arith.{op} %y5 : f32 to i8")
    assert found.taken is taken
    assert found.reason is (None if taken else Reason.CONSTANT_UNVERIFIED)


@pytest.mark.parametrize(
    ("changed", "reason", "detail"),
    [
        (
            {"round": "%y3 = math.round %y2 : f32"},
            Reason.STRUCTURE,
            "math.round where math.roundeven is expected",
        ),
        (
            {"round": "%y3 = math.floor %y2 : f32"},
            Reason.STRUCTURE,
            "math.floor where math.roundeven is expected",
        ),
        (
            {"round": "%y3 = arith.maximumf %y2, %low : f32"},
            Reason.STRUCTURE,
            "no rounding where math.roundeven is expected",
        ),
        (
            {"low": "%y4 = arith.minimumf %y3, %high : f32"},
            Reason.CONSTANT_UNVERIFIED,
            "clamped to [-inf, 127], which exceeds [-128, 127]",
        ),
        (
            {"low": "%k = arith.constant -129.0 : f32\n    %y4 = arith.maximumf %y3, %k : f32"},
            Reason.CONSTANT_UNVERIFIED,
            "clamped to [-129, 127], which exceeds [-128, 127]",
        ),
        (
            {"low": LESS.format("ugt", "%low, %y3")},
            Reason.CONSTANT_UNVERIFIED,
            "clamped to [-inf, -128], which exceeds [-128, 127]",
        ),
        (
            {
                "offset": "%y2 = arith.maximumf %y1, %low : f32",
                "low": "%y4 = arith.minimumf %y3, %high : f32",
                "high": "%y5 = arith.addf %y4, %point : f32",
            },
            Reason.CONSTANT_UNVERIFIED,
            "clamped to [-inf, inf], which exceeds [-128, 127]",
        ),
        (
            {"scale": "%y1 = arith.mulf %y0, %r : f32"},
            Reason.WRONG_AXIS,
            "scale or offset varies over axes [0]",
        ),
    ],
)
def test_refused_quantizations(changed, reason, detail):
    (found,) = decide(**changed)
    assert (found.reason, found.detail) == (reason, detail)


@pytest.mark.parametrize(
    "changed",
    [
        # The scale is divided, not the norm.
        {"scale": "%y1 = arith.divf %scale, %y0 : f32"},
        {"offset": "%y2 = arith.subf %point, %y1 : f32"},
        # Another element, or another bound, is chosen than was compared.
        {"low": LESS.format("ult", "%low, %y2")},
        {"low": LESS.format("ult", "%high, %y3")},
        {"low": LESS.format("oeq", "%low, %y3")},
        {"high": "%y5 = arith.minimumf %y4, %point : f32"},
        {"scale": "%y1 = math.exp %y0 : f32"},
        {"offset": "%y2 = math.roundeven %y1 : f32"},
    ],
)
def test_no_quantization(changed):
    assert decide(**changed) == []
