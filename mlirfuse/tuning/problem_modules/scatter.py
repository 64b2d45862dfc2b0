"""Regions of scatters of windows along the first axis, each to a place of its own."""

from __future__ import annotations

from mlirfuse.kernels.scatter.combiners import ATOMIC, PLAIN, STORE
from mlirfuse.kernels.scatter.problem import ScatterProblem
from mlirfuse.tuning.problem_modules.region_text import RegionText

_BODIES = {
    STORE: "iree_linalg_ext.yield %u",
    PLAIN: "%r = arith.{add} %e, %u : {t} iree_linalg_ext.yield %r",
    ATOMIC: "%r = arith.{add} %e, %u : {t} iree_linalg_ext.yield %r",
}
"""Kind of a way into memory -> the body; compare-and-swap has no module."""


def module_text(problem: ScatterProblem) -> str:
    """A module whose region has the problem: indices are those of the windows.

    Raises:
      ValueError: no region is known for the problem.
    """
    bits = problem.element_bits
    element = {8: "i8", 16: "f16", 32: "f32", 64: "i64"}.get(bits)
    narrow = problem.combiner == ATOMIC and bits < 32
    if element is None or problem.combiner not in _BODIES or narrow or min(problem.sizes) < 1:
        raise ValueError(f"a scatter: {problem.to_dict()}")
    region, shape = RegionText(), (problem.windows, problem.elements)
    updates, destination = region.argument(shape, element), region.argument(shape, element)
    lines = ["%w = linalg.index 0 : index", "%z = arith.index_cast %w : index to i64"]
    (indices,) = region.generic("m", [], [(shape[:1], "i64", "m")], lines)
    add = "addf" if element.startswith("f") else "addi"
    unique = "true" if problem.combiner == PLAIN else "false"
    body = _BODIES[problem.combiner].format(add=add, t=element)
    text = (
        f"iree_linalg_ext.scatter dimension_map = [0] unique_indices({unique})"
        f" ins({updates.name}, {indices.name} : {updates.type}, {indices.type})"
        f" outs({destination.name} : {destination.type}) {{"
        f" ^bb0(%u: {element}, %e: {element}): {body} : {element} }} ->"
    )
    return region.module(region.define(text, shape, element))
