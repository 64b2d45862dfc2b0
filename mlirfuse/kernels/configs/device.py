"""Resources of a target's GPU that configurations are computed from."""

from __future__ import annotations

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
