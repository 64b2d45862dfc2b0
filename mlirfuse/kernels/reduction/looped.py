"""Kernels that loop over the columns of a block of rows, with accumulators in registers.

    acc = neutral                          [block_rows, block_columns]
    for start in range(0, columns, block_columns):
        acc = combine(acc, term)           elementwise: no exchange between threads in the loop
    result = reduce(acc, columns)          once

A tile's lanes are along its contiguous side, rows or columns, whichever Triton finds from the
pointers. Each level of dependent reductions is a loop of its own over the same columns; a mean and
the sum of squares around it are one level, and so are a maximum and the sum of exponentials.

Where the rows are too few for the device, `splits` CTAs share the columns: each level is a kernel
that stores partial results as scratch, which the next one combines, in the same order each time.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.codegen.tile_writer import Launch
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.reduction.analysis import ROW, ReductionAnalysis
from mlirfuse.kernels.reduction.flat_results import flat_results
from mlirfuse.kernels.reduction.looped_kernel import ENTRY, LoopedKernel
from mlirfuse.kernels.reduction.partial_results import Split
from mlirfuse.kernels.reduction.passes_over_columns import Levels
from mlirfuse.kernels.reduction.problem import ReductionConfig
from mlirfuse.kernels.reduction.region_problem import is_unaligned, problem_of
from mlirfuse.kernels.reduction.row_tiles import LANES
from mlirfuse.targets.base import Target

COMBINE_WARPS = 4
"""Warps of the kernel that combines the partial results of splits and has no columns."""

MAX_COMBINED = 1024
"""Partial results of a tile of that kernel, of several rows."""

COMBINED_ROWS = 8
"""Rows of such a tile, at least where there are so many: 32 bytes of f32, a sector. On an H200 four
results of each of 610 splits took 12 us to combine by one row in a CTA."""

COMBINED_PER_WARP = 512
"""Partial results of a warp of that kernel, at most: 16 of each thread."""

_SCRATCH = {
    "tl.float32": ("f32", "*fp32"),
    "tl.float64": ("f64", "*fp64"),
    "tl.int32": ("i32", "*i32"),
    "tl.uint32": ("i32", "*i32"),
    "tl.int64": ("i64", "*i64"),
    "tl.uint64": ("i64", "*i64"),
}
"""Accumulator -> element type of scratch, and its pointer."""


def plan(analysis: ReductionAnalysis, config: ReductionConfig, target: Target) -> Plan:
    """Plans one kernel, or one for each level of reductions where CTAs share rows.

    Raises:
      Unsupported: an op has no translation.
    """
    levels = Levels(analysis)
    if not analysis.num_dynamic:
        height = min(config.block_rows, power_of_two(analysis.rows))
        config = dataclasses.replace(config, block_rows=height)
    if config.splits > 1 and not analysis.num_dynamic:
        return _split_plan(analysis, levels, config, target)
    rows, step, each = config.block_rows, config.block_columns, _each(config)
    kernel = LoopedKernel(analysis, levels, rows, step, each=each)
    kernel.write_indices()
    kernel.write_rows(0)
    for level in range(1, levels.depth + 1):
        kernel.reduce(levels.pass_of(levels.reductions(level), levels.stored(level - 1)))
        kernel.write_rows(level)
    last = levels.pass_of([], levels.stored(levels.depth))
    kernel.store_columns(last)
    kernel.store_rows()
    return kernel.tiles.plan(
        ENTRY,
        kernel.tiles.body.writer.lines,
        analysis.results,
        _note(analysis, config),
        launch=Launch(
            grid=(kernel.blocks.extent(), Extent(1), Extent(1)),
            first=(ROW, 0),
            num_warps=config.num_warps,
        ),
        problem=problem_of(analysis),
    )


def _each(config: ReductionConfig) -> int:
    """Elements of a tile of a thread."""
    return config.block_rows * config.block_columns // (config.num_warps * LANES)


def _note(analysis: ReductionAnalysis, config: ReductionConfig) -> str:
    return (
        f"Rows of {analysis.columns}, {config.block_rows} at a time, {config.block_columns} "
        "columns at a time."
    )


def _split_plan(
    analysis: ReductionAnalysis, levels: Levels, config: ReductionConfig, target: Target
) -> Plan:
    """The kernels of all levels, the last of which writes the results."""
    step, problem = config.block_columns, problem_of(analysis)
    chunk = -(-analysis.columns // (config.splits * step)) * step
    split = Split(-(-analysis.columns // chunk), chunk)
    before = None
    for level in range(1, levels.depth + 1):
        before = _partial(analysis, levels, config, split, level, before)
    assert before is not None
    flat = flat_results(analysis, levels) if is_unaligned(analysis) else None
    if flat is not None:
        kernel, warps = _combining(analysis, levels, config, split, flat.of_rows, alone=True)
        made = flat.plan(flat.before(kernel, before, warps), problem, target)
        if not isinstance(made, NoMatch):
            return made
    stored = [value for level in range(levels.depth + 1) for value in levels.stored(level)]
    kernel, warps = _combining(analysis, levels, config, split, analysis.results, alone=not stored)
    if stored:
        kernel.store_columns(levels.pass_of([], stored))
    kernel.store_rows(once=bool(stored))
    arguments = kernel.tiles.pointer_arguments(analysis.results)
    grid = kernel.blocks.extent(), Extent(split.count if stored else 1), Extent(1)
    return Plan(
        kernel.program(arguments, warps, before),
        tuple(kernel.tiles.operands),
        analysis.results,
        grid,
        problem=problem,
        before=before,
    )


def _combining(
    analysis: ReductionAnalysis,
    levels: Levels,
    config: ReductionConfig,
    split: Split,
    values: Sequence[ir.Value],
    *,
    alone: bool,
) -> tuple[LoopedKernel, int]:
    """A kernel that has combined the parts of rows, and its warps.

    Args:
      analysis: the region.
      levels: the levels of its values.
      config: the tiles.
      split: the columns of the CTAs that have stored parts.
      values: what it computes.
      alone: whether these are values of rows alone, and the kernel has no columns.
    """
    rows, warps = config.block_rows, config.num_warps
    if alone:
        parts = power_of_two(split.count)
        rows = min(power_of_two(analysis.rows), max(COMBINED_ROWS, MAX_COMBINED // parts))
        warps = max(COMBINE_WARPS, rows * parts // COMBINED_PER_WARP)
    kernel = LoopedKernel(
        analysis,
        levels,
        rows,
        config.block_columns,
        None if alone else split,
        each=_each(config),
    )
    kernel.write_indices(backwards=True)
    kernel.needed = levels.needed([v.owner.operation for v in values], levels.depth)
    kernel.combine_partials(levels.depth, split)
    return kernel, warps


def _partial(
    analysis: ReductionAnalysis,
    levels: Levels,
    config: ReductionConfig,
    split: Split,
    level: int,
    before: Plan | None,
) -> Plan:
    """The kernel that stores the partial results of a level, and all results before them."""
    reductions = levels.reductions(level)
    height, width, each = config.block_rows, config.block_columns, _each(config)
    kernel = LoopedKernel(analysis, levels, height, width, split, each=each)
    kernel.needed = levels.needed(reductions, level - 1)
    kernel.write_indices()
    kernel.combine_partials(level - 1, split)
    accumulators = kernel.accumulate(levels.pass_of(reductions, []))
    names: list[tuple[str, str]] = []
    scratch: list[tuple[Extent, ...]] = []
    types: list[str] = []
    rows = Extent(analysis.rows)

    def store(name: str, kind: str, *, once: bool = False) -> None:
        """Stores a number of each row: that of each split, or one that all splits have."""
        element, pointer = _SCRATCH[kind]
        first = kernel.writer.indented("if split == 0:") if once else contextlib.nullcontext()
        with first:
            place = "row" if once else f"split * {analysis.rows} + row"
            kernel.store_partial(len(names), name, element, place)
        scratch.append((rows,) if once else (Extent(split.count), rows))
        names.append((f"y{len(names)}", pointer))
        types.append(element)

    for op in reductions:
        if op in accumulators:
            store(accumulators[op], analysis.accumulator(op))
            continue
        for name, kind in kernel.whole(op).fields:
            store(name, kind)
    for number in range(1, level):
        for op in levels.reductions(number):
            store(kernel.combined[op], analysis.accumulator(op), once=True)
    return Plan(
        kernel.program([*kernel.tiles.pointer_arguments(()), *names], config.num_warps, before),
        tuple(kernel.tiles.operands),
        (),
        (kernel.blocks.extent(), Extent(split.count), Extent(1)),
        scratch=tuple(scratch),
        scratch_types=tuple(types),
        before=before,
    )
