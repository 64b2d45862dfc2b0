"""Selects the first elements of long chunks: a CTA walks along its chunk, and keeps candidates.

    for each tile: least = minimum(least, tile), element by element
    limit = the last of the first elements of `least`, of which each is the least one of a part
    for each tile: candidates += elements up to the limit
                   where there are more than a tile has: candidates = the first of them

The elements of `least` are of the chunk: as many as are selected are not behind the limit. Of a
chunk in random order few others are, and both networks that run have few elements. Where many
elements of a chunk are selected, only the candidates lower the limit. These are in memory of the
CTA's own, behind the results, from where the network loads them.
"""

from __future__ import annotations

from mlirfuse.kernels.codegen.element_types import POINTERS
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.kernels.sort.analysis import SortAnalysis, index_bits, packed_bits
from mlirfuse.kernels.sort.keys import loaded_keys
from mlirfuse.kernels.sort.problem import SortConfig
from mlirfuse.kernels.sort.runs import Runs, first_candidates
from mlirfuse.structured.ir import ops

ENTRY = "sort_selection_kernel"


def plan(analysis: SortAnalysis, config: SortConfig, runs: Runs) -> Plan:
    """Plans the kernel that selects the first elements of each chunk.

    Its scratch has them, as keys with the indices of their columns, and the candidates.

    Args:
      analysis: the sort.
      config: its chunks, which have several tiles, and whose runs are at most half of one.
      runs: the first elements of the chunks.
    """
    tile, kind = config.tile_columns, f"i{packed_bits(analysis.key_bits, analysis.columns)}"
    source = analysis.order.source
    arguments = (
        ("x0", POINTERS[ops.element_type(source)]),
        ("y0", f"*{kind}"),
        ("y1", f"*{kind}"),
    )
    lines = _lines(analysis, config, runs, kind)
    note = f"The first {runs.length} of {config.chunk_columns} columns, {tile} at a time."
    text = text_of(ENTRY, arguments, lines, note)
    ctas = analysis.rows * runs.count
    return Plan(
        Program(ENTRY, text, arguments, config.num_warps, num_stages=1),
        (source,),
        (),
        (Extent(ctas), Extent(1), Extent(1)),
        scratch=(
            (Extent(analysis.rows), Extent(runs.total)),
            (Extent(ctas), Extent(2 * tile)),
        ),
        scratch_types=(kind, kind),
    )


def _lines(analysis: SortAnalysis, config: SortConfig, runs: Runs, kind: str) -> list[str]:
    """The body of the kernel."""
    tile, chunk = config.tile_columns, config.chunk_columns
    kept, most = max(2, power_of_two(runs.length)), 2 ** (int(kind[1:]) - 1) - 1
    writer = Writer()
    writer.write(
        [
            f"row = tl.program_id(0) // {runs.count} + tl.arange(0, 1)[:, None]",
            f"chunk = tl.program_id(0) % {runs.count}",
            f"candidates = y1 + tl.program_id(0).to(tl.int64) * {2 * tile}",
            f"place = tl.arange(0, {kept})[None, :]",
            "filled = tl.program_id(0) * 0",
            f"limit = filled.to(tl.int{kind[1:]}) + {most}",
        ]
    )
    keys = [
        f"column = chunk * {chunk} + start + tl.arange(0, {tile})[None, :]",
        *loaded_keys(analysis),
        f"packed = key.to(tl.int{kind[1:]}) * {1 << index_bits(analysis.columns)} + column",
    ]
    # A number: a tile would have a layout of the network, which all tiles then are converted to.
    last = f"tl.sum(tl.sum(tl.where(place == {runs.length - 1}, best, 0), 1), 0)"
    last = f"{last}.to(tl.int{kind[1:]})"
    few = first_candidates(runs.length, tile)
    if few:
        writer.line(f"least = tl.full([1, {tile}], {most}, tl.int{kind[1:]})")
        with writer.indented(f"for start in range(0, {chunk}, {tile}):"):
            writer.write(keys)
            writer.line(f"least = tl.minimum(least, tl.where(inside, packed, {most}))")
        parts = f"tl.reshape(least, [1, {tile // few}, {few}])"
        writer.line(f"least = tl.reduce({parts}, 1, library.lesser)")
        writer.write([f"best = ~tl.topk(~least, {kept})", f"limit = {last}"])
    with writer.indented(f"for start in range(0, {chunk}, {tile}):"):
        writer.write(keys)
        writer.line("candidate = (inside & (packed <= limit)).to(tl.int32)")
        writer.line("count = tl.sum(tl.sum(candidate, 1), 0)")
        with writer.indented("if count > 0:"):
            writer.line("free = filled + tl.cumsum(candidate, 1) - 1")
            writer.line("tl.store(candidates + free, packed, mask=candidate > 0)")
            writer.line("filled += count")
            with writer.indented(f"if filled > {tile}:"):
                writer.write(["tl.debug_barrier()", *_first(2 * tile, kept, most)])
                # All threads have loaded before any stores in the same place.
                writer.line("tl.debug_barrier()")
                writer.line("tl.store(candidates + place, best)")
                writer.line(f"filled = tl.minimum(filled, {kept})")
                writer.line(f"limit = {last}")
    writer.line("tl.debug_barrier()")
    if few:
        with writer.indented(f"if filled <= {few}:"):
            writer.write(_first(few, kept, most))
        with writer.indented("else:"):
            writer.write(_first(2 * tile, kept, most))
    else:
        writer.write(_first(2 * tile, kept, most))
    writer.write(
        [
            f"length = tl.where(chunk < {runs.count - 1}, {runs.length}, {runs.last})",
            f"run = y0 + row * {runs.total} + chunk * {runs.length}",
            "tl.store(run + place, best, mask=place < length)",
        ]
    )
    return writer.lines


def _first(slots: int, kept: int, most: int) -> list[str]:
    """The lines that take the first elements of candidates, of so many at most."""
    slot = f"tl.arange(0, {slots})[None, :]"
    return [
        f"held{slots} = tl.load(candidates + {slot}, mask={slot} < filled, other={most})",
        f"best = ~tl.topk(~held{slots}, {kept})",
    ]
