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


SECTOR_BITS = 256
"""Bits that a cache loads at least; CUDA C++ Programming Guide, "Device Memory Accesses"."""

VECTOR_BITS = 128
"""Bits of the widest result that a thread of a memory-bound kernel computes, or loads at once."""

MAX_VECTOR, SMALL_VECTOR = 8, 4
"""Elements of a thread at most, and where there are few of them, in CTAs of more warps."""

CTA_ELEMENTS = 1024
"""Elements of a CTA of such a kernel: on an H200 a CTA more takes half a nanosecond, in which the
device moves two kilobytes.

Times over the best of ten tiles, by elements of a thread and warps, of additions and GELUs of 16384
to 67 million elements, and of pixel shuffles: f32 with 4 and 8 1.00 to 1.10 (mean 1.03), 8 and 4
1.00 to 1.38 (1.09), 1 and 4 1.06 to 2.59; f16 from 540 thousand on with 8 and 4 1.00 to 1.10
(1.02), 4 and 8 1.00 to 1.18 (1.08), below 1.09 and 1.03."""


@dataclasses.dataclass(frozen=True, slots=True)
class ThreadShape:
    """The CTAs of a memory-bound kernel.

    Attributes:
      warps: warps of a CTA.
      tile: elements of a CTA.
    """

    warps: int
    tile: int


def thread_shape(elements: int, target: Target, *, bits: int) -> ThreadShape:
    """The warps and elements of a CTA that keep the device busy.

    Args:
      elements: elements of the result.
      target: the machine that is compiled for.
      bits: width of an element of the result.
    """
    gpu = gpu_of(target)
    vector = max(SMALL_VECTOR, min(MAX_VECTOR, VECTOR_BITS // bits))
    filled = gpu.num_sms * gpu.max_threads_per_sm * vector
    if vector > SMALL_VECTOR and elements < filled // 4:
        vector = SMALL_VECTOR
    warps = max(1, CTA_ELEMENTS // (vector * gpu.warp_size))
    tile = vector * warps * gpu.warp_size
    if 2 * elements < gpu.num_sms * tile:
        tile //= 2
    return ThreadShape(warps, tile)


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
