"""The epilogue of a matmul kernel: ops on accumulators in registers, and the stores.

Ops are elementwise, or reduce rows, of which a tile then has all columns.

An accumulator is the variable `accumulator0`, of several in one part `accumulator1` and so on.
"""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.kernels.codegen import row_reductions
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, Part
from mlirfuse.kernels.matmul.tile_space import KernelTiles, N
from mlirfuse.structured.ir import ops

Accumulate = Callable[[KernelTiles, Part], None]
"""Writes the lines that compute the accumulators of a part."""


def write_parts(kernel: KernelTiles, selector: str, accumulate: Accumulate) -> None:
    """Writes the accumulators, epilogue and stores of each part; several are branches.

    Args:
      kernel: the kernel.
      selector: expression of the index of a CTA's part.
      accumulate: writes the accumulators of a part.
    """
    writer, parts = kernel.tiles.body.writer, kernel.analysis.parts
    for index, part in enumerate(parts):
        kernel.tiles.forget_loads()
        if len(parts) == 1:
            _write_part(kernel, part, accumulate)
            continue
        with writer.indented(f"if {selector} == {index}:"):
            _write_part(kernel, part, accumulate)


def _write_part(kernel: KernelTiles, part: Part, accumulate: Accumulate) -> None:
    accumulate(kernel, part)
    tiles = kernel.tiles
    known = {accumulator.result for accumulator in part}
    for index, accumulator in enumerate(part):
        tiles.define(accumulator.result, f"accumulator{index}")
    for op in _ops_of(kernel.analysis, part):
        if op in kernel.reductions:
            mask = tiles.space.groups[N].mask
            row_reductions.write(tiles, op, kernel.reductions[op], mask)
        else:
            tiles.elementwise(op)
        known.update(op.results)
    for index, value in enumerate(kernel.analysis.results):
        if value in known:
            tiles.store(f"y{index}", value, tiles.written_axes(value))


def _ops_of(analysis: MatmulAnalysis, part: Part) -> list[ir.Operation]:
    """The ops of the epilogue that other parts' accumulators do not reach, in order."""
    own = {accumulator.result for accumulator in part}
    others = {each.result for other in analysis.parts for each in other} - own
    found = []
    for op in analysis.epilogue:
        if any(v in others for v in op.operands):
            others.update(op.results)
        else:
            found.append(op)
    return found


def load_early(kernel: KernelTiles, part: Part) -> None:
    """Loads the operands of a part's epilogue before its main loop.

    With a small M a CTA has one short loop, which would not hide the latency of these loads.
    """
    analysis = kernel.analysis
    later = {accumulator.result for each in analysis.parts for accumulator in each}
    later.update(result for op in analysis.epilogue for result in op.results)
    read = [v for op in analysis.epilogue for v in op.operands]
    later.update(v for v in read if ops.constant(v) is not None)
    for op in _ops_of(analysis, part):
        kernel.tiles.arguments(op, later=later)
