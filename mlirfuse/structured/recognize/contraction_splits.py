"""Contractions whose result is sliced into equal parts along N."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize.epilogue_addends import biases
from mlirfuse.structured.recognize.sibling_contractions import has_plain_n


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A contraction whose N dimension is sliced into equal parts.

    Attributes:
      contraction: the contraction.
      chain: casts and rank-1 biases after it, in order.
      reshape: an expand of its M dimension after the chain, or None.
      slices: the slices, by offset; they are the only users.
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
    """Recognizes a contraction whose N dimension is sliced into equal parts.

    Returns:
      The split; a refusal; None when the result is not sliced.
    """
    chain = biases(contraction)
    value = [contraction, *chain][-1].results[0]
    users = ops.users(value)
    reshape = None
    if len(users) == 1 and users[0].name == "tensor.expand_shape":
        reshape = users[0]
        value = reshape.results[0]
        if any(ops.shape(value)[d] != 1 for d in ops.reassociation(reshape)[-1][:-1]):
            return None
        users = ops.users(value)
    if not users or any(user.name != "tensor.extract_slice" for user in users):
        return None
    *outer, n = ops.shape(value)
    whole = tuple((0, size) for size in outer)
    parts: list[tuple[int, int, ir.Operation]] = []
    for user in users:
        cut = ops.static_slice(user)
        width = None if cut is None else cut[-1][1]
        if cut is None or width is None or n is None:
            return NoMatch(Reason.DYNAMIC_SHAPE, "a slice is not static")
        if cut[:-1] != whole:
            return NoMatch(Reason.WRONG_AXIS, "a slice has a part of M")
        if ops.shape(user.results[0])[-1:] != (width,):
            return NoMatch(Reason.WRONG_AXIS, "a slice drops the N dimension")
        parts.append((cut[-1][0], width, user))
    parts.sort(key=lambda part: part[:2])
    assert n is not None
    expected = range(0, n, parts[0][1])
    if [(o, w) for o, w, _ in parts] != [(o, parts[0][1]) for o in expected]:
        found = ", ".join(f"{o} to {o + w}" for o, w, _ in parts)
        return NoMatch(Reason.SHAPE_MISMATCH, f"N is {n}, the slices are {found}")
    if not has_plain_n(contraction):
        return NoMatch(Reason.INDEXING_MAP, "N is not a dimension of the second operand alone")
    return Split(contraction, tuple(chain), reshape, tuple(user for *_, user in parts))


def head_splits(values: Sequence[ir.Value]) -> list[ir.Operation]:
    """The expands that split the last dimension of each value into heads of one size.

    Returns:
      The only user of each value; none when a value has other users or the head sizes differ.
    """
    users = [ops.users(value) for value in values]
    if any([op.name for op in found] != ["tensor.expand_shape"] for found in users):
        return []
    found = [op for (op,) in users]
    first = found[0]
    split = ops.reassociation(first)
    axis = split[-1][0]

    def other_sizes(op: ir.Operation) -> tuple[int | None, ...]:
        sizes = ops.shape(op.results[0])
        return (*sizes[:axis], *sizes[axis + 1 :])

    same = all(
        ops.reassociation(op) == split and other_sizes(op) == other_sizes(first) for op in found
    )
    static = all(ops.shape(op.results[0])[axis] is not None for op in found)
    return found if same and static and len(split[-1]) > 1 else []
