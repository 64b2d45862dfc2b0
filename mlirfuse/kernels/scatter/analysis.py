"""Reads a region of a scatter with the ops that compute its updates and indices.

analysis = analyze(region)         ScatterAnalysis, the refusal, or None for other regions
problem = problem_of(analysis)     sizes that the configuration is chosen by
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.alignment import VIEWS
from mlirfuse.kernels.codegen.demand_writer import MOVEMENTS
from mlirfuse.kernels.codegen.element_types import POINTERS
from mlirfuse.kernels.codegen.loop_nest import count
from mlirfuse.kernels.codegen.tile_writer import computing, returned
from mlirfuse.kernels.scatter.combiners import Way, way_of
from mlirfuse.kernels.scatter.problem import ScatterProblem
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.scatters import SCATTER, Scatter, scatter

_VIEWS = (*VIEWS, "tensor.extract_slice")
"""Ops whose results may be in the memory of their operands."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScatterAnalysis:
    """A scatter with the ops that compute its updates and indices.

    Attributes:
      group: ops in block order.
      scatter: the scatter.
      way: how an update gets into memory.
    """

    group: tuple[ir.Operation, ...]
    scatter: Scatter
    way: Way

    @property
    def result(self) -> ir.Value:
        """The updated tensor."""
        return self.scatter.op.results[0]

    @property
    def windows(self) -> tuple[int | None, ...]:
        """Sizes of the batch dimensions."""
        return ops.shape(self.scatter.updates)[: self.scatter.batch]

    @property
    def window(self) -> tuple[int | None, ...]:
        """Sizes of a window."""
        return ops.shape(self.scatter.updates)[self.scatter.batch :]


def analyze(region: ir.Operation) -> ScatterAnalysis | NoMatch | None:
    """Reads a region; None for another kind of region, or the reason why there is no kernel."""
    return analyze_ops(computing(region), returned(region))


def analyze_ops(
    group: Sequence[ir.Operation], results: Sequence[ir.Value]
) -> ScatterAnalysis | NoMatch | None:
    """Reads ops that a region has, or would have; None without a scatter at their end.

    Args:
      group: the ops, in block order.
      results: the values that the region returns.
    """
    if not group or group[-1].name != SCATTER:
        return None
    if list(results) != list(group[-1].results):
        return NoMatch(Reason.EXTRA_USERS, "the kernel has no other result than the scatter's")
    for op in group[:-1]:
        if not ops.is_elementwise(op) and op.name not in MOVEMENTS | ops.RESHAPES:
            return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(op)}")
    found = scatter(group[-1])
    kind = ops.element_type(found.destination)
    if kind not in POINTERS or kind == "i4":
        return NoMatch(Reason.ELEMENT_TYPE, f"a scatter of {kind}")
    shapes = [ops.shape(value) for value in (found.updates, found.destination)]
    if any(None in shape for shape in shapes):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel takes static sizes")
    if any(0 in shape for shape in shapes):
        return NoMatch(Reason.NOT_PROFITABLE, "a scatter of no elements")
    if reads_destination(group, found.destination):
        return NoMatch(Reason.WOULD_CYCLE, "the updates or indices read the destination in place")
    way = way_of(found)
    return way if isinstance(way, NoMatch) else ScatterAnalysis(tuple(group), found, way)


def reads_destination(group: Sequence[ir.Operation], destination: ir.Value) -> bool:
    """Whether the kernel would read memory that other CTAs of it update.

    IREE passes a tensor that is both an operand and the destination as one buffer.
    """
    if ops.constant(destination) is not None:
        return False
    memory = ops.strip_views(destination, _VIEWS)
    read = [value for op in group[:-1] for value, _ in ops.operand_producers(op)]
    read += list(group[-1].operands)[:-1]
    return any(ops.strip_views(value, _VIEWS) == memory for value in read)


def problem_of(analysis: ScatterAnalysis) -> ScatterProblem:
    """The problem that the configuration is chosen by."""
    return ScatterProblem(
        count(analysis.windows),
        count(analysis.window),
        ops.element_bits(analysis.result),
        analysis.way.kind,
    )
