"""The problem of a region of reductions: sizes and traits that its configuration is chosen by."""

from __future__ import annotations

from mlirfuse.kernels.codegen.iteration_space import UNKNOWN_ROWS
from mlirfuse.kernels.codegen.scalar_ops import LONG_FUNCTIONS
from mlirfuse.kernels.configs.device import SECTOR_BITS
from mlirfuse.kernels.matmul.cost_model import vector_bytes
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES
from mlirfuse.kernels.reduction.analysis import COLUMN, ReductionAnalysis
from mlirfuse.kernels.reduction.distribution import MAX_COLUMNS
from mlirfuse.kernels.reduction.passes_over_columns import Levels
from mlirfuse.kernels.reduction.problem import ReductionProblem
from mlirfuse.kernels.reduction.row_tiles import MIN_RUN
from mlirfuse.structured.ir import ops


def problem_of(analysis: ReductionAnalysis) -> ReductionProblem:
    """The problem of a region; dynamic rows count as `UNKNOWN_ROWS`."""
    combiners = sorted(each.combine.name for each in analysis.reductions.values())
    several = analysis.contiguous_rows == 1 and analysis.contiguous_columns < analysis.columns
    return ReductionProblem(
        UNKNOWN_ROWS if analysis.num_dynamic else analysis.rows,
        analysis.columns,
        " ".join(combiners),
        len(analysis.row_operands),
        len(analysis.row_results),
        8 in map(ops.element_bits, analysis.row_results),
        analysis.contiguous_rows,
        operand_bits=_operand_bits(analysis),
        passes=Levels(analysis).depth,
        turned=analysis.turned,
        heavy=analysis.columns > MAX_COLUMNS // 2 and _is_heavy(analysis),
        scattered=several and is_unaligned(analysis),
    )


def is_unaligned(analysis: ReductionAnalysis) -> bool:
    """Whether runs of contiguous rows are no whole sectors, or those of columns no vectors."""
    bits = _operand_bits(analysis)
    if analysis.contiguous_rows > 1:
        return analysis.contiguous_rows * bits % SECTOR_BITS != 0
    return vector_bytes(analysis.contiguous_columns, bits) < VECTOR_BYTES


def _operand_bits(analysis: ReductionAnalysis) -> int:
    values = (*analysis.row_operands, *analysis.row_results)
    return 32 if max(map(ops.element_bits, values), default=0) > 16 else 16


def _is_heavy(analysis: ReductionAnalysis) -> bool:
    """Whether an element takes many more instructions than one of a norm."""
    names = {name for op in analysis.group for name in ops.scalar_names(op)}
    return not names.isdisjoint(LONG_FUNCTIONS) or _has_parts_of_columns(analysis)


def _has_parts_of_columns(analysis: ReductionAnalysis) -> bool:
    """Whether an operand has some dimensions of the columns, and not the innermost one.

    Each element of a thread then has an index and a load of its own, unless a run shares them.
    """
    innermost = (COLUMN, len(analysis.column_sizes) - 1)
    if analysis.column_sizes[-1] % MIN_RUN == 0:
        return False
    for op in analysis.group:
        for index_map in ops.indexing_maps(op)[: ops.num_inputs(op)]:
            axes = {analysis.loops[op][loop] for loop in index_map or () if loop is not None}
            if innermost not in axes and any(group == COLUMN for group, _ in axes):
                return True
    return False
