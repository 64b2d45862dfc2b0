"""Reductions of all columns of each row of a tile, in the scalar body of an op and as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.combiners import (
    COMBINERS,
    Combiner,
    combined_with_init,
    neutral_tile,
)
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import Axis, Conflict
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction of all columns of each row.

    Attributes:
      combine: the combining op in the scalar body.
      term: the value that it combines with the accumulator.
      init: the accumulator's first value.
    """

    combine: ir.Operation
    term: ir.Value
    init: float | int

    @property
    def combiner(self) -> Combiner:
        """The forms of the combining op."""
        return COMBINERS[self.combine.name]


def reduces(op: ir.Operation) -> bool:
    """Whether an op has a reduction loop."""
    return "reduction" in ops.iterator_types(op)


def read(op: ir.Operation, axes: Sequence[Axis], columns: Sequence[Axis]) -> Reduction:
    """Reads a reduction.

    Args:
      op: the op.
      axes: the axis of each of its loops.
      columns: the axes of the columns.

    Raises:
      Conflict: it does not reduce just the columns.
      Unsupported: there is no kernel for it.
    """
    kinds = zip(axes, ops.iterator_types(op), strict=True)
    if sorted(axis for axis, kind in kinds if kind == "reduction") != sorted(columns):
        raise Conflict
    block = ops.body(op)
    last = list(block.operations)[-1].operation
    combined = [v.owner.operation for v in last.operands if not isinstance(v.owner, ir.Block)]
    accumulator = block.arguments[ops.num_inputs(op)]
    if len(op.results) != 1 or len(combined) != 1 or combined[0].name not in COMBINERS:
        raise Unsupported(f"the reduction of {ops.described(op)}")
    terms = [value for value in combined[0].operands if value != accumulator]
    if len(terms) != 1 or len(list(accumulator.uses)) != 1:
        raise Unsupported(f"the reduction of {ops.described(op)}")
    init = ops.constant(op.operands[ops.num_inputs(op)])
    if init is None:
        raise Unsupported(f"the init of {ops.described(op)}, which is no constant")
    COMBINERS[combined[0].name].accumulator(ops.element_type(op.results[0]))
    return Reduction(combined[0], terms[0], init)


def term(tiles: Tiles, op: ir.Operation, reduction: Reduction) -> str:
    """The tile that a reduction combines with its accumulator, in the accumulator's type."""
    known = tiles.body.block(
        ops.body(op),
        [*tiles.arguments(op)[: ops.num_inputs(op)], None],
        lambda loop: tiles.index(op, loop),
        [reduction.combine],
    )
    element = ops.element_type(op.results[0])
    return reduction.combiner.widened(known[reduction.term], element)


def write(
    tiles: Tiles,
    op: ir.Operation,
    reduction: Reduction,
    mask: str,
    all_reduce: Callable[[str, str], str] | None = None,
) -> None:
    """Writes a reduction of tiles that have all columns of their rows.

    Args:
      tiles: the lines.
      op: the op.
      reduction: what it reduces.
      mask: the columns that there are; empty for all.
      all_reduce: the reduction over CTAs that share rows, of a text by a combiner's `cluster`.
    """
    combiner, element = reduction.combiner, ops.element_type(op.results[0])
    text = term(tiles, op, reduction)
    if mask:
        text = f"tl.where({mask}, {text}, {neutral_tile(combiner, element)})"
    text = combiner.tile.format(text)
    if all_reduce is not None:
        # The CTAs of a cluster exchange f32.
        narrow = combiner.accumulator(element) == "tl.float64"
        text = all_reduce(f"({text}).to(tl.float32)" if narrow else text, combiner.cluster)
    text = combined_with_init(combiner, reduction.init, text, element, tiles.body.types)
    tiles.define(op.results[0], tiles.body.name(text))
