"""Resources of a target's GPU that configurations are computed from."""

from __future__ import annotations

import dataclasses

from mlirfuse.targets.base import GpuDevice, Target

MAX_WARPS = 4
"""Warps of a CTA of a memory-bound kernel, which needs no more to load without a gap."""

MAX_LOADS_PER_THREAD = 2
"""Vectorized loads of an operand that a thread of such a kernel has in flight."""

UNKNOWN_GPU = GpuDevice(
    num_sms=64,
    shared_memory_per_sm=64 * 1024,
    shared_memory_per_cta=48 * 1024,
    registers_per_sm=65536,
    max_threads_per_sm=1024,
    warp_size=32,
    l2_bytes=4 * 1024 * 1024,
)
"""Conservative resources, where those of a target are not known."""


def gpu_of(target: Target) -> GpuDevice:
    """The GPU of a target, or `UNKNOWN_GPU`."""
    return target.gpu or UNKNOWN_GPU


@dataclasses.dataclass(frozen=True, slots=True)
class ThreadShape:
    """Elements of a thread and of a CTA of a memory-bound kernel.

    Attributes:
      loads: vectorized loads of an operand that a thread has in flight.
      vector: elements of each.
      warps: warps of a CTA.
      tile: elements of a CTA.
    """

    loads: int
    vector: int
    warps: int
    tile: int


def thread_shape(
    elements: int, target: Target, *, vector: int, least: int = 1, loads: int = MAX_LOADS_PER_THREAD
) -> ThreadShape:
    """The elements of a thread that keep all warps of the device busy.

    A problem that does not fill the device takes the latency of one thread: it gets threads of
    fewer elements, first of fewer loads, then of shorter ones while half of the device's threads
    have none, then CTAs of fewer warps while an SM has no CTA.

    Args:
      elements: elements of the result.
      target: the machine that is compiled for.
      vector: elements of the widest load.
      least: elements of the shortest load.
      loads: loads of a thread where there are enough elements.
    """
    gpu = gpu_of(target)
    threads, warps = gpu.num_sms * gpu.max_threads_per_sm, MAX_WARPS
    while loads > 1 and elements < threads * vector * loads:
        loads //= 2
    while vector > least and elements < threads // 2 * vector:
        vector //= 2
    while warps > 1 and elements < gpu.num_sms * gpu.warp_size * warps * vector * loads:
        warps //= 2
    return ThreadShape(loads, vector, warps, loads * vector * warps * gpu.warp_size)


def loads_and_warps(elements: int, vector: int, target: Target) -> tuple[int, int]:
    """Vectorized loads per thread and warps per CTA that leave each SM a CTA.

    Small problems get smaller CTAs: first of fewer loads, then of fewer warps.

    Args:
      elements: elements of the result.
      vector: elements of a vectorized load.
      target: the machine that is compiled for.
    """
    gpu = gpu_of(target)
    loads, warps = MAX_LOADS_PER_THREAD, MAX_WARPS
    filled = gpu.num_sms * gpu.warp_size * vector
    while loads * warps > 1 and elements < filled * loads * warps:
        loads, warps = (loads // 2, warps) if loads > 1 else (loads, warps // 2)
    return loads, warps
