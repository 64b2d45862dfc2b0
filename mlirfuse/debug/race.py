"""The fastest calls of programs that take turns: a bisection asks for a factor far above noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlirfuse.runtime import isolated
from mlirfuse.runtime.inputs import Array
from mlirfuse.runtime.isolated import Signature

if TYPE_CHECKING:
    from mlirfuse.backend.compiler import Compiler

MIN_CALLS = 10
"""Minimum number of timed calls in a process; the fastest counts."""

MIN_SECONDS = 0.05
"""Minimum total time of the calls in a process: short programs are called more often."""

MAX_CALLS = 2000
"""Maximum number of timed calls in a process."""

ROUNDS = 3
"""Processes in which each program is timed, in turns."""


def race(
    programs: Sequence[Path], inputs: Sequence[Array], signature: Signature, compiler: Compiler
) -> list[float]:
    """Times of the fastest call of each program, in seconds; the programs take turns.

    Args:
      programs: programs of the same signature.
      inputs: arguments of the calls.
      signature: the function that is called.
      compiler: compiler of the programs, for its device and time limit.

    Raises:
      CompileFailedError: in stage `run`: a program failed, crashed or ran out of time.
    """
    fastest = [float("inf")] * len(programs)
    repeat = MIN_CALLS
    for _ in range(ROUNDS):
        for index, program in enumerate(programs):
            called = isolated.call(
                program,
                inputs,
                signature=signature,
                device=compiler.target.device,
                timeout=compiler.timeout,
                repeat=repeat,
            )
            fastest[index] = min(fastest[index], *called.seconds)
        wanted = math.ceil(MIN_SECONDS / max(*fastest, MIN_SECONDS / MAX_CALLS))
        repeat = max(MIN_CALLS, wanted)
    return fastest
