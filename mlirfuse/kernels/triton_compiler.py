"""Builds the kernels of plans with Triton, each in a process of its own and once in this one."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mlirfuse.core import CompileFailedError, NoMatch, Reason
from mlirfuse.kernels.plan import ALIGNMENT, Kernel, Program
from mlirfuse.support import temporary
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture under Triton's names.

    Attributes:
      backend: Triton's name of the vendor.
      name: the compute capability as a number, or LLVM's name of the processor.
      subgroup: threads of a warp.
      suffix: suffix of files with its object code.
    """

    backend: str
    name: int | str
    subgroup: int
    suffix: str


ARCHITECTURES = {
    **{f"sm_{n}": Architecture("cuda", n, 32, "ptx") for n in (80, 86, 89, 90)},
    "gfx942": Architecture("hip", "gfx942", 64, "hsaco"),
}
"""Architectures that kernels are built for."""

HOPPER = "sm_90"
"""The architecture with asynchronous matmuls and thread block clusters."""

CHANNELS_LAST = (
    "--iree-preprocessing-pass-pipeline=builtin.module("
    "util.func(iree-preprocessing-convert-conv-to-channels-last))",
    "--iree-global-opt-propagate-transposes-through-conv",
)
"""Flags of the first phase: an image with channels last is K-contiguous in an implicit GEMM. The
transposes move to the ends of the program, through poolings too."""

BUILD_SECONDS = 300
"""Time limit of building one kernel; matmul kernels take two to five seconds."""


_GLUON = (3, 9)
"""The first version of Triton whose Gluon has all that the `sm90` modules of `device` import."""


def has_gluon() -> bool:
    """Whether kernels in Gluon can be built by the Triton that is installed."""
    try:
        major, minor, *_ = version("triton").split(".")
    except PackageNotFoundError:
        return False
    return (int(major), int(minor)) >= _GLUON


def supports(target: Target) -> bool:
    """Whether kernels can be built for a target."""
    return target.name in ("cuda", "rocm") and target.arch in ARCHITECTURES


def missing() -> NoMatch | None:
    """The refusal when the provider's package is not installed."""
    if importlib.util.find_spec("triton") is None:
        return NoMatch(
            Reason.TARGET_UNSUPPORTED, "triton is not installed: pip install 'mlirfuse[cuda]'"
        )
    return None


@functools.lru_cache(maxsize=256)
def build(program: Program, arch: str) -> Kernel:
    """Compiles a program for one architecture.

    Args:
      program: the program.
      arch: a key of `ARCHITECTURES`.

    Raises:
      CompileFailedError: Triton refused the kernel, died, or ran out of time.
    """
    with temporary.folder("mlirfuse-kernel-") as folder:
        known = ARCHITECTURES[arch]
        output = Path(folder, f"kernel.{known.suffix}")
        tensors = sum(kind.startswith("*") for _, kind in program.arguments)
        request = {
            "entry": program.entry,
            "source": program.source,
            "arguments": program.arguments,
            "alignments": program.alignments or [ALIGNMENT] * tensors,
            "warps": program.num_warps,
            "stages": program.num_stages,
            "cluster": program.cluster_size,
            "registers": program.max_registers,
            "backend": known.backend,
            "arch": known.name,
            "subgroup": known.subgroup,
            "output": str(output),
        }
        built = json.loads(_run(json.dumps(request), str(folder)))
        threads = built["warps"] * known.subgroup
        code, shared = output.read_bytes(), int(built["shared"])
        declared = sum(int(size) for size in re.findall(rb"\.shared [^;\n]*\[(\d+)\];", code))
        return Kernel(code, (threads, 1, 1), shared, known.suffix, declared)


def _run(request: str, folder: str) -> str:
    # Triton's interpreter, when this process uses it, is not for the one that compiles.
    environment = {name: v for name, v in os.environ.items() if name != "TRITON_INTERPRET"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mlirfuse.kernels.triton_worker"],
            input=request,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            cwd=folder,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CompileFailedError(
            f"triton ran out of time after {BUILD_SECONDS} s", stage="kernel"
        ) from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines()]
        # Triton's messages end with the source and a caret under it.
        named = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
        message = (named or [line for line in lines if line] or ["no diagnostics"])[0][:300]
        raise CompileFailedError(
            f"triton could not build the kernel: {message}",
            stage="kernel",
            returncode=done.returncode,
            diagnostics=done.stderr,
        )
    return done.stdout
