"""CPU through LLVM: `cpu`, `cpu:host`, `cpu:<LLVM's name of a CPU>`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mlirfuse.targets.base import CpuTiles, Target, Tile

BANDWIDTH = 6.0e10
"""Bytes per second: a copy of 256 MiB by two threads, read and written bytes counted."""

MATMUL_RATE = {"f32": 1.3e11, "f16": 1.3e11, "bf16": 3.5e11}
"""Operations per second of IREE's 1024x1024x1024 matmul with data tiling, f32 and bf16; f16 is
widened to f32."""

VECTOR_RATE = 3.3e10
"""Operations per second of a chain of 64 multiplies and adds over 65536 f32 values."""

SPECIAL_RATE = 8.0e9
"""Exponentials per second: the softmax of 1536x128 f32, two threads."""

PARALLELISM = 32
"""Iterations: a vector of 16 f32 on each of two cores."""

LAUNCH_US = 1.8
"""Microseconds of a dispatch over two threads beyond its work: a chain of 256 matmuls of
1024x8x8 on `local-task` against half of its time on `local-sync`."""

STACK_LIMIT = 32 * 1024
"""Bytes of stack that IREE 3.13 lets a dispatch use (`--iree-llvmcpu-stack-allocation-limit`)."""

_DATA_TILING = ("--iree-dispatch-creation-data-tiling",)

_AVX512_TILES = (*(Tile(m, 32) for m in (8, 12, 10, 7, 6, 5)), Tile(4, 64))
"""Ten to 24 vectors of accumulators in 32 registers: fewer expose the latency of multiply-adds.
Each of them within 5 % of the best for M 120 or 126, N and K 1024; see weight_packing_rewrite."""

_MEASURED_TILES = CpuTiles(
    softmax_lanes=16,
    softmax_rows=8,
    softmax_stack_bytes=16 * 1024,
    softmax_workgroup_elements=4096,
    max_softmax_workgroup_rows=64,
    softmax_uneven_rows=4,
    softmax_uneven_columns=32,
    max_packed_m=32,
    max_packed_n_tiles=4,
    min_data_tiled_n=8,
)
"""Tile sizes for AVX-512, measured with IREE 3.13.0 on an AMD EPYC (Zen 5); microseconds.

Softmax, one thread, f32:
- lanes: 6144x128 takes 991 as `linalg.softmax`, 411 in the two dispatches that IREE makes of the
  parts, 376 with 8 lanes, 200 with 16, 240 with 32. Rows of 8 columns take 74 in two dispatches and
  86 in one.
- rows in flight: 1 row 397, 2 rows 300, 4 rows 212, 8 rows 196, 16 rows 229.
- stack: fewer rows in flight are better than exponentials computed twice, down to two rows:
  768x1024 takes 190 with 4 rows kept, 280 computed twice; 192x4096 takes 330 with one row kept, 252
  computed twice.
- elements of a workgroup: 6144x128 takes 208 with 1024, 196 with 4096, 195 with 8192.
- uneven rows: of 98304 elements, rows of 100 columns take 73 against 111 in IREE's two dispatches
  and 186 as `linalg.softmax`, of 197 columns 67, 105 and 163, of 1000 columns 64, 70 and 113. Tiles
  of 8x32 and 8x16 are within a tenth of it.

Packed matmuls, two threads: 470 to 515 GFLOP/s for M 128, N and K 384 to 2816; see
weight_packing_rewrite. Data tiling: N of 8 is f32 in a register of AVX2; a smaller N leaves a part
of every register idle, and packing is a dispatch more."""

_TILES: Mapping[str, CpuTiles] = {
    "avx512": _MEASURED_TILES,
    "avx2": _MEASURED_TILES,
    "baseline": _MEASURED_TILES,
}
"""Tile sizes by instruction set. Those for AVX2 and for the baseline of an architecture (SSE2 on
x86-64) are estimates: the values that were measured for AVX-512."""

_AVX2_NAMES = re.compile(
    "x86-64-v3|haswell|core-avx2|broadwell|skylake|alderlake|raptorlake|meteorlake|gracemont"
    "|arrowlake(-s)?|arrowlake_s|lunarlake|pantherlake|sierraforest|grandridge|clearwaterforest"
    "|bdver4|znver[123]"
)
"""LLVM's names of the CPUs that have AVX2 and no AVX-512."""

_AVX512_NAMES = re.compile(
    "x86-64-v4|skylake-avx512|cascadelake|cooperlake|cannonlake|icelake-.*|rocketlake|tigerlake"
    "|sapphirerapids|emeraldrapids|graniterapids.*|znver[45]"
)
"""LLVM's names of the CPUs that have AVX-512."""

_AVX512_BF16_NAMES = re.compile("cooperlake|sapphirerapids|emeraldrapids|graniterapids.*|znver[45]")
"""Those of them that have AVX512-BF16, whose VCVTNEPS2BF16 rounds f32 to bf16."""


def _has(flag: str, names: re.Pattern[str], arch: str) -> bool:
    """Whether the CPU has an extension.

    Args:
      flag: Linux's name of the extension, which is asked for `host`.
      names: LLVM's names of the CPUs that have it.
      arch: LLVM's name of the CPU, or `host`.
    """
    if arch != "host":
        return names.fullmatch(arch) is not None
    try:
        return flag in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return False


def instruction_set(arch: str) -> str:
    """The widest vector instructions of a CPU: `avx512`, `avx2` or `baseline`.

    Args:
      arch: LLVM's name of the CPU, or `host`.
    """
    if _has("avx512f", _AVX512_NAMES, arch):
        return "avx512"
    return "avx2" if _has("avx2", _AVX2_NAMES, arch) else "baseline"


def create(arch: str) -> Target:
    """The CPU target.

    Args:
      arch: `host`, or a name that LLVM knows: `generic`, `x86-64-v3`, `znver4`, ...; an unknown one
        is refused by the compiler.
    """
    arch = arch or "host"
    vectors = instruction_set(arch)
    return Target(
        name="cpu",
        arch=arch,
        device="local-task",
        flags=(
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            f"--iree-llvmcpu-target-cpu={arch}",
        ),
        codegen_flags=_DATA_TILING,
        feature_flags={"data_tiling": _DATA_TILING},
        bandwidth=BANDWIDTH,
        matmul_rate=MATMUL_RATE,
        vector_rate=VECTOR_RATE,
        special_rate=SPECIAL_RATE,
        parallelism=PARALLELISM,
        launch_us=LAUNCH_US,
        stack_limit=STACK_LIMIT,
        packed_matmul_tiles=_AVX512_TILES if vectors == "avx512" else (),
        cpu_tiles=_TILES[vectors],
        bf16_instructions=_has("avx512_bf16", _AVX512_BF16_NAMES, arch),
        source="measured with IREE 3.13.0 on two cores of an AMD EPYC (Zen 5), AVX-512",
    )
