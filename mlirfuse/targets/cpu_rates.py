"""Modelled rates of a CPU, computed from its cores, vectors and ports.

Each rate is a share of a peak that the device's numbers give; the shares were measured with IREE
3.13.0 on two cores of an AMD EPYC (Zen 5, AVX-512), at 4 GHz. `mlirfuse-tune --calibrate` measures
all of them on a machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlirfuse.targets.base import CpuDevice

CLOCK = 3.0e9
"""Cycles per second: between the base clock of servers and the boost of desktops."""

FMA_LATENCY = 4
"""Cycles until the result of a multiply-add can be used: Intel since Skylake, AMD since Zen 3,
Arm's Neoverse and Apple's CPUs."""

MATMUL_SHARE = 0.7
"""Share of the peak of multiply-adds that a matmul reaches: 350 to 398 of 512 GFLOP/s with data
tiling."""

MATRIX_SPEEDUP = 8
"""Multiply-adds of bf16 by tile registers of AMX over those of f32 by vectors: half of the ratio of
their peaks, 512 and 32 in a cycle, since loads of both come from the second cache."""

MAX_CHAIN_LANES = 8
"""Lanes of elementwise code of IREE: LLVM prefers vectors of 256 bits where they are longer."""

CYCLES_PER_EXP = 16
"""Cycles of a vector of exponentials: the softmax of 1536x128 f32 computes 8.0e9 per second."""

BANDWIDTH_PER_CORE = 3.0e10
"""Bytes per second that one core copies, read and written bytes counted: a copy of 256 MiB by two
cores took 6.0e10."""

MAX_BANDWIDTH = 2.0e11
"""Bytes per second of all cores: eight channels of DDR4-3200, by JEDEC's data sheet."""

LAUNCH_US = 1.8
"""Microseconds of a dispatch over two threads beyond its work: a chain of 256 matmuls of 1024x8x8
on `local-task` against half of its time on `local-sync`. A property of IREE's runtime."""

MEETING_US = 0.25
"""Microseconds of a step that two workgroups end together, beyond its work: LSTM and RNN layers of
64 to 256 columns on two threads, 0.15 to 0.34. Each further workgroup writes a line of the cache
that all read."""

SOURCE = "modelled from its cores, vectors and ports; --calibrate measures"


def matmul_rates(device: CpuDevice) -> Mapping[str, float]:
    """Operations per second of matmuls by element type.

    f16 and bf16 are widened to f32, except bf16 where several products are one instruction's.
    """
    peak = 2.0 * device.cores * CLOCK * device.lanes * device.fma_ports
    products = 2 if device.has("avx512bf16", "bf16") else 1
    if device.has("amx-bf16"):
        products = MATRIX_SPEEDUP
    rate = MATMUL_SHARE * (peak if device.has_fma else peak / 2)
    return {"f32": rate, "f16": rate, "bf16": products * rate}


def vector_rate(device: CpuDevice) -> float:
    """Operations per second of a chain of multiplies and adds, each of which waits for the last."""
    return 2.0 * device.cores * CLOCK * min(device.lanes, MAX_CHAIN_LANES) / FMA_LATENCY


def special_rate(device: CpuDevice) -> float:
    """Exponentials per second."""
    return device.cores * CLOCK * device.lanes / CYCLES_PER_EXP


def bandwidth(device: CpuDevice) -> float:
    """Bytes per second of copies."""
    return min(MAX_BANDWIDTH, device.cores * BANDWIDTH_PER_CORE)


def parallelism(device: CpuDevice) -> int:
    """Iterations that keep every lane of every core busy."""
    return device.cores * device.lanes
