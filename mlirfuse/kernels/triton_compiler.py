"""Builds the kernels of plans with Triton: several at a time, and each once on this machine."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mlirfuse.core import CompileFailedError, NoMatch, Reason
from mlirfuse.kernels import build_server
from mlirfuse.kernels.plan import ALIGNMENT, Kernel, Program
from mlirfuse.support import temporary
from mlirfuse.support.disk_cache import Cache
from mlirfuse.support.stages import Counted
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

CHANNELS_LAST = (
    "--iree-preprocessing-pass-pipeline=builtin.module("
    "util.func(iree-preprocessing-convert-conv-to-channels-last))",
    "--iree-global-opt-propagate-transposes-through-conv",
)
"""Flags of the first phase: an image with channels last is K-contiguous in an implicit GEMM. The
transposes move to the ends of the program, through poolings too."""

BUILD_SECONDS = 300
"""Time limit of building one kernel; matmul kernels take two to five seconds."""


_GLUON = (3, 6)
"""The first version of Triton whose Gluon has all that the modules of `device` need."""


@functools.cache
def has_gluon() -> bool:
    """Whether kernels in Gluon can be built by the Triton that is installed."""
    try:
        major, minor, *_ = version("triton").split(".")
    except PackageNotFoundError:
        return False
    return (int(major), int(minor)) >= _GLUON


def supports(target: Target) -> bool:
    """Whether kernels can be built for a target, by a machine that has Triton."""
    return target.name in ("cuda", "rocm") and target.arch in ARCHITECTURES


def available(target: Target) -> bool:
    """Whether kernels can be built for a target on this machine."""
    return supports(target) and missing() is None


def missing() -> NoMatch | None:
    """The refusal when the provider's package is not installed."""
    if importlib.util.find_spec("triton") is None:
        return NoMatch(
            Reason.TARGET_UNSUPPORTED, "triton is not installed: pip install 'mlirfuse[cuda]'"
        )
    return None


MAX_KERNELS = 1024
"""Kernels that this process keeps; the least recently asked for goes first."""

CACHE_FORMAT = 1
"""Part of every key of the cache of kernels: raised when its files change their meaning."""

_built: collections.OrderedDict[tuple[Program, str], Future[Kernel]] = collections.OrderedDict()
_lock = threading.Lock()

_building = Counted("building kernels")


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Threads that wait for builds: one for each core."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="mlirfuse-kernels")


def forget() -> None:
    """Forgets the kernels of this process; those on disk stay."""
    _pool.cache_clear()
    with _lock:
        _built.clear()


if hasattr(os, "register_at_fork"):
    # A fork has none of the threads.
    os.register_at_fork(after_in_child=forget)


def sources() -> dict[bytes, str]:
    """Object code of each kernel that this process has built -> the Python module that defines it.

    Kernels of one family have one name.
    """
    with _lock:
        built = [(program, future) for (program, _), future in _built.items() if future.done()]
    return {
        future.result().code: program.source
        for program, future in built
        if not future.cancelled() and future.exception() is None
    }


def prefetch(programs: Iterable[Program], arch: str) -> None:
    """Begins to build programs, several at a time, for `build` to find them."""
    for program in programs:
        _future(program, arch)


def build(program: Program, arch: str) -> Kernel:
    """Compiles a program for one architecture, or finds it in the cache on disk.

    Args:
      program: the program.
      arch: a key of `ARCHITECTURES`.

    Raises:
      CompileFailedError: Triton refused the kernel, died, or ran out of time.
    """
    try:
        return _future(program, arch).result()
    except BaseException as error:
        # Triton refuses a kernel again; one that ran out of time, or was interrupted, may be built.
        if not isinstance(error, CompileFailedError) or error.returncode is None:
            with _lock:
                _built.pop((program, arch), None)
        raise


def _future(program: Program, arch: str) -> Future[Kernel]:
    with _lock:
        found = _built.get((program, arch))
        if found is None:
            _building.begin()
            found = _pool().submit(_compiled, program, arch)
            found.add_done_callback(_building.end)
            _built[program, arch] = found
            while len(_built) > MAX_KERNELS:
                _built.popitem(last=False)
        _built.move_to_end((program, arch))
        return found


def _compiled(program: Program, arch: str) -> Kernel:
    """The kernel from the cache on disk, or a new build of it."""
    known, cache = ARCHITECTURES[arch], Cache.of_kernels()
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
        "contracts": program.contracts,
        "ptx_version": program.ptx_version,
        "backend": known.backend,
        "arch": known.name,
        "subgroup": known.subgroup,
    }
    parts = [CACHE_FORMAT, version("triton"), _sources(), request]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    entry = cache.find(key)
    if entry is not None:
        with contextlib.suppress(OSError):  # Evicted by another process since.
            return _kernel(entry.program.read_bytes(), entry.manifest, known)
    with temporary.folder("mlirfuse-kernel-") as folder:
        output = Path(folder, f"kernel.{known.suffix}")
        built = json.loads(_run(json.dumps({**request, "output": str(output)}), str(folder)))
        cache.store(key, output, built)
        return _kernel(output.read_bytes(), built, known)


@functools.cache
def _sources() -> str:
    """A digest of the sources that a kernel's module imports, and of the worker."""
    root, found = Path(__file__).parent, hashlib.sha256()
    for path in [root / "triton_worker.py", *sorted((root / "device").glob("*.py"))]:
        found.update(path.read_bytes())
    return found.hexdigest()


def _kernel(code: bytes, built: Mapping[str, Any], known: Architecture) -> Kernel:
    declared = sum(int(size) for size in re.findall(rb"\.shared [^;\n]*\[(\d+)\];", code))
    threads = built["warps"] * known.subgroup
    return Kernel(code, (threads, 1, 1), int(built["shared"]), known.suffix, declared)


def _run(request: str, folder: str) -> str:
    try:
        done = build_server.run(request, folder, BUILD_SECONDS)
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
