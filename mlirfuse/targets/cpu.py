"""CPU through LLVM: `cpu`, `cpu:host`, `cpu:<LLVM's name of a CPU>`."""

from __future__ import annotations

import re
from pathlib import Path

from mlirfuse.targets.base import Target, Tile

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

_AVX512_TILES = (*(Tile(rows, 32) for rows in (8, 12, 10, 7, 6, 5)), Tile(4, 64))
"""Ten to 24 vectors of sums in 32 registers: fewer do not hide the latency of the multiply-adds.
Each of them within 5 % of the best for M 120 or 126, N and K 1024; see weight_packing_rewrite."""

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


def create(arch: str) -> Target:
    """The CPU target.

    Args:
      arch: `host`, or a name that LLVM knows: `generic`, `x86-64-v3`, `znver4`, ...; an unknown one
        is refused by the compiler.
    """
    return Target(
        name="cpu",
        arch=arch or "host",
        device="local-task",
        flags=(
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            f"--iree-llvmcpu-target-cpu={arch or 'host'}",
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
        packed_tiles=_AVX512_TILES if _has("avx512f", _AVX512_NAMES, arch or "host") else (),
        bf16_instructions=_has("avx512_bf16", _AVX512_BF16_NAMES, arch or "host"),
        source="measured with IREE 3.13.0 on two cores of an AMD EPYC (Zen 5), AVX-512",
    )
