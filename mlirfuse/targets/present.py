"""The GPU of this machine, as the driver's tool describes it."""

from __future__ import annotations

import functools
import logging
import shutil
import subprocess
from collections.abc import Iterable

SECONDS = 20.0
"""Time limit of `nvidia-smi`, which takes half a second."""

_log = logging.getLogger("mlirfuse")


def newest_up_to(major: int, minor: int, known: Iterable[str]) -> str | None:
    """The newest of these architectures whose code a GPU of this compute capability runs.

    Args:
      major: first number of the compute capability.
      minor: its second number.
      known: architectures, `sm_80`.

    Returns:
      None where all of them are newer.
    """
    numbers = [int(arch.removeprefix("sm_")) for arch in known]
    older = [number for number in numbers if number <= 10 * major + minor]
    return f"sm_{max(older)}" if older else None


@functools.cache
def cuda_arch(known: tuple[str, ...], otherwise: str) -> str:
    """The architecture for the first NVIDIA GPU of this machine.

    Args:
      known: the architectures that there is code for.
      otherwise: the one to take without a GPU, with a note once in a process.
    """
    found = _capability()
    arch = None if found is None else newest_up_to(*found, known)
    if arch is None:
        _log.warning(
            "target 'cuda': there is no GPU here that it could mean, so the program is for %s;"
            " 'cuda:ARCH' names another one",
            otherwise,
        )
        return otherwise
    return arch


def _capability() -> tuple[int, int] | None:
    """Compute capability of the first NVIDIA GPU; None without one."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        major, minor = done.stdout.split()[0].split(".")
        return int(major), int(minor)
    except (OSError, subprocess.TimeoutExpired, IndexError, ValueError):
        return None
