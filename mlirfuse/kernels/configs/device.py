"""Resources of a target's GPU that configurations are computed from."""

from __future__ import annotations

from mlirfuse.targets.base import GpuDevice, Target

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
