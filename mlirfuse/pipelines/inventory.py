"""The ops of a module by name, so that a pass looks at its roots only.

It is made once and again after each pass that changed something.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable

from iree.compiler import ir

from mlirfuse.structured import ops

Entry = tuple[int, int, ir.Operation]
"""Place in the block, identity, op.

A wrapper of an op that was erased through another wrapper dangles: the identity taken beforehand is
all that may be asked of it.
"""


class Block:
    """The ops of one block."""

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self._named: dict[str, list[Entry]] = {}
        for place, view in enumerate(block.operations):
            op = view.operation
            self._named.setdefault(op.name, []).append((place, hash(op), op))

    def called(self, names: Iterable[str]) -> list[Entry]:
        """The ops of these names, in block order."""
        found = [entry for name in dict.fromkeys(names) for entry in self._named.get(name, ())]
        found.sort(key=operator.itemgetter(0))
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """One function.

    Attributes:
      symbol: its name.
      blocks: those that can hold groups.
    """

    symbol: str
    blocks: tuple[Block, ...]


def functions(module: ir.Module) -> tuple[Function, ...]:
    """What the functions of the module hold."""
    return tuple(
        Function(ops.symbol_name(function), tuple(map(Block, ops.blocks(function))))
        for function in ops.functions(module)
    )
