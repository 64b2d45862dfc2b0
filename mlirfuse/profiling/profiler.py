"""Profiles a function of a program on its device."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mlirfuse import targets
from mlirfuse.core import UsageError
from mlirfuse.final_kernels import FinalKernel
from mlirfuse.profiling import cuda_capture, iree_capture, rates, summary
from mlirfuse.profiling.capture import CALLS, WARMUP
from mlirfuse.profiling.iree_capture import Argument
from mlirfuse.profiling.result import Profile
from mlirfuse.support import temporary
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A function of a program.

    Attributes:
      source: file name or model name.
      program: writes the program to a path.
      function: name of the function.
      device: URI of the device.
      target: the target's spelling; `unknown` where it is not known.
      parameters: scope -> archive of the program's parameters.
      kernels: its kernels, in the order of their dispatches; none if not known.
      call: calls the program once in this process, with the same arguments, and waits.
    """

    source: str
    program: Callable[[Path], None]
    function: str
    device: str
    target: str
    parameters: Mapping[str, str | os.PathLike[str]]
    kernels: Sequence[FinalKernel]
    call: Callable[[], object]


def profile(
    subject: Subject,
    arguments: Sequence[Argument],
    *,
    calls: int = CALLS,
    warmup: int = WARMUP,
    threads: int | None = None,
    timeout: float | None = None,
) -> Profile:
    """Calls the function and measures its kernels.

    Args:
      subject: the function.
      arguments: of every call.
      calls: calls that are measured.
      warmup: calls before them.
      threads: threads of the CPU; None for IREE's choice.
      timeout: seconds for all calls; None for no limit.

    Raises:
      UsageError: a number is not positive, or threads are given for another device than a CPU.
      ProfileError: the device cannot be profiled.
      CompileFailedError: in stage `run`: the program failed.
    """
    for name, value in (("calls", calls), ("threads", threads)):
        if value is not None and value < 1:
            raise UsageError(f"{name}={value} is not a number from 1")
    if threads is not None and not subject.device.startswith("local-task"):
        raise UsageError(f"threads={threads} is for device local-task, not '{subject.device}'")
    if subject.device.startswith("cuda"):
        found = cuda_capture.capture(subject.call, subject.device, calls=calls, warmup=warmup)
    else:
        with temporary.folder("mlirfuse-profiled-") as folder:
            program = folder / "program.vmfb"
            subject.program(program)
            found = iree_capture.capture(
                program,
                subject.function,
                arguments,
                device=subject.device,
                threads=threads,
                calls=calls,
                warmup=warmup,
                parameters=subject.parameters,
                timeout=timeout,
            )
    used = rates.of(_target(subject.target), subject.device, threads)
    return summary.profile(subject.source, subject.function, found, subject.kernels, used)


def _target(spelled: str) -> Target | None:
    return None if spelled == "unknown" else targets.parse(spelled)
