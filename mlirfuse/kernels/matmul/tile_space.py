"""The iteration space of a matmul kernel, and the axes that the loops of its ops are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen import row_reductions
from mlirfuse.kernels.codegen.dot_precision import dot_precision, of_convolution
from mlirfuse.kernels.codegen.element_types import HIDING, WIDE, Unsupported
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, Axis, Group, Space, loop_axes
from mlirfuse.kernels.codegen.row_reductions import Reduction
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.matmul.aligned_copies import AlignedCopy
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, problem_of
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolutions
from mlirfuse.targets.base import Target

BATCH, M, N, K, K_GROUPS = 0, 1, 2, 3, 4
"""Indices of the groups of axes; with groups of K, `K` is the loop within a group."""


@dataclasses.dataclass(frozen=True, slots=True)
class KernelTiles:
    """A matmul kernel that is being written.

    Attributes:
      analysis: the region.
      config: its configuration.
      tiles: the lines of the kernel.
      axes: axis of each loop of the contraction.
      wide: whether offsets need 64 bits.
      precision: input precision of `tl.dot`; empty where it has no choice.
      copies: index of an operand -> its copy, which the kernel reads in its place.
      reductions: op of the epilogue that reduces rows -> its reduction.
    """

    analysis: MatmulAnalysis
    config: MatmulConfig
    tiles: Tiles
    axes: tuple[Axis, ...]
    wide: bool
    precision: str = ""
    copies: Mapping[int, AlignedCopy] = dataclasses.field(default_factory=dict)
    reductions: Mapping[ir.Operation, Reduction] = dataclasses.field(default_factory=dict)

    def mask(self, group: int) -> str:
        """The mask of a group of axes; `None` where no tile is partial."""
        return self.tiles.space.groups[group].mask or "None"


def word_of(analysis: MatmulAnalysis, target: Target) -> str:
    """The precision that was asked for, where the model has a convolution of 1x1; else empty."""
    op = analysis.contraction
    if not convolutions.is_from_convolution(op):
        return ""
    return of_convolution(convolutions.operations(op), target)


def precision_of(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> str:
    """The input precision of `tl.dot` with a configuration."""
    return dot_precision(
        analysis.operand_type,
        target,
        word=word_of(analysis, target),
        block_m=config.block_m,
        num_warps=config.num_warps,
        b_k_contiguous=problem_of(analysis).b_k_contiguous,
    )


def kernel_tiles(
    analysis: MatmulAnalysis,
    config: MatmulConfig,
    *,
    layout: str = "",
    precision: str = "",
    copies: Mapping[int, AlignedCopy] | None = None,
) -> KernelTiles:
    """Starts a kernel.

    Args:
      analysis: the region.
      config: its configuration.
      layout: name of the layout of its tiles, in Gluon.
      precision: input precision of `tl.dot`; empty where it has no choice.
      copies: index of an operand -> its copy, which the kernel reads in its place.

    Raises:
      Conflict: the ops do not share an iteration space.
    """
    space = _space(analysis, config)
    axes = _contraction_axes(analysis)
    maps = analysis.maps
    main = [axes[d] for d in maps[-1] if d is not None]
    internal = {result for op in analysis.prologue for result in op.results}
    computed = {
        value: [axes[d] for d in index_map if d is not None]
        for value, index_map in zip(analysis.contraction.operands, maps, strict=True)
        if value in internal
    }
    accumulated = {one.result: main for part in analysis.parts for one in part}
    loops: dict[ir.Operation, Sequence[Axis]] = {analysis.contraction: axes}
    loops.update(loop_axes(space, analysis.prologue, main, written=computed))
    loops.update(loop_axes(space, analysis.epilogue, main, written=accumulated))
    if analysis.whole_rows and config.block_n < analysis.n:
        raise Unsupported("rows that several tiles have")
    reductions = {
        op: row_reductions.read(op, loops[op], [(N, 0)])
        for op in analysis.epilogue
        if row_reductions.reduces(op)
    }
    short = all(ops.element_type(v) in HIDING for v in analysis.results)
    tiles = Tiles(space, loops, WIDE, short=short, layout=layout)
    tiles.body.large = True
    largest = max(ops.num_elements(v) for v in analysis.contraction.operands)
    wide = analysis.m is None or largest >= MAX_INDEX
    return KernelTiles(
        analysis, config, tiles, tuple(axes), wide, precision, copies or {}, reductions
    )


def _space(analysis: MatmulAnalysis, config: MatmulConfig) -> Space:
    """The groups of axes; one has a mask where its last tile is partial."""
    m, n, inner_k = analysis.m, analysis.n, analysis.inner_k
    groups = [
        Group("batch", analysis.batch),
        Group("offs_m", (m,), "mask_m" if m is None or m % config.block_m else ""),
        Group("offs_n", (n,), "mask_n" if n % config.block_n else ""),
        Group("offs_k", (inner_k,), "mask_k" if inner_k % config.block_k else ""),
    ]
    if analysis.grouped:
        groups.append(Group("k_group", (analysis.sizes[analysis.loops.k[0]],)))
    return Space(tuple(groups))


def _contraction_axes(analysis: MatmulAnalysis) -> list[Axis]:
    loops = analysis.loops
    axes: list[Axis] = [(K, 0)] * len(analysis.sizes)
    for position, loop in enumerate(loops.batch):
        axes[loop] = (BATCH, position)
    if loops.m is not None:
        axes[loops.m] = (M, 0)
    axes[loops.n] = (N, 0)
    if analysis.grouped:
        axes[loops.k[0]] = (K_GROUPS, 0)
    return axes
