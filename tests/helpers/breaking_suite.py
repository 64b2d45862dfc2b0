"""A suite with cases that end their process or break its device, and without any program."""

import os

from benchmarks.conformance.suite import Case, NotExportedError, Program

BAD = "1"
"""Index of the bad case of a group; it has four."""


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
