"""The ops of a module by name, so that a pass looks at its roots only.

It is made once, and taken from there as passes change what the blocks hold.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse.structured.ir import ops

Test = Callable[[ir.Operation], bool]

Entry = tuple[int, int, ir.Operation]
"""Place in the block, identity, op.

A wrapper of an op that was erased through another wrapper dangles: the identity taken beforehand is
all that may be asked of it.
"""


class Block:
    """The ops of one block."""

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.look()

    def look(self) -> None:
        """Looks again at which ops the block holds."""
        self.take([view.operation for view in self.block.operations])

    def take(self, held: Sequence[ir.Operation]) -> None:
        """Says again which ops the block holds, in order."""
        self._named: dict[str, list[Entry]] = {}
        self._asked: dict[tuple[tuple[str, ...], Test], list[Entry]] = {}
        for place, op in enumerate(held):
            self._named.setdefault(op.name, []).append((place, ops.identity(op), op))

    def where(self, names: tuple[str, ...], test: Test) -> list[Entry]:
        """The ops of these names that pass the test, in block order."""
        found = self._asked.get((names, test))
        if found is None:
            named = (entry for name in dict.fromkeys(names) for entry in self._named.get(name, ()))
            found = [entry for entry in named if test(entry[2])]
            found.sort(key=operator.itemgetter(0))
            self._asked[names, test] = found
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
