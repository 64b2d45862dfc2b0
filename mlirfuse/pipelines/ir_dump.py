"""Files of `--dump-ir-dir`: the IR before and after each pass that changed it."""

from __future__ import annotations

from pathlib import Path

from iree.compiler import ir


class IrDump:
    """Writes `NNN_PASS_before.mlir` and `NNN_PASS_after.mlir` into a folder, or nothing."""

    def __init__(self, folder: Path | None) -> None:
        """A dump.

        Args:
          folder: an existing directory; None to write nothing.
        """
        self._folder = folder
        self._count = 0

    def text(self, module: ir.Module) -> str:
        """The text of the module without its data; empty where nothing is written."""
        if self._folder is None:
            return ""
        asm = module.operation.get_asm(large_elements_limit=16, large_resource_limit=64)
        return str(asm)

    def write(self, name: str, before: str, after: str) -> None:
        """Writes the texts before and after a pass."""
        if self._folder is None:
            return
        for moment, text in (("before", before), ("after", after)):
            path = self._folder / f"{self._count:03d}_{name}_{moment}.mlir"
            path.write_text(text, encoding="utf-8")
        self._count += 1
