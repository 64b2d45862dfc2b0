"""One tile per CTA whose loop over K computes operands (prologue), or has several accumulators.

    for start_k in tl.range(0, K, block_k):
        a = ...                                        the prologue of A, elementwise
        b = ...                                        the same of B, e.g. dequantization
        accumulator0 = tl.dot(a, b, accumulator0)

With M = 1 the kernel accumulates elementwise, without tensor cores.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels.codegen.dot_precision import precision_argument
from mlirfuse.kernels.codegen.element_types import TYPES, Unsupported
from mlirfuse.kernels.codegen.iteration_space import Space
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, Part
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.matmul.tile_program import plan_tiles
from mlirfuse.kernels.matmul.tile_space import K, KernelTiles, N, kernel_tiles, precision_of
from mlirfuse.kernels.plan import Plan
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

MIN_BLOCK_K = 16
"""Elements of K of a matrix instruction."""

MAX_STAGES = 8
"""Stages of the small blocks of short groups."""


def can_run(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> bool:
    """Whether the kernel computes a region: always."""
    return True


def plan(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """Plans the kernel.

    Raises:
      Unsupported: groups of K are shorter than a matrix instruction, or another op has no lines.
    """
    if analysis.grouped:
        config = _within_groups(config, analysis.inner_k)
    precision = precision_of(analysis, config, target)
    kernel = kernel_tiles(analysis, config, precision=precision)
    return plan_tiles(kernel, _accumulate, early_loads=False)


def _within_groups(config: MatmulConfig, group_size: int) -> MatmulConfig:
    """The configuration with blocks that divide the groups of K, each of which has one scale."""
    block_k = min(config.block_k, group_size & -group_size)
    if block_k < MIN_BLOCK_K:
        raise Unsupported(f"groups of {group_size} elements of K")
    num_stages = min(config.num_stages * config.block_k // block_k, MAX_STAGES)
    return dataclasses.replace(config, block_k=block_k, num_stages=num_stages, split_k=1)


def _accumulate(kernel: KernelTiles, part: Part) -> None:
    analysis, config = kernel.analysis, kernel.config
    tiles, writer = kernel.tiles, kernel.tiles.body.writer
    kind, block_k = TYPES[analysis.accumulator_type], config.block_k
    one_row = config.block_m == 1
    zeros = f"tl.zeros([{block_k if one_row else config.block_m}, {config.block_n}], {kind})"
    writer.write(f"accumulator{index} = {zeros}" for index in range(len(part)))
    if _reads_i4(analysis):
        half = config.block_n // 2
        writer.line(f"offs_n_pair = (pid_n * {half} + tl.arange(0, {half}))[None, :]")
        writer.line(f"offs_n_pair_inside = offs_n_pair * 2 < {analysis.n}")
    out = f", out_dtype={kind}" if analysis.accumulator_type == "f64" else ""
    stages = f", num_stages={config.num_stages}" if one_row else ""
    # Without tensor cores nothing is rounded to their operand type.
    operand_kind = kind if one_row else TYPES[analysis.operand_type]
    precision = precision_argument(kernel.precision)
    with writer.indented(f"for start_k in tl.range(0, {analysis.k}, {block_k}{stages}):"):
        _write_operand(kernel, part[0].a, "a", operand_kind)
        for index, accumulator in enumerate(part):
            _write_operand(kernel, accumulator.b, "b", operand_kind)
            name = f"accumulator{index}"
            updated = (
                f"{name} + tl.trans(a) * b" if one_row else f"tl.dot(a, b, {name}{precision}{out})"
            )
            writer.line(f"{name} = {updated}")
    if one_row:
        for index in range(len(part)):
            writer.line(f"accumulator{index} = tl.sum(accumulator{index}, 0, keep_dims=True)")
    tiles.forget_loads()


def _write_operand(kernel: KernelTiles, index: int, name: str, kind: str) -> None:
    """Writes the block of an operand, computed by its prologue or loaded.

    Args:
      kernel: the kernel.
      index: index of the operand of the contraction.
      name: `a`, whose K is the second dimension, or `b`, whose K is the first.
      kind: element type in Triton.
    """
    analysis, config, tiles = kernel.analysis, kernel.config, kernel.tiles
    if name == "a":
        expand, shape = "[None, :]", (config.block_m, config.block_k)
    else:
        expand, shape = "[:, None]", (config.block_k, config.block_n)
    tiles.forget_loads()
    mask = _write_k_offsets(kernel, expand, pair_dim=1 if name == "a" else 0)
    value = analysis.operand(index)
    for op in _producers(analysis, value):
        tiles.elementwise(op)
    axes = tuple(None if n is None else kernel.axes[n] for n in analysis.maps[index])
    block = f"tl.broadcast_to({tiles.read(value, axes)}, {list(shape)}).to({kind})"
    tiles.body.writer.line(
        f"{name} = tl.where({mask}, {block}, 0)" if mask else f"{name} = {block}"
    )


def _write_k_offsets(kernel: KernelTiles, expand: str, *, pair_dim: int) -> str:
    """Writes the indices along K of a block, and of its pairs of i4; returns the mask.

    Args:
      kernel: the kernel.
      expand: index that gives a vector along K the rank of the block.
      pair_dim: dimension of the block along which elements of i4 of a byte are adjacent.
    """
    analysis, block_k = kernel.analysis, kernel.config.block_k
    writer, mask = kernel.tiles.body.writer, kernel.tiles.space.groups[K].mask
    start = "start_k"
    if analysis.grouped:
        start = f"start_k % {analysis.inner_k}"
        writer.line(f"k_group = start_k // {analysis.inner_k}")
    writer.line(f"offs_k = ({start} + tl.arange(0, {block_k})){expand}")
    if mask:
        writer.line(f"{mask} = offs_k < {analysis.k}")
    if _reads_i4(analysis):
        writer.line(f"offs_k_pair = ({start} // 2 + tl.arange(0, {block_k // 2})){expand}")
        writer.line(f"offs_k_pair_inside = offs_k_pair * 2 < {analysis.inner_k}")
        groups = list(kernel.tiles.space.groups)
        groups[K] = dataclasses.replace(groups[K], pairs=pair_dim)
        groups[N] = dataclasses.replace(groups[N], pairs=1)
        kernel.tiles.space = Space(tuple(groups))
    return mask


def _reads_i4(analysis: MatmulAnalysis) -> bool:
    """Whether the prologue reads elements of four bits."""
    read = [v for op in analysis.prologue for v in ops.inputs(op)]
    return any(ops.element_type(v) == "i4" for v in read)


def _producers(analysis: MatmulAnalysis, value: ir.Value) -> list[ir.Operation]:
    """The ops of the prologue that compute a value, in order."""
    needed = {value}
    found = []
    for op in reversed(analysis.prologue):
        if any(result in needed for result in op.results):
            found.append(op)
            needed.update(op.operands)
    return found[::-1]
