"""Asks the compiler for the instruction sets of a CPU.

The answer is in the description of the target that `iree-compile` writes into a module:

    #hal.executable.target<..., {cpu = "znver4", cpu_features = "+adx,+aes,+avx,...", ...}>
"""

from __future__ import annotations

import functools
import re

from mlirfuse.core import CompileFailedError
from mlirfuse.support import subprocess, temporary
from mlirfuse.targets import cpu_models

LOCAL = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
)
"""Arguments of `iree-compile` for CPUs of any kind."""

SECONDS = 60.0
"""Time limit; the compiler takes half a second."""

_PROGRAM = "func.func @f() { return }"

_CPU = re.compile(r'\bcpu = "([^"]*)"')
_FEATURES = re.compile(r'\bcpu_features = "([^"]*)"')
_ARM = 'target_triple = "aarch64'
"""With NEON, which is a part of the architecture: LLVM does not list it for `generic`."""

_ACCEPTED = re.compile(r"List of accepted CPUs: (.*)")


def flags(name: str, architecture: str) -> tuple[str, ...]:
    """Arguments of `iree-compile` for a CPU.

    Executables of IREE are ELF files with a loader of IREE's own, on every operating system: the
    triple's system does not matter.

    Args:
      name: LLVM's name of the CPU, or `host`.
      architecture: `x86_64` or `aarch64`; empty for this machine's.
    """
    triple = (f"--iree-llvmcpu-target-triple={architecture}-linux-gnu",) if architecture else ()
    return (*LOCAL, *triple, f"--iree-llvmcpu-target-cpu={name}")


class UnknownCpuError(Exception):
    """LLVM has no such name of a CPU.

    Attributes:
      accepted: the names that it has.
    """

    def __init__(self, accepted: tuple[str, ...]) -> None:
        super().__init__(", ".join(accepted))
        self.accepted = accepted


@functools.cache
def ask(name: str, architecture: str) -> tuple[str, tuple[str, ...]]:
    """LLVM's name of a CPU, and its instruction sets among those that kernels may ask for.

    Args:
      name: LLVM's name of the CPU, or `host`.
      architecture: `x86_64` or `aarch64`; empty for this machine's.

    Raises:
      UnknownCpuError: LLVM knows no such CPU.
      CompileFailedError: the compiler cannot be run.
    """
    with temporary.folder("mlirfuse-") as folder:
        output = folder / "described.mlir"
        arguments = ["-", "-o", str(output), *flags(name, architecture)]
        try:
            diagnostics = subprocess.run_tool(
                "iree-compile",
                [*arguments, "--compile-to=preprocessing"],
                stage="target",
                timeout=SECONDS,
                stdin=_PROGRAM.encode(),
            )
            text = output.read_text(encoding="utf-8")
        except CompileFailedError as error:
            if not _ACCEPTED.search(error.diagnostics):
                raise
            diagnostics, text = error.diagnostics, ""
    accepted = _ACCEPTED.search(diagnostics)
    if accepted is not None:
        raise UnknownCpuError(tuple(accepted[1].split(", ")))
    cpu, features = _CPU.search(text), _FEATURES.search(text)
    has = set(features[1].split(",")) if features else set()
    has -= {f"+{feature[1:]}" for feature in has if feature.startswith("-")}
    if _ARM in text:
        has.add("+neon")
    known = tuple(feature for feature in cpu_models.LINUX_NAMES if f"+{feature}" in has)
    return (cpu[1] if cpu else name), known
