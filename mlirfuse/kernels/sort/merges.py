"""Merges sorted runs of long rows: the place of an element is its rank in all runs of its group.

    runs of a group        a b c d          each sorted
    place of b[i]          i + (elements of a, c and d before b[i])

An element searches the other runs of its group by bisection, all of them at once, and is stored
where it belongs. The elements of a warp are adjacent in their run, so their searches load from the
same lines. Elements behind the ones that are selected are not stored. The kernel that merges the
last runs writes the results.
"""

from __future__ import annotations

from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.kernels.sort.analysis import SortAnalysis, index_bits, problem_of
from mlirfuse.kernels.sort.heuristics import MERGE_WARPS, merged_elements
from mlirfuse.kernels.sort.keys import found
from mlirfuse.kernels.sort.problem import SortConfig
from mlirfuse.kernels.sort.results import Stores, stores
from mlirfuse.kernels.sort.runs import Runs
from mlirfuse.targets.base import Target

ENTRY = "sort_merge_kernel"


def plan(
    analysis: SortAnalysis, config: SortConfig, target: Target, runs: Runs, before: Plan
) -> Plan:
    """Plans the kernels that merge runs until there is one.

    Args:
      analysis: the sort.
      config: the runs that are merged at a time.
      target: the target.
      runs: sorted runs of packed keys.
      before: the kernel that stores them as scratch.
    """
    made = before
    while runs.count > 1:
        # The last runs may be fewer.
        width = min(config.merge_width, runs.count)
        merged = runs.merged(width, analysis.order.count)
        made = _merge(analysis, target, runs, merged, width, made)
        runs = merged
    return made


def _merge(
    analysis: SortAnalysis, target: Target, runs: Runs, merged: Runs, width: int, before: Plan
) -> Plan:
    """The kernel that merges groups of `width` runs into `merged` ones."""
    elements = merged_elements(width, target)
    blocks = -(-runs.total // elements)
    bits, final = analysis.bits(analysis.columns), merged.count == 1
    last = stores(analysis, has_source=False)
    lines = [
        f"row = tl.program_id(0) // {blocks}",
        f"element = tl.program_id(0) % {blocks} * {elements} + tl.arange(0, {elements})",
        f"inside = element < {runs.total}",
        f"mine = tl.load(s0 + row * {runs.total} + element, mask=inside, other=0)",
        f"run = element // {runs.length}",
        f"group = run // {width}",
        *_ranks(runs, width, equal=analysis.has_keys_alone),
        *(_results(analysis, last) if final else _store_runs(merged)),
    ]
    given = [(f"s{n}", f"*{kind}") for n, kind in enumerate(before.scratch_types)]
    arguments = (*given, *(last.arguments if final else [("y0", f"*i{bits}")]))
    note = f"Merges {width} runs of {runs.length} at a time."
    program = Program(
        ENTRY, text_of(ENTRY, arguments, lines, note), arguments, MERGE_WARPS, num_stages=1
    )
    grid = (Extent(runs.total, elements, repeat=analysis.rows), Extent(1), Extent(1))
    if final:
        results = tuple(one.value for one in analysis.results)
        problem = problem_of(analysis)
        return Plan(program, last.operands, results, grid, problem=problem, before=before)
    return Plan(
        program,
        (),
        (),
        grid,
        scratch=((Extent(analysis.rows), Extent(merged.total)),),
        scratch_types=(f"i{bits}",),
        before=before,
    )


def _ranks(runs: Runs, width: int, *, equal: bool) -> list[str]:
    """The lines that compute the place of each element in its group.

    Args:
      runs: the sorted runs.
      width: runs of a group.
      equal: whether keys may be, so that those of the runs before come first.
    """
    others = range(1, width)
    lines = [f"place = element % {runs.length}"]
    for n in others:
        lines += [
            f"other = group * {width} + (run + {n}) % {width}",
            f"first{n} = s0 + row * {runs.total} + other * {runs.length}",
            f"size{n} = tl.where(other == {runs.count - 1}, {runs.last}, {runs.length})",
            f"size{n} = tl.where(inside & (other < {runs.count}), size{n}, 0)",
            f"found{n} = tl.zeros_like(place)",
            *([f"earlier{n} = other < run"] if equal else []),
        ]
    steps = runs.length.bit_length()
    lines += [f"for step in range({steps}):", f"    half = {1 << steps - 1} >> step"]
    for n in others:
        first = f"((value < mine) | (earlier{n} & (value == mine)))" if equal else "(value < mine)"
        lines += [
            f"    probe = found{n} + half",
            f"    there = probe <= size{n}",
            f"    value = tl.load(first{n} + probe - 1, mask=there, other=0)",
            f"    found{n} = tl.where(there & {first}, probe, found{n})",
        ]
    return [*lines, *(f"place += found{n}" for n in others)]


def _store_runs(merged: Runs) -> list[str]:
    """The lines that store the first elements of each merged run, still packed."""
    return [
        f"run = y0 + row * {merged.total} + group * {merged.length}",
        f"tl.store(run + place, mine, mask=inside & (place < {merged.length}))",
    ]


def _results(analysis: SortAnalysis, last: Stores) -> list[str]:
    """The lines that store what the sorted keys say."""
    return [
        *found(analysis, "mine", 1 << index_bits(analysis.columns)),
        f"written = inside & (place < {analysis.order.count})",
        *last.lines,
    ]
