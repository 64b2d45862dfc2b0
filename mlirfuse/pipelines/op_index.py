"""The ops of a module by name, so that a pass looks at its roots only.

The index is made once, and again for each block that a pass has changed.
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

A wrapper of an op that was erased through another wrapper dangles: only the identity, which is
stored, may be read then.
"""


class Block:
    """The ops of one block."""

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.refresh()

    def refresh(self) -> None:
        """Reads the ops of the block again."""
        self.set([view.operation for view in self.block.operations])

    def set(self, held: Sequence[ir.Operation]) -> None:
        """Sets the ops of the block, in order."""
        self._named: dict[str, list[tuple[int, ir.Operation]]] = {}
        self._found: dict[tuple[tuple[str, ...], Test], list[Entry]] = {}
        for place, op in enumerate(held):
            # One of assertions alone computes nothing: ONNX's losses have it.
            name = op.name
            if name == "linalg.generic" and not op.results:
                continue
            self._named.setdefault(name, []).append((place, op))

    def where(self, names: tuple[str, ...], test: Test) -> list[Entry]:
        """The ops of these names that pass the test, in block order."""
        found = self._found.get((names, test))
        if found is None:
            found = [
                (place, ops.identity(op), op)
                for name in dict.fromkeys(names)
                for place, op in self._named.get(name, ())
                if test(op)
            ]
            found.sort(key=operator.itemgetter(0))
            self._found[names, test] = found
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
    """The index of each function of the module."""
    return tuple(
        Function(ops.symbol_name(function), tuple(map(Block, ops.blocks(function))))
        for function in ops.functions(module)
    )
