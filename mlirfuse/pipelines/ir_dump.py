"""The IR before and after passes: files of a folder, and texts as `mlir-opt` prints them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from iree.compiler import ir

ALL = "*"
"""The name that stands for every pass."""


@dataclasses.dataclass(frozen=True, slots=True)
class Printing:
    """The IR around passes as text, under a line that names the pass.

    Attributes:
      write: takes each text.
      before: names of the passes before which it is printed; `ALL` among them for every one.
      after: names of the passes after which it is printed.
    """

    write: Callable[[str], object]
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()


class IrDump:
    """Writes `NNN_PASS_before.mlir` and `NNN_PASS_after.mlir` into a folder, and prints."""

    def __init__(self, folder: Path | None, printing: Printing | None = None) -> None:
        """A dump.

        Args:
          folder: an existing directory; None to write nothing.
          printing: the texts to print; None for none.
        """
        self._folder = folder
        self._printing = printing
        self._count = 0

    def before(self, name: str, module: ir.Module) -> str:
        """Prints the module before a pass; returns its text, which is empty without a folder."""
        printing = self._printing
        if printing is not None and {name, ALL} & printing.before:
            self._print("Before", name, module)
        return "" if self._folder is None else _text(module)

    def after(self, name: str, module: ir.Module, before: str, *, changed: bool = True) -> None:
        """Prints the module after a pass, and writes the files where its text is another one.

        Args:
          name: name of the pass.
          module: the module.
          before: result of `before`.
          changed: whether the pass may have changed something.
        """
        printing = self._printing
        if printing is not None and {name, ALL} & printing.after:
            self._print("After", name, module)
        if self._folder is None or not changed:
            return
        after = _text(module)
        if before == after:
            return
        for moment, text in (("before", before), ("after", after)):
            path = self._folder / f"{self._count:03d}_{name}_{moment}.mlir"
            path.write_text(text, encoding="utf-8")
        self._count += 1

    def _print(self, moment: str, name: str, module: ir.Module) -> None:
        assert self._printing is not None
        self._printing.write(
            f"// -----// IR Dump {moment} {name} //----- //\n{_text(module).rstrip()}\n\n"
        )


def _text(module: ir.Module) -> str:
    """The text of a module without its data."""
    return str(module.operation.get_asm(large_elements_limit=16, large_resource_limit=64))
