"""Contractions whose result is sliced into equal parts along N."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize.epilogue_addends import biases
from mlirfuse.structured.recognize.sibling_contractions import takes_columns


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A contraction whose columns are cut into equal parts.

    Attributes:
      contraction: the contraction.
      chain: the casts and rank-1 biases behind it, in order.
      reshape: what splits its rows behind them, or None.
      slices: the parts, in the order of their columns; nothing else reads the columns.
    """

    contraction: ir.Operation
    chain: tuple[ir.Operation, ...]
    reshape: ir.Operation | None
    slices: tuple[ir.Operation, ...]

    @property
    def ops(self) -> list[ir.Operation]:
        """All of it, in block order."""
        reshape = [] if self.reshape is None else [self.reshape]
        return [self.contraction, *self.chain, *reshape, *slices.in_order(self.slices)]


def split(contraction: ir.Operation) -> Split | NoMatch | None:
    """Finds the equal parts that the contraction's columns are cut into.

    Returns:
      The split, why it is none, or None when the columns are not cut at all.
    """
    chain = biases(contraction)
    value = [contraction, *chain][-1].results[0]
    readers = ops.users(value)
    reshape = None
    if len(readers) == 1 and readers[0].name == "tensor.expand_shape":
        reshape = readers[0]
        value = reshape.results[0]
        if any(ops.shape(value)[d] != 1 for d in ops.reassociation(reshape)[-1][:-1]):
            return None
        readers = ops.users(value)
    if not readers or any(reader.name != "tensor.extract_slice" for reader in readers):
        return None
    *outer, columns = ops.shape(value)
    whole = tuple((0, size) for size in outer)
    places: list[tuple[int, int, ir.Operation]] = []
    for reader in readers:
        cut = ops.static_slice(reader)
        width = None if cut is None else cut[-1][1]
        if cut is None or width is None or columns is None:
            return NoMatch(Reason.DYNAMIC_SHAPE, "a part's place is not static")
        if cut[:-1] != whole:
            return NoMatch(Reason.WRONG_AXIS, "a part has some of the rows")
        if ops.shape(reader.results[0])[-1:] != (width,):
            return NoMatch(Reason.WRONG_AXIS, "a part has no dimension of columns")
        places.append((cut[-1][0], width, reader))
    places.sort(key=lambda place: place[:2])
    assert columns is not None
    expected = range(0, columns, places[0][1])
    if [(o, w) for o, w, _ in places] != [(o, places[0][1]) for o in expected]:
        found = ", ".join(f"{o} to {o + w}" for o, w, _ in places)
        return NoMatch(Reason.SHAPE_MISMATCH, f"of {columns} columns the parts are {found}")
    if not takes_columns(contraction):
        return NoMatch(Reason.INDEXING_MAP, "the columns are not those of the second operand")
    return Split(contraction, tuple(chain), reshape, tuple(reader for *_, reader in places))


def heads(values: Sequence[ir.Value]) -> list[ir.Operation]:
    """The reshapes that split the last dimension of the values in parts of one size.

    Returns:
      One for each value, all that reads it; none when something else reads one of them or the parts
      differ in size.
    """
    readers = [ops.users(value) for value in values]
    if any([op.name for op in found] != ["tensor.expand_shape"] for found in readers):
        return []
    found = [op for (op,) in readers]
    first = found[0]
    split = ops.reassociation(first)
    place = split[-1][0]

    def other_sizes(op: ir.Operation) -> tuple[int | None, ...]:
        sizes = ops.shape(op.results[0])
        return (*sizes[:place], *sizes[place + 1 :])

    same = all(
        ops.reassociation(op) == split and other_sizes(op) == other_sizes(first) for op in found
    )
    static = all(ops.shape(op.results[0])[place] is not None for op in found)
    return found if same and static and len(split[-1]) > 1 else []
