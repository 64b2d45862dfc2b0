"""Kernels for regions of elementwise ops: several results, halves, gathers, transposed operands.

A tile of the kernel has rows and columns. The axes of the result are cut into both where a bias or
a table of angles ends, which is then read once for all rows of a tile. Where an operand lies
transposed, the columns are the result's fastest axes and the rows the operand's, so that both are
read and written in whole lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    Group,
    Space,
    known_product,
    power_of_two,
)
from mlirfuse.kernels.codegen.loop_nest import VECTOR, Nest, count, tile_width
from mlirfuse.kernels.codegen.scalar_ops import HIDING, POINTERS, TYPES, WIDE, Unsupported
from mlirfuse.kernels.codegen.tile_writer import Tiles, attempted, computing, returned
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.pointwise.problem import PointwiseConfig, PointwiseProblem
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

ENTRY = "elementwise_kernel"

BATCH, ROWS, COLUMNS = 0, 1, 2
"""The groups of the iteration space."""

_NAMES = ("batch", "row", "column")

_TRAITS = ("gathered", "swapped", "permuted", "sliced", "error function", "functions")
"""What tells how IREE's code for a region fares, the strongest first."""

MEASURED_ON = "cuda:sm_90"
"""Whose measurements count on a target that has none: what is slow there is IREE's code."""


# A thread has 16 bytes of each row, so that what all rows share needs no other layout of the tile.
# Estimates, for what is far from all measured kernels.
_ROWS, _TRANSPOSED = PointwiseConfig(2, 1024, 4), PointwiseConfig(64, 64, 8)


def candidates(problem: PointwiseProblem) -> list[PointwiseConfig]:
    """The tilings that a search measures."""
    if problem.family == "transpose":
        shapes = [(32, 64), (64, 64), (64, 32), (128, 32), (32, 128), (64, 128), (128, 64)]
        return [PointwiseConfig(*shape, warps) for shape in shapes for warps in (4, 8)]
    return [
        PointwiseConfig(height, VECTOR * 32 * warps, warps)
        for height, warps in itertools.product((1, 2, 4, 8), (1, 2, 4, 8))
    ]


def supports(
    region: ir.Operation, target: Target, tiling: PointwiseConfig | None = None
) -> Plan | NoMatch | None:
    """Plans a kernel for a region of elementwise ops; None for another kind of region.

    Args:
      region: a group.
      target: what is compiled for.
      tiling: instead of the chosen one.
    """
    group = computing(region)
    others = [op for op in group if not ops.is_elementwise(op)]
    if len(others) == len(group) or any(not op.name.startswith("tensor.") for op in others):
        return None
    if others:
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(others[0])}")
    return _planned(group, returned(region), target, tiling)


def refusal(op: ir.Operation, target: Target) -> NoMatch | None:
    """Why an elementwise op that is alone would get no kernel as a group; None if it would."""
    plan = _planned([op], list(op.results), target)
    return profitable(plan, target) if isinstance(plan, Plan) else plan


def _planned(
    group: list[ir.Operation],
    results: list[ir.Value],
    target: Target,
    tiling: PointwiseConfig | None = None,
) -> Plan | NoMatch:
    return attempted(
        lambda: _Planner(group, results).plan(target, tiling), "the axes of the largest result"
    )


def default_config(problem: PointwiseProblem, target: Target) -> PointwiseConfig:
    """The configuration computed from the problem and the device."""
    return _TRANSPOSED if problem.family == "transpose" else _ROWS


def profitable(plan: Plan, target: Target) -> NoMatch | None:
    """Leaves a region with IREE unless a kernel was measured to be faster."""
    problem = plan.problem
    assert isinstance(problem, PointwiseProblem)
    found = lookup.baseline(target, problem, elsewhere=MEASURED_ON)
    if found is not None:
        return lookup.refusal(found, problem)
    results = "several results" if problem.several_results else "one result"
    return NoMatch(
        Reason.NOT_PROFITABLE,
        f"no kernel was measured near {problem} elements, {problem.trait}, {problem.result_bits}"
        f" bits, {results}",
    )


class _Planner:
    """Writes the kernel of a group of ops."""

    def __init__(self, group: Sequence[ir.Operation], results: Sequence[ir.Value]) -> None:
        self.group = group
        self.results = results
        kinds = {ops.element_type(value) for value in results}
        if not kinds <= POINTERS.keys():
            raise Unsupported(f"a result of type {results[0].type}")
        self.nest = Nest(group, results)

    def plan(self, target: Target, tiling: PointwiseConfig | None) -> Plan:
        """The kernel for a target, with the tiling if one is given."""
        first, split, every = self.nest.rows, self.nest.columns, self.nest.sizes
        sizes = every[:first], every[first:split], every[split:]
        problem = self._problem()
        chosen = tiling or self._tiling(target, problem)
        height, width, warps = chosen.block_rows, chosen.block_columns, chosen.num_warps
        # The group of the first axis, which is the one with dynamic sizes if there are any.
        holder = next(n for n, part in enumerate(sizes) if part)
        dynamic = every[0] is None
        batch, rows, columns = map(known_product, sizes)
        if holder == COLUMNS:
            height, width = 1, height * width
        endless = [dynamic and n == holder for n in range(3)]
        if not endless[COLUMNS]:
            narrow = tile_width(columns, width)
            height, width = height * width // narrow, narrow
        if not endless[ROWS]:
            height = min(height, power_of_two(rows))
        cut = [False, endless[ROWS] or rows % height != 0, endless[COLUMNS] or columns % width != 0]
        space = Space(
            tuple(
                Group(name, part, f"{name}_inside" if masked else "")
                for name, part, masked in zip(_NAMES, sizes, cut, strict=True)
            )
        )
        tiles = self._tiles(space, wide=dynamic or self._most() >= MAX_INDEX)
        counts = batch, -(-rows // height), -(-columns // width)
        lines = _numbers(holder, counts, (1, height, width))
        if dynamic or self._most() >= MAX_INDEX:
            lines[0] += ".to(tl.int64)"
        lines += space.inside(BATCH, ROWS, COLUMNS)
        told = [tuple(range(group.dynamic)) for group in space.groups]
        extents = (
            Extent(batch, 1, told[BATCH], counts[ROWS] * counts[COLUMNS]),
            Extent(rows, height, told[ROWS], counts[COLUMNS]),
            Extent(columns, width, told[COLUMNS]),
        )
        return tiles.plan(
            ENTRY,
            [*lines, *tiles.body.lines],
            self.results,
            f"Tiles of {height} by {width}.",
            grid=(extents[holder], Extent(1), Extent(1)),
            problem=problem,
            first=(holder, 0),
            num_warps=warps,
        )

    def _tiles(self, space: Space, *, wide: bool) -> Tiles:
        """All ops and stores over the tiles of a space."""
        first, split = self.nest.rows, self.nest.columns
        starts = [(BATCH, 0)] * first + [(ROWS, first)] * (split - first)
        starts += [(COLUMNS, split)] * (len(self.nest.sizes) - split)
        axes = [(group, axis - start) for axis, (group, start) in enumerate(starts)]
        loops = {op: [axes[p] for p in places] for op, places in self.nest.places.items()}
        tiles = Tiles(
            space,
            loops,
            {**WIDE, "index": TYPES["i64" if wide else "i32"]},
            short=all(ops.element_type(value) in HIDING for value in self.results),
        )
        for op in self.group:
            tiles.elementwise(op)
        for number, value in enumerate(self.results):
            tiles.store(f"y{number}", value, tiles.written_axes(value))
        return tiles

    def _most(self) -> int:
        """Elements of the largest tensor."""
        results = [ops.shape(value) for value in self.results]
        return max(map(known_product, [*results, *(read.sizes for read in self.nest.reads)]))

    def _problem(self) -> PointwiseProblem:
        """What tells such kernels, and IREE's code for the same region, apart."""
        bits = max(ops.element_bits(value) for value in self.results)
        several = len(self.results) > 1
        return PointwiseProblem(count(self.nest.sizes), self._trait(), bits, several)

    def _trait(self) -> str:
        """What IREE's code for the region is slow or fast by."""
        if self.nest.transposed:
            return "transposed"
        names = {name for op in self.group for name in ops.scalar_names(op)}
        found = {read.trait for read in (*self.nest.reads, *self.nest.moved)}
        found |= {"error function"} if "math.erf" in names else set()
        found |= {"functions"} if any(name.startswith("math.") for name in names) else set()
        return next((trait for trait in _TRAITS if trait in found), "arithmetic")

    def _tiling(self, target: Target, problem: PointwiseProblem) -> PointwiseConfig:
        measured = lookup.nearest(target, problem, PointwiseConfig)
        return default_config(problem, target) if measured is None else measured.config


def _numbers(holder: int, counts: tuple[int, int, int], blocks: tuple[int, int, int]) -> list[str]:
    """The lines that say which batch, rows and columns a workgroup has.

    Args:
      holder: the first group with axes.
      counts: tiles along each group.
      blocks: sizes of a tile.
    """
    lines = ["number = tl.program_id(0)"]
    inner = 1
    for group in (COLUMNS, ROWS, BATCH):
        if group < holder:
            break
        text = "number" if inner == 1 else f"number // {inner}"
        if group > holder:
            text = f"{text} % {counts[group]}"
        inner *= counts[group]
        if group != BATCH:
            shape = "[:, None]" if group == ROWS else "[None, :]"
            text = f"({text}) * {blocks[group]} + tl.arange(0, {blocks[group]}){shape}"
        lines.append(f"{_NAMES[group]} = {text}")
    return lines
