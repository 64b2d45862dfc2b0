"""The suites by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from benchmarks.suites.suite import Suite

NAMES = ("main", "compile_time", "gpu")


class _Suites(Mapping[str, Suite]):
    """Loads suites on demand: the GPU suite runs on machines without IREE's compiler."""

    def __getitem__(self, name: str) -> Suite:
        if name not in NAMES:
            raise KeyError(name)
        found: Suite = importlib.import_module(f"benchmarks.suites.{name}").SUITE
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


SUITES: Mapping[str, Suite] = _Suites()
