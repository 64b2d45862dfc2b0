"""Regions of concatenations along the first axis, in integers of the problem's width."""

from __future__ import annotations

from mlirfuse.kernels.data_movement.problem import ConcatProblem
from mlirfuse.tuning.problem_modules.region_text import RegionText


def module_text(problem: ConcatProblem) -> str:
    """A module whose region has the problem: a large part, and further ones of one element.

    Raises:
      ValueError: no region is known for the problem.
    """
    element = {8: "i8", 16: "f16", 32: "f32", 64: "i64"}.get(problem.element_bits)
    if element is None or not 1 < problem.parts <= problem.elements:
        raise ValueError(f"a concatenation: {problem.to_dict()}")
    region, shape = RegionText(), (problem.elements,)
    sizes = [problem.elements - problem.parts + 1, *[1] * (problem.parts - 1)]
    parts = [region.argument((size,), element) for size in sizes]
    whole, start = region.empty(shape, element), 0
    for part, size in zip(parts, sizes, strict=True):
        text = f"{part.name} into {whole.name}[{start}] [{size}] [1] : {part.type} into"
        whole = region.define(f"tensor.insert_slice {text}", shape, element)
        start += size
    return region.module(whole)
