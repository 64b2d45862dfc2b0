"""Concatenation kernels: each CTA writes contiguous elements, masked loads read the parts.

The elements of a CTA are part of a row, or of several rows where these are shorter than its tile.
"""

from __future__ import annotations

from mlirfuse.kernels.codegen.element_types import POINTERS
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.data_movement.analysis import ConcatAnalysis, problem_of
from mlirfuse.kernels.data_movement.problem import ConcatConfig
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.structured.ir import ops

ENTRY = "concat_kernel"


def plan(analysis: ConcatAnalysis, config: ConcatConfig) -> Plan:
    """Plans the kernel of a concatenation."""
    writer, block = Writer(), config.tile_elements
    inner, row, outer = analysis.inner, analysis.row_elements, analysis.outer
    if row < block:
        extent = Extent(outer * row, block)
        writer.line(f"place = tl.program_id(0) * {block} + tl.arange(0, {block})")
        writer.line(f"outer, offs = place // {row}, place % {row}")
        inside, there = f" & (place < {outer * row})", f"place < {outer * row}"
    else:
        tiles = -(-row // block)
        extent = Extent(outer, repeat=tiles)
        writer.line(f"outer = tl.program_id(0) // {tiles}")
        writer.line(f"offs = tl.program_id(0) % {tiles} * {block} + tl.arange(0, {block})")
        inside, there = "", f"offs < {row}"
    for index, part in enumerate(analysis.parts):
        first, size = part.start * inner, part.size * inner
        writer.line(f"mask = (offs >= {first}) & (offs < {first + size}){inside}")
        pointers = f"x{index} + outer * {size} + (offs - {first})"
        writer.line(f"part = tl.load({pointers}, mask=mask, other=0)")
        writer.line("value = tl.where(mask, part, value)" if index else "value = part")
    writer.line(f"tl.store(y0 + outer * {row} + offs, value, mask={there})")
    pointer = POINTERS[ops.element_type(analysis.result)]
    arguments = [(f"x{n}", pointer) for n in range(len(analysis.parts))] + [("y0", pointer)]
    note = f"{len(analysis.parts)} parts, {analysis.outer} times."
    text = text_of(ENTRY, arguments, writer.lines, note)
    return Plan(
        Program(ENTRY, text, tuple(arguments), config.num_warps, 1),
        tuple(part.value for part in analysis.parts),
        (analysis.result,),
        (extent, Extent(1), Extent(1)),
        problem=problem_of(analysis),
    )
