"""Results with columns as an elementwise kernel of flat tiles, behind the reductions of split rows.

    reduction_kernel      the parts of each row, by the CTAs that share it
    reduction_kernel      what the results need of each row
    elementwise_kernel    the results, in the order of memory

Where runs of rows, or rows, are no whole sectors or vectors, a tile of rows and columns loads and
stores single elements, and parts of sectors. On an H200 `x.mean(1) - x` of 16x3299x369 f32 wrote
its results in 71.6 us so, and in 38.4 in flat tiles; the sum of 139 rows of 311910 bf16 less each
of them 74.2 and 41.0.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.pointwise import analysis as pointwise
from mlirfuse.kernels.pointwise import heuristics, tile
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis
from mlirfuse.kernels.reduction.looped_kernel import LoopedKernel
from mlirfuse.kernels.reduction.passes_over_columns import Levels, read_operands
from mlirfuse.kernels.reduction.problem import ReductionProblem
from mlirfuse.kernels.reduction.row_tiles import compares_values
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class FlatResults:
    """The elementwise ops of the results of a region.

    Attributes:
      results: the ops.
      of_rows: the values of rows that they read.
    """

    results: pointwise.PointwiseAnalysis
    of_rows: tuple[ir.Value, ...]

    def before(self, kernel: LoopedKernel, parts: Plan, warps: int) -> Plan:
        """The kernel that stores the values of rows as scratch.

        Args:
          kernel: its lines, which have combined the parts of rows.
          parts: the kernel that has stored these.
          warps: warps of a CTA.
        """
        for number, value in enumerate(self.of_rows):
            kernel.tiles.store(f"y{number}", value, kernel.tiles.written_axes(value))
        return Plan(
            kernel.program(kernel.tiles.pointer_arguments(self.of_rows), warps, parts),
            tuple(kernel.tiles.operands),
            (),
            (kernel.blocks.extent(), Extent(1), Extent(1)),
            scratch=tuple(tuple(Extent(n or 1) for n in ops.shape(v)) for v in self.of_rows),
            scratch_types=tuple(ops.element_type(value) for value in self.of_rows),
            before=parts,
        )

    def plan(self, before: Plan, problem: ReductionProblem, target: Target) -> Plan | NoMatch:
        """The kernel of the results, or the reason why there is none.

        Args:
          before: the kernel that stores the values of rows.
          problem: the problem that the configuration of the region was chosen by.
          target: the target.
        """
        config = heuristics.choose_config(pointwise.problem_of(self.results), target)
        scratch = {value: f"s{number}" for number, value in enumerate(self.of_rows)}
        made = tile.plan(self.results, config, target, scratch)
        if isinstance(made, NoMatch):
            return made
        return dataclasses.replace(made, before=before, problem=problem)


def flat_results(analysis: ReductionAnalysis, levels: Levels) -> FlatResults | None:
    """The results of a region in the order of memory; None where a kernel cannot have them so."""
    stored = [value for value in analysis.results if levels.has_columns(value.owner.operation)]
    if analysis.num_dynamic or analysis.turned or compares_values(analysis):
        return None
    if not stored or len(stored) < len(analysis.results):
        return None
    group = levels.columns_for([value.owner.operation for value in stored])
    made = {value for op in analysis.group for value in op.results}
    own = {value for op in group for value in op.results}
    read = dict.fromkeys(value for op in group for value in read_operands(op))
    of_rows = tuple(value for value in read if value in made and value not in own)
    found = pointwise.analyze_ops(group, stored)
    if found is None or isinstance(found, NoMatch) or found.nest.transposed:
        return None
    return FlatResults(found, of_rows)
