"""A suite with cases that end their process or break its device, and without any program."""

import os
from pathlib import Path

from benchmarks.conformance.suite import Case, NotExportedError, Program

BAD = "1"
"""Index of the bad case of a group; it has four."""

TRIED = "CASES_TRIED"
"""Environment variable with the name of the file that `Alone` writes."""


class Breaking:
    """Groups by what the bad case does."""

    name = "breaking"
    merges = True

    def __init__(self):
        self._broken = False

    def groups(self):
        return ["breaks", "dies", "plain"]

    def cases(self, group):
        return [
            Case(name=f"{group}/float32/{i}", arguments=(), expected=(), rtol=0, atol=0)
            for i in range(4)
        ]

    def program(self, cases) -> Program:
        bad = {case.group for case in cases if case.name.endswith(BAD)}
        if "dies" in bad:
            os._exit(3)
        self._broken |= "breaks" in bad
        if self._broken:
            raise RuntimeError("ABORTED; CUDA error 'CUDA_ERROR_MISALIGNED_ADDRESS' (716)")
        raise NotExportedError("there is no program")

    def stock(self, cases, folder):
        raise NotImplementedError


class Alone(Breaking):
    """The same suite where each case is a program of its own; a file lists the cases tried."""

    name = "alone"
    merges = False

    def program(self, cases) -> Program:
        with Path(os.environ[TRIED]).open("a") as file:
            file.writelines(f"{case.name}\n" for case in cases)
        return super().program(cases)
