"""The CPU of this machine: instruction sets, caches and cores, as Linux gives them.

Elsewhere the compiler is asked for LLVM's name of the CPU and for its instruction sets.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from mlirfuse.targets import cpu_models, cpu_query
from mlirfuse.targets.cpu_models import AARCH64, X86_64, CpuModel

CPUINFO = Path("/proc/cpuinfo")
CPUS = Path("/sys/devices/system/cpu")


def architecture() -> str:
    """The architecture of this machine by LLVM's name: `x86_64`, `aarch64`, ..."""
    name = platform.machine().lower()
    return {"amd64": X86_64, "arm64": AARCH64}.get(name, name)


@functools.cache
def described() -> tuple[CpuModel, tuple[str, ...]]:
    """Ports and caches of this machine as far as they are known, and its instruction sets.

    Raises:
      CompileFailedError: the compiler had to be asked, and failed.
    """
    known = _cpuinfo()
    if known is not None:
        return identified(known, architecture())
    name, features = cpu_query.ask("host", "")
    return cpu_models.named(name) or cpu_models.usual(architecture(), features), features


def _cpuinfo() -> Mapping[str, str] | None:
    """The first CPU in Linux's description; None elsewhere, and for other architectures."""
    if architecture() not in (X86_64, AARCH64):
        return None
    try:
        first = CPUINFO.read_text(encoding="utf-8").split("\n\n", 1)[0]
    except OSError:
        return None
    found = fields(first)
    return found if {"flags", "Features"} & set(found) else None


def fields(text: str) -> dict[str, str]:
    """The fields of one CPU in `/proc/cpuinfo`."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def identified(known: Mapping[str, str], architecture: str) -> tuple[CpuModel, tuple[str, ...]]:
    """The ports and caches, and the instruction sets, of a CPU that Linux describes.

    Args:
      known: the fields of one CPU in `/proc/cpuinfo`.
      architecture: `x86_64` or `aarch64`.
    """
    flags = (known.get("flags") or known.get("Features") or "").split()
    features = tuple(name for name, flag in cpu_models.LINUX_NAMES.items() if flag in flags)
    if "CPU implementer" in known:
        vendor, number = known["CPU implementer"], known.get("CPU part", "0")
    else:
        vendor = f"{known.get('vendor_id', '')} {known.get('cpu family', '')}"
        number = known.get("model", "0")
    found = cpu_models.identified(vendor, int(number, 0))
    if cpu_models.MATRIX_FEATURE in features:
        found = None  # A virtual machine may show the identity of another CPU.
    return found or cpu_models.usual(architecture, features), features


def cache_kib(cpu: Path = CPUS / "cpu0") -> dict[int, int]:
    """Level -> KiB of a core's share of its first two caches, and of the whole third.

    Args:
      cpu: the folder in which Linux describes one CPU.
    """
    found = {}
    for index in sorted(cpu.glob("cache/index*")):
        with contextlib.suppress(OSError, ValueError):
            level, kind, size, sharers = (
                Path(index, name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size", "shared_cpu_list")
            )
            kib, number = int(size.removesuffix("K")), int(level)
            if kind != "Instruction" and number <= 3:
                threads = (cpu / "topology/thread_siblings_list").read_text(encoding="ascii")
                shared = max(1, _count(sharers) // _count(threads)) if number < 3 else 1
                found[number] = kib // shared
    return found


def _count(text: str) -> int:
    """How many CPUs a list names: `0-3,8`."""
    ends = [part.partition("-") for part in text.strip().split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


def cores() -> int:
    """Cores that this process may use; the threads of a core count once.

    IREE's `local-task` has a worker for each of them.
    """
    try:
        allowed = os.sched_getaffinity(0)
    except (AttributeError, OSError):
        return os.cpu_count() or 1
    found = set()
    for number in allowed:
        siblings = CPUS / f"cpu{number}/topology/thread_siblings_list"
        try:
            found.add(siblings.read_text(encoding="ascii").strip())
        except OSError:
            found.add(str(number))
    return len(found)
