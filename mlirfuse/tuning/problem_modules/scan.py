"""Regions of cumulative sums along the middle axis, of numbers of the problem's width."""

from __future__ import annotations

from mlirfuse.kernels.scan.problem import ScanProblem
from mlirfuse.tuning.problem_modules.region_text import RegionText


def module_text(problem: ScanProblem) -> str:
    """A module whose region has the problem: the sums are f32, their operand is.

    Raises:
      ValueError: no region is known for the problem.
    """
    element = {16: "f16", 32: "f32"}.get(problem.element_bits)
    if element is None or min(problem.sizes) < 1:
        raise ValueError(f"a scan: {problem.to_dict()}")
    region, shape = RegionText(), (problem.outer, problem.columns, problem.inner)
    x = region.argument(shape, element)
    if element == "f16":
        line = "%z = arith.extf %a0 : f16 to f32"
        (x,) = region.generic("okn", [(x, "okn")], [(shape, "f32", "okn")], [line])
    whole = region.empty(shape, "f32")
    total = region.filled((problem.outer, problem.inner), "f32", "0.0")
    text = (
        "iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true)"
        f" ins({x.name} : {x.type})"
        f" outs({whole.name}, {total.name} : {whole.type}, {total.type}) {{"
        " ^bb0(%a: f32, %b: f32): %r = arith.addf %a, %b : f32"
        " iree_linalg_ext.yield %r : f32 } ->"
    )
    y = region.define(text, shape, "f32", [total])
    if element == "f16":
        line = "%z = arith.truncf %a0 : f32 to f16"
        (y,) = region.generic("okn", [(y, "okn")], [(shape, "f16", "okn")], [line])
    return region.module(y)
