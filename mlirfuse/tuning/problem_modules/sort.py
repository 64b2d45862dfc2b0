"""Regions of the indices that sort rows, by the ranks of their elements."""

from __future__ import annotations

from mlirfuse.kernels.sort.problem import SortProblem
from mlirfuse.tuning.problem_modules.region_text import RegionText

_BEFORE = """%lt = arith.cmpf olt, %a1, %a0 : TYPE
%gt = arith.cmpf ogt, %a1, %a0 : TYPE
%nx = arith.cmpf une, %a0, %a0 : TYPE
%ny = arith.cmpf une, %a1, %a1 : TYPE
%mx = arith.xori %nx, TRUE : i1
%my = arith.xori %ny, TRUE : i1
%nl = arith.andi %nx, %my : i1
%ng = arith.andi %ny, %mx : i1
%ll = arith.ori %lt, %nl : i1
%gg = arith.ori %gt, %ng : i1
%le = arith.xori %gg, TRUE : i1
%e = arith.cmpi slt, %a3, %a2 : i32
%z = arith.select %e, %le, %ll : i1"""
"""Whether element `%a1` of index `%a3` comes before `%a0` of index `%a2`, NaN being the largest."""

_SUM = "%z = arith.addi %a0, %o0 : i32"


def module_text(problem: SortProblem) -> str:
    """A module whose region has the problem: ascending rows of floats.

    Raises:
      ValueError: no region is known for the problem.
    """
    element = {16: "f16", 32: "f32"}.get(problem.element_bits)
    if element is None or problem.rows < 1 or not 1 < problem.count <= problem.columns:
        raise ValueError(f"a sort: {problem.to_dict()}")
    rows, columns, count = problem.sizes
    region = RegionText()
    x, number = region.argument((rows, columns), element), region.indices(columns)
    position = number if count == columns else region.indices(count)
    true, zero = region.constant("1", "i1"), region.constant("0", "i32")
    pairs = (rows, columns, columns)
    body = _BEFORE.replace("TYPE", element).replace("TRUE", true).splitlines()
    operands = [(x, "rj"), (x, "rk"), (number, "j"), (number, "k")]
    (before,) = region.generic("rjk", operands, [(pairs, "i1", "rjk")], body)
    line = "%z = arith.extui %a0 : i1 to i32"
    (ahead,) = region.generic("rjk", [(before, "rjk")], [(pairs, "i32", "rjk")], [line])
    start = region.filled((rows, columns), "i32", "0")
    (rank,) = region.generic("rjk", [(ahead, "rjk")], [(start, "rj")], [_SUM], reduced="k")
    lines = [
        "%c = arith.cmpi eq, %a0, %a1 : i32",
        f"%z = arith.select %c, %a2, {zero} : i32",
    ]
    operands = [(rank, "rk"), (position, "p"), (number, "k")]
    (hit,) = region.generic("rpk", operands, [((rows, count, columns), "i32", "rpk")], lines)
    start = region.filled((rows, count), "i32", "0")
    (index,) = region.generic("rpk", [(hit, "rpk")], [(start, "rp")], [_SUM], reduced="k")
    return region.module(index)
