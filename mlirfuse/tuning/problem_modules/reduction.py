"""Regions of row reductions: softmax, RMS norm and layer norm without weights, in f16 or f32."""

from __future__ import annotations

from mlirfuse.kernels.reduction.problem import ReductionProblem
from mlirfuse.tuning.problem_modules.region_text import RegionText, Tensor

SOFTMAX, LAYER_NORM, RMS_NORM = (
    "arith.addf arith.maximumf",
    "arith.addf arith.addf",
    "arith.addf",
)
"""Combiners of the known reductions."""


def module_text(problem: ReductionProblem) -> str:
    """A module whose region has the problem.

    Several tensors that are read are added up; with two that are written, the sum is one of them.

    Raises:
      ValueError: other combiners, more tensors that are written, or one whose rows are innermost.
    """
    known = problem.combiners in (SOFTMAX, LAYER_NORM, RMS_NORM)
    if not known or problem.turned or not 1 <= problem.writes <= min(2, problem.reads):
        raise ValueError(f"a reduction by {problem.combiners} that writes {problem.writes} tensors")
    rows = _Rows(problem)
    added = wide = rows.added()
    if rows.element != "f32":
        wide = rows.step([added], "f32", [f"%z = arith.extf %a0 : {rows.element} to f32"])
    if problem.combiners == SOFTMAX:
        out = rows.softmax(wide)
    else:
        out = rows.norm(wide, centered=problem.combiners == LAYER_NORM)
    element = "i8" if problem.narrow_result else rows.element
    cast = "fptosi" if problem.narrow_result else "truncf"
    if element != "f32":
        out = rows.step([out], element, [f"%z = arith.{cast} %a0 : f32 to {element}"])
    return rows.region.module(out, *([added] if problem.writes == 2 else []))


class _Rows:
    """Steps over all rows of one region."""

    def __init__(self, problem: ReductionProblem) -> None:
        self.region = RegionText()
        self.problem = problem
        self.shape = problem.rows, problem.columns
        self.element = f"f{problem.operand_bits}"

    def added(self) -> Tensor:
        """The sum of the tensors that are read."""
        first, *others = (
            self.region.argument(self.shape, self.element) for _ in range(self.problem.reads)
        )
        for other in others:
            add = f"%z = arith.addf %a0, %a1 : {self.element}"
            first = self.step([first, other], self.element, [add])
        return first

    def step(self, inputs: list[Tensor], element: str, body: list[str]) -> Tensor:
        """An elementwise op of whole rows and of one number per row."""
        read = [(tensor, "mk"[: len(tensor.shape)]) for tensor in inputs]
        return self.region.generic("mk", read, [(self.shape, element, "mk")], body)[0]

    def reduced(self, value: Tensor, body: list[str], init: str) -> Tensor:
        """One number per row."""
        start = self.region.filled(self.shape[:1], "f32", init)
        return self.region.generic("mk", [(value, "mk")], [(start, "m")], body, reduced="k")[0]

    def softmax(self, wide: Tensor) -> Tensor:
        """Exponentials over their sum."""
        highest = self.reduced(wide, ["%z = arith.maximumf %a0, %o0 : f32"], "0xFF800000")
        body = ["%d = arith.subf %a0, %a1 : f32", "%z = math.exp %d : f32"]
        powers = self.step([wide, highest], "f32", body)
        total = self.reduced(powers, ["%z = arith.addf %a0, %o0 : f32"], "0.0")
        return self.step([powers, total], "f32", ["%z = arith.divf %a0, %a1 : f32"])

    def norm(self, wide: Tensor, *, centered: bool) -> Tensor:
        """Rows over their root mean square, less their mean if they are centered."""
        count = self.region.constant(f"{self.problem.columns}.0", "f32")
        mean = f"%m = arith.divf %a1, {count} : f32"
        if centered:
            total = self.reduced(wide, ["%z = arith.addf %a0, %o0 : f32"], "0.0")
            wide = self.step([wide, total], "f32", [mean, "%z = arith.subf %a0, %m : f32"])
        square = ["%s = arith.mulf %a0, %a0 : f32", "%z = arith.addf %s, %o0 : f32"]
        squares = self.reduced(wide, square, "0.0")
        scaled = [mean, "%q = math.rsqrt %m : f32", "%z = arith.mulf %a0, %q : f32"]
        return self.step([wide, squares], "f32", scaled)
