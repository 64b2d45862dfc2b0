"""The tensors that the dispatches of a function exchange, through reshapes and control flow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from iree.compiler import ir

from mlirfuse.structured.ir import ops

LOOP = "loop"
"""In `Exchange.through`: a loop or branch."""

_Origins = dict[tuple[int, ir.Value], frozenset[str]]
"""Dispatch and its result -> names of the ops that the result went through."""


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """A tensor that one dispatch writes and another one reads.

    Attributes:
      source: index of the first dispatch.
      target: index of the second one.
      shape: sizes of the tensor as it is written; None for a dynamic one.
      dtype: element type.
      bytes: size; None where a dimension is dynamic.
      through: names of the ops between the two, and `LOOP`.
      users: number of dispatches that read a result of the first one.
    """

    source: int
    target: int
    shape: tuple[int | None, ...]
    dtype: str
    bytes: int | None
    through: frozenset[str]
    users: int


def between(function: ir.Operation, indices: Mapping[ir.Operation, int]) -> list[Exchange]:
    """The exchanges of a function.

    Args:
      function: a function after the flow phase.
      indices: index of each of its dispatches.
    """
    walk = _Walk(indices)
    for block in function.regions[0].blocks:
        walk.block(block)
    users: dict[int, set[int]] = {}
    for source, target, _ in walk.found:
        users.setdefault(source, set()).add(target)
    return [
        _exchange(source, target, value, through, len(users[source]))
        for (source, target, value), through in walk.found.items()
    ]


def _exchange(
    source: int, target: int, value: ir.Value, through: frozenset[str], users: int
) -> Exchange:
    shape = ops.shape(value)
    size = None if None in shape else ops.num_bytes(value)
    return Exchange(source, target, shape, ops.element_type(value), size, through, users)


class _Walk:
    def __init__(self, indices: Mapping[ir.Operation, int]) -> None:
        self.indices = indices
        self.origins: dict[ir.Value, _Origins] = {}
        self.found: dict[tuple[int, int, ir.Value], frozenset[str]] = {}

    def block(self, block: ir.Block) -> None:
        for view in block.operations:
            self.op(view.operation)

    def op(self, op: ir.Operation) -> None:
        used = self.sources(op.operands)
        index = self.indices.get(op)
        if index is not None:
            for (source, value), through in used.items():
                key = (source, index, value)
                self.found[key] = self.found.get(key, frozenset()) | through
            for value in op.results:
                self.origins[value] = {(index, value): frozenset()}
        elif len(op.regions) > 0:
            self.control_flow(op, used)
        elif len(op.successors) > 0:
            for successor in op.successors:
                self.define(successor.arguments, used, LOOP)
        else:
            self.define(op.results, used, op.name)

    def control_flow(self, op: ir.Operation, used: _Origins) -> None:
        """Lets results of a loop or branch depend on all that goes in or is yielded."""
        for region in op.regions:
            for block in region.blocks:
                self.define(block.arguments, used, LOOP)
                self.block(block)
                last = block.operations[len(block.operations) - 1].operation
                used = _merged(used, self.sources(last.operands))
        self.define(op.results, used, LOOP)

    def define(self, values: Iterable[ir.Value], used: _Origins, through: str) -> None:
        for value in values:
            if ops.ranked(value) is not None:
                passed = {key: names | {through} for key, names in used.items()}
                self.origins[value] = _merged(self.origins.get(value, {}), passed)

    def sources(self, values: Iterable[ir.Value]) -> _Origins:
        used: _Origins = {}
        for value in values:
            if ops.ranked(value) is not None:
                used = _merged(used, self.origins.get(value, {}))
        return used


def _merged(one: _Origins, other: _Origins) -> _Origins:
    return {key: one.get(key, frozenset()) | other.get(key, frozenset()) for key in (*one, *other)}
