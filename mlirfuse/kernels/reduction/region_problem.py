"""The problem of a region of reductions: sizes and traits that its configuration is chosen by."""

from __future__ import annotations

from mlirfuse.kernels.codegen.iteration_space import UNKNOWN_ROWS
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis
from mlirfuse.kernels.reduction.passes_over_columns import Levels
from mlirfuse.kernels.reduction.problem import ReductionProblem
from mlirfuse.structured.ir import ops


def problem_of(analysis: ReductionAnalysis) -> ReductionProblem:
    """The problem of a region; dynamic rows count as `UNKNOWN_ROWS`."""
    combiners = sorted(each.combine.name for each in analysis.reductions.values())
    written = [ops.element_bits(value) for value in analysis.row_results]
    read = [ops.element_bits(value) for value in analysis.row_operands]
    return ReductionProblem(
        UNKNOWN_ROWS if analysis.num_dynamic else analysis.rows,
        analysis.columns,
        " ".join(combiners),
        len(read),
        len(written),
        8 in written,
        analysis.contiguous_rows,
        operand_bits=32 if max([*read, *written], default=0) > 16 else 16,
        passes=Levels(analysis).depth,
        turned=analysis.turned,
    )
