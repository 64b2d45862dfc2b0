"""The rates of a device that times of kernels are compared with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mlirfuse.profiling import copy_rate
from mlirfuse.targets import cpu_host
from mlirfuse.targets.base import GpuDevice, Target


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """The rates of a device.

    Attributes:
      copy: bytes per second that it copies, read and written bytes counted; None if not known.
      copy_source: origin of `copy`.
      matmul: element type -> operations per second of contractions.
      vector: operations per second of other arithmetic; None if not known.
      launch_us: microseconds that a launch costs; None if not known.
      source: origin of the rates but `copy`.
      gpu: resources of the GPU; None for a CPU, and where they are not known.
    """

    copy: float | None
    copy_source: str
    matmul: Mapping[str, float] = dataclasses.field(default_factory=dict)
    vector: float | None = None
    launch_us: float | None = None
    source: str = "not known: the file does not say which target it was compiled for"
    gpu: GpuDevice | None = None


def of(target: Target | None, device: str, threads: int | None) -> Rates:
    """The rates of a device: copies of a CPU are measured now, the rest is the target's.

    Args:
      target: the target of the program; None where it is not known.
      device: URI of the device.
      threads: threads of the CPU; None for one a core.
    """
    cores = cpu_host.cores()
    used = 1 if device == "local-sync" else min(threads or cores, cores)
    copy, copy_source = None, "not known"
    if device.startswith("local"):
        copy = copy_rate.measure(used)
        copy_source = f"measured here, {used} thread{'' if used == 1 else 's'}"
    elif target is not None:
        copy, copy_source = target.bandwidth, f"of target {target}: {target.source}"
    if target is None:
        return Rates(copy, copy_source)
    # The rates of a CPU are those of all its cores.
    share = used / max(used, target.cpu.cores) if target.cpu is not None else 1.0
    return Rates(
        copy=copy,
        copy_source=copy_source,
        matmul={name: share * rate for name, rate in target.matmul_rate.items()},
        vector=share * target.vector_rate,
        launch_us=target.launch_us,
        source=f"of target {target}: {target.source}",
        gpu=target.gpu,
    )
