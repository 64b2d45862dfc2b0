"""Reads a region of elementwise ops: its axes, how operands are read, its costliest access.

analysis = analyze(region)         PointwiseAnalysis, the refusal, or None for other regions
problem = problem_of(analysis)     sizes and traits that the configuration is chosen by
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import POINTERS, Unsupported
from mlirfuse.kernels.codegen.loop_nest import Nest, count
from mlirfuse.kernels.codegen.tile_writer import attempted, computing, returned
from mlirfuse.kernels.pointwise.problem import PointwiseProblem
from mlirfuse.structured.ir import ops

SHARED = "the axes of the largest result"
"""The axes that the ops of a region have in common."""

_TRAITS = ("gathered", "swapped", "permuted", "sliced", "error function", "functions")
"""Traits by which IREE's code for a region is slow or fast, the strongest first."""


@dataclasses.dataclass(frozen=True, slots=True)
class PointwiseAnalysis:
    """A region of elementwise ops.

    Attributes:
      group: ops in block order.
      results: values that the region returns.
      nest: the axes of the largest result, and how operands are read along them.
    """

    group: tuple[ir.Operation, ...]
    results: tuple[ir.Value, ...]
    nest: Nest


def analyze(region: ir.Operation) -> PointwiseAnalysis | NoMatch | None:
    """Reads a region; None for another kind of region, or the reason why there is no kernel."""
    group = computing(region)
    others = [op for op in group if not ops.is_elementwise(op)]
    if len(others) == len(group) or any(not op.name.startswith("tensor.") for op in others):
        return None
    if others:
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(others[0])}")
    return analyze_ops(group, returned(region))


def analyze_ops(
    group: Sequence[ir.Operation], results: Sequence[ir.Value]
) -> PointwiseAnalysis | NoMatch:
    """Reads elementwise ops that a region has, or would have.

    Args:
      group: the ops, in block order.
      results: the values that the region returns.
    """
    return attempted(lambda: _analyzed(group, results), SHARED)


def _analyzed(group: Sequence[ir.Operation], results: Sequence[ir.Value]) -> PointwiseAnalysis:
    kinds = {ops.element_type(value) for value in results}
    if not kinds <= POINTERS.keys():
        raise Unsupported(f"a result of type {results[0].type}")
    return PointwiseAnalysis(tuple(group), tuple(results), Nest(group, results))


def problem_of(analysis: PointwiseAnalysis) -> PointwiseProblem:
    """The problem that the configuration, and whether a kernel pays, are chosen by."""
    bits = max(ops.element_bits(value) for value in analysis.results)
    several = len(analysis.results) > 1
    return PointwiseProblem(count(analysis.nest.sizes), _trait(analysis), bits, several)


def _trait(analysis: PointwiseAnalysis) -> str:
    """The strongest trait of a region."""
    nest = analysis.nest
    if nest.transposed:
        return "transposed"
    names = {name for op in analysis.group for name in ops.scalar_names(op)}
    found = {read.trait for read in (*nest.reads, *nest.permuted_writes)}
    found |= {"error function"} if "math.erf" in names else set()
    found |= {"functions"} if any(name.startswith("math.") for name in names) else set()
    return next((trait for trait in _TRAITS if trait in found), "arithmetic")
