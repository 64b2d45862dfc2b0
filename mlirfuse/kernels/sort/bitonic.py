"""Sorts rows, or chunks of long ones, in registers by a bitonic network.

For few of the elements a partial selection keeps the first ones of each part.
"""

from __future__ import annotations

from mlirfuse.kernels.codegen.element_types import POINTERS
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.kernels.sort.analysis import SortAnalysis, block_columns, index_bits, problem_of
from mlirfuse.kernels.sort.keys import found, loaded_keys
from mlirfuse.kernels.sort.problem import SortConfig
from mlirfuse.kernels.sort.results import stores
from mlirfuse.kernels.sort.runs import Runs
from mlirfuse.structured.ir import ops

ENTRY, CHUNKS_ENTRY = "sort_kernel", "sort_chunks_kernel"


def plan(analysis: SortAnalysis, config: SortConfig) -> Plan:
    """Plans the kernel that sorts whole rows."""
    columns, rows = block_columns(analysis.columns), config.block_rows
    kept = _kept(columns, analysis.order.count)
    last = stores(analysis, has_source=True)
    lines = [
        f"row = tl.program_id(0) * {rows} + tl.arange(0, {rows})[:, None]",
        f"local = tl.arange(0, {columns})[None, :]",
        "column = local",
        *_sorted(analysis, columns, kept),
        *found(analysis, "packed", columns),
        f"place = tl.arange(0, {kept})[None, :]",
        f"written = (row < {analysis.rows}) & (place < {analysis.order.count})",
        *last.lines,
    ]
    operands = (analysis.order.source, *last.operands)
    arguments = (_given(analysis), *last.arguments)
    note = f"Rows of {columns}, {rows} at a time."
    program = Program(
        ENTRY, text_of(ENTRY, arguments, lines, note), arguments, config.num_warps, num_stages=1
    )
    grid = (Extent(analysis.rows, rows), Extent(1), Extent(1))
    results = tuple(one.value for one in analysis.results)
    return Plan(program, operands, results, grid, problem=problem_of(analysis))


def chunks_plan(analysis: SortAnalysis, config: SortConfig, runs: Runs) -> Plan:
    """Plans the kernel that sorts the chunks of rows.

    Its scratch has the first elements of each chunk, as keys with the indices of their columns.

    Args:
      analysis: the sort.
      config: its chunks.
      runs: the sorted chunks.
    """
    columns, rows = config.chunk_columns, config.block_rows
    kept = _kept(columns, runs.length)
    bits = analysis.bits(analysis.columns)
    lines = [
        f"block = tl.program_id(0) // {runs.count}",
        f"chunk = tl.program_id(0) % {runs.count}",
        f"row = block * {rows} + tl.arange(0, {rows})[:, None]",
        f"local = tl.arange(0, {columns})[None, :]",
        f"column = chunk * {columns} + local",
        *_sorted(analysis, columns, kept),
        *([] if analysis.has_keys_alone else _of_row(analysis, columns)),
        f"place = tl.arange(0, {kept})[None, :]",
        f"length = tl.where(chunk < {runs.count - 1}, {runs.length}, {runs.last})",
        f"written = (row < {analysis.rows}) & (place < length)",
        f"run = y0 + row * {runs.total} + chunk * {runs.length}",
        "tl.store(run + place, packed, mask=written)",
    ]
    arguments = (_given(analysis), ("y0", f"*i{bits}"))
    note = f"Chunks of {columns} columns, of {rows} rows at a time."
    program = Program(
        CHUNKS_ENTRY,
        text_of(CHUNKS_ENTRY, arguments, lines, note),
        arguments,
        config.num_warps,
        num_stages=1,
    )
    return Plan(
        program,
        (analysis.order.source,),
        (),
        (Extent(analysis.rows, rows, repeat=runs.count), Extent(1), Extent(1)),
        scratch=((Extent(analysis.rows), Extent(runs.total)),),
        scratch_types=(f"i{bits}",),
    )


def _of_row(analysis: SortAnalysis, columns: int) -> list[str]:
    """The lines that replace the indices of a chunk's columns by those of the row."""
    key = f"(packed >> {index_bits(columns)}).to(tl.int{analysis.bits(analysis.columns)})"
    return [
        f"column = chunk * {columns} + (packed & {columns - 1}).to(tl.int32)",
        f"packed = {key} * {1 << index_bits(analysis.columns)} + column",
    ]


def _given(analysis: SortAnalysis) -> tuple[str, str]:
    """The argument that is sorted."""
    return "x0", POINTERS[ops.element_type(analysis.order.source)]


def _kept(columns: int, count: int) -> int:
    """Elements of a sorted tile that are computed; a network of exchanges has at least two."""
    return min(columns, max(2, power_of_two(count)))


def _sorted(analysis: SortAnalysis, columns: int, kept: int) -> list[str]:
    """The lines that load tiles with so many columns, and compute their first elements.

    `row` and `column` index the tensor, and `local` the columns of a tile. `packed` is the result:
    sorted keys, with local indices below them unless keys are all.
    """
    wide, most = analysis.bits(columns), 2 ** (analysis.key_bits - 1) - 1
    below = "" if analysis.has_keys_alone else f" * {columns} + local"
    return [
        *loaded_keys(analysis),
        # Columns that the row has not come last: by the largest key and the last indices.
        f"key = tl.where(column < {analysis.columns}, key.to(tl.int{wide}), {most})",
        f"packed = key.to(tl.int{wide}){below}",
        f"packed = {'tl.sort(packed)' if kept == columns else f'~tl.topk(~packed, {kept})'}",
    ]
