"""AMD GPUs through HIP: `rocm`, `rocm:gfx942`, `rocm:gfx1100`, ..."""

from __future__ import annotations

from typing import NamedTuple

from mlirfuse.core import UsageError, nearest
from mlirfuse.targets.base import GpuDevice, Target

ROW_LIMIT = 4096
"""Elements of a row that a group keeps and writes. IREE 3.13.0 unrolls longer ones: add and layer
norm of 64x4096 f32 with the sum as a result compile in 4 s, of 64x5120 in more than two minutes for
gfx1100, of 64x8192 in one for gfx942; without that result 64x12288 takes 3 s."""

DEFAULT_ARCH = "gfx942"

LAUNCH_US = 8.0
"""Microseconds of one more dispatch; assumed, not measured: no AMD card was at hand."""

OPERATIONS_PER_EXPONENTIAL = 8
"""f32 operations in the time of one exponential: transcendentals run at a quarter of the rate of
multiply-adds. AMD instruction set guides, RDNA 3 and CDNA 3."""

LANE_RATE = 3.4e9
"""f32 operations per second of one lane: a multiply-add each clock at 1.7 GHz."""

ITERATIONS_PER_LANE = 4
"""Iterations that a lane needs at hand to hide the latency of memory; an estimate."""

WMMA_SHAPES = {kind: (16, 16, 16) for kind in ("f16", "bf16")}
"""M, N and K of the instructions that IREE 3.13.0 chooses for RDNA 3 and 4."""

MFMA_SHAPES = {**WMMA_SHAPES, "f32": (16, 16, 4)}
"""The same for CDNA."""


class Rates(NamedTuple):
    """Peak rates of one card.

    Attributes:
      bandwidth: bytes per second.
      half: f16 and bf16 contractions, dense, operations per second.
      single: f32 vector work, operations per second.
      shared: bytes of workgroup memory (LDS) that one workgroup may use.
      source: the card whose data sheet the numbers come from.
    """

    bandwidth: float
    half: float
    single: float
    shared: int
    source: str


RATES = {
    "gfx908": Rates(1.23e12, 1.85e14, 2.31e13, 65536, "MI100, data sheet"),
    "gfx90a": Rates(1.6e12, 1.81e14, 2.26e13, 65536, "MI210, data sheet"),
    "gfx942": Rates(5.3e12, 1.307e15, 1.634e14, 65536, "MI300X, data sheet"),
    "gfx950": Rates(8.0e12, 2.5e15, 1.573e14, 163840, "MI355X, data sheet"),
    "gfx1100": Rates(9.6e11, 1.23e14, 6.1e13, 65536, "RX 7900 XTX, data sheet"),
    "gfx1101": Rates(6.24e11, 7.5e13, 3.7e13, 65536, "RX 7800 XT, data sheet"),
    "gfx1103": Rates(9.0e10, 1.7e13, 8.3e12, 65536, "Radeon 780M with DDR5-5600, data sheet"),
    "gfx1150": Rates(1.2e11, 2.4e13, 1.2e13, 65536, "Radeon 890M with LPDDR5X-7500, data sheet"),
    "gfx1151": Rates(2.56e11, 5.9e13, 3.0e13, 65536, "Radeon 8060S, data sheet"),
    "gfx1200": Rates(3.2e11, 1.0e14, 2.56e13, 65536, "RX 9060 XT, data sheet"),
    "gfx1201": Rates(6.4e11, 1.95e14, 4.87e13, 65536, "RX 9070 XT, data sheet"),
}

GPUS = {
    "gfx90a": GpuDevice(104, 65536, 65536, 131072, 2048, 64, 8 * 1024 * 1024),
    "gfx942": GpuDevice(304, 65536, 65536, 131072, 2048, 64, 256 * 1024 * 1024),
}
"""Processor -> the card of `RATES`: MI210, and MI300X, whose last cache is the Infinity Cache.
Compute units and caches are of AMD's data sheets, the rest of the CDNA 2 and CDNA 3 instruction set
guides."""


def create(arch: str) -> Target:
    """The ROCm target.

    Args:
      arch: LLVM's name of the processor, `gfx942`.

    Raises:
      UsageError: `arch` is not in `RATES`.
    """
    arch = arch or DEFAULT_ARCH
    rates = RATES.get(arch)
    if rates is None:
        raise UsageError(f"unknown target 'rocm:{arch}'{nearest(arch, RATES)}")
    return Target(
        name="rocm",
        arch=arch,
        device="hip",
        flags=("--iree-hal-target-device=hip", f"--iree-rocm-target={arch}"),
        feature_flags={"data_tiling": ()},
        bandwidth=rates.bandwidth,
        matmul_rate={"f32": rates.single, "f16": rates.half, "bf16": rates.half},
        vector_rate=rates.single,
        special_rate=rates.single / OPERATIONS_PER_EXPONENTIAL,
        parallelism=ITERATIONS_PER_LANE * max(1, int(rates.single / LANE_RATE)),
        launch_us=LAUNCH_US,
        row_limit=ROW_LIMIT,
        non_power_of_two_row_limit=ROW_LIMIT,
        shared_memory=rates.shared,
        mma_shapes=MFMA_SHAPES if arch.startswith("gfx9") else WMMA_SHAPES,
        gpu=GPUS.get(arch),
        source=rates.source,
    )
