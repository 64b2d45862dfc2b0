"""The answer to `--version`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class ShowVersion(argparse.Action):
    """Prints the versions of mlirfuse and IREE, and stops; looks them up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version, then stop")

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Prints one line for mlirfuse and one for IREE's compiler."""
        from importlib.metadata import version

        print(f"{parser.prog} {version('mlirfuse')} (IREE {version('iree-base-compiler')})")
        parser.exit()
