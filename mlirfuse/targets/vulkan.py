"""Any GPU with Vulkan through SPIR-V: `vulkan`, `vulkan:rdna3`, `vulkan:llvmpipe`, ..."""

from __future__ import annotations

from typing import NamedTuple

from mlirfuse.core import UsageError, nearest
from mlirfuse.targets.base import Target

DEFAULT_ARCH = "ampere"

LAUNCH_US = 10.0
"""Microseconds of one more dispatch with its barrier; assumed, between CUDA's and llvmpipe's."""

LLVMPIPE_LAUNCH_US = 110.0
"""Microseconds of one more dispatch on Mesa's llvmpipe, two threads: a chain of 256 tiny matmuls
takes 28.5 ms."""

# IREE 3.13.0 has no code generation for attention in SPIR-V (an online_attention op is left over,
# with any target name). Programs that arrive with the op get it as matmuls and a softmax.
_DECOMPOSE_ATTENTION = (
    "--iree-preprocessing-pass-pipeline=builtin.module(util.func("
    "iree-linalg-ext-convert-attention-to-online-attention,iree-linalg-ext-decompose-attention))"
)

_NO_ATTENTION = "IREE's SPIR-V code generation leaves iree_linalg_ext.online_attention unlowered"

OPERATIONS_PER_EXPONENTIAL = 16
"""f32 operations in the time of one exponential, as on NVIDIA's cards."""

LANE_RATE = 3.4e9
"""f32 operations per second of one lane: a multiply-add each clock at 1.7 GHz."""

ITERATIONS_PER_LANE = 4
"""Iterations that a lane needs at hand to hide the latency of memory; an estimate."""


# "no GPU subgroup mma compute ops generated", compiled with IREE 3.13.0; not with two batch loops,
# not for f16 summed in f16, and not for families without cooperative matrices in f16.
OUTER_BATCH_MMA_SHAPES = {"f16": (16, 8, 16)}

MISSING_MMA_SHAPES = {"f16": (16, 8, 16)}
"""The same message for any form of a contraction with these sizes, on NVIDIA's families."""

NVIDIA = frozenset({"turing", "ampere", "ada"})

COOPERATIVE = NVIDIA | {"rdna3", "rdna4"}
"""Families for which IREE generates cooperative matrices of f16."""


class Rates(NamedTuple):
    """Peak rates of a typical card of the family.

    Attributes:
      bandwidth: bytes per second.
      half: f16 contractions, operations per second; f32's where there is no matrix unit.
      single: f32 vector work, operations per second.
      shared: bytes of workgroup memory that IREE takes the family to have.
      subgroup_size: lanes of a subgroup that IREE takes the family to have.
      source: the card whose data sheet the numbers come from.
    """

    bandwidth: float
    half: float
    single: float
    shared: int
    subgroup_size: int
    source: str


RATES = {
    "turing": Rates(3.2e11, 6.5e13, 8.1e12, 65536, 32, "T4, data sheet"),
    "ampere": Rates(6.0e11, 1.25e14, 3.12e13, 166912, 32, "A10, data sheet"),
    "ada": Rates(8.64e11, 3.62e14, 9.16e13, 101376, 32, "L40S, data sheet"),
    "rdna2": Rates(5.12e11, 4.6e13, 2.3e13, 65536, 32, "RX 6900 XT, data sheet"),
    "rdna3": Rates(9.6e11, 1.23e14, 6.1e13, 65536, 32, "RX 7900 XTX, data sheet"),
    "rdna4": Rates(6.4e11, 1.95e14, 4.87e13, 65536, 32, "RX 9070 XT, data sheet"),
    "cdna3": Rates(5.3e12, 1.307e15, 1.634e14, 65536, 64, "MI300X, data sheet"),
    "valhall4": Rates(5.1e10, 3.6e12, 1.8e12, 32768, 16, "Mali-G715 in a phone, estimate"),
    "adreno": Rates(6.7e10, 4.0e12, 2.0e12, 32768, 64, "Adreno 740 in a phone, estimate"),
    "llvmpipe": Rates(2.0e10, 1.0e10, 1.0e10, 32768, 8, "Mesa on two CPU cores, estimate"),
}


def create(arch: str) -> Target:
    """The Vulkan target.

    Args:
      arch: IREE's name of the GPU family. `llvmpipe` is Mesa's device in software.

    Raises:
      UsageError: `arch` is not in `RATES`.
    """
    arch = arch or DEFAULT_ARCH
    rates = RATES.get(arch)
    if rates is None:
        raise UsageError(f"unknown target 'vulkan:{arch}'{nearest(arch, RATES)}")
    return Target(
        name="vulkan",
        arch=arch,
        device="vulkan",
        flags=(
            "--iree-hal-target-device=vulkan",
            f"--iree-vulkan-target={arch}",
            _DECOMPOSE_ATTENTION,
        ),
        demotes_f64=True,
        feature_flags={"data_tiling": ()},
        bandwidth=rates.bandwidth,
        matmul_rate={"f32": rates.single, "f16": rates.half, "bf16": rates.half},
        vector_rate=rates.single,
        special_rate=rates.single / OPERATIONS_PER_EXPONENTIAL,
        parallelism=ITERATIONS_PER_LANE * max(1, int(rates.single / LANE_RATE)),
        launch_us=LLVMPIPE_LAUNCH_US if arch == "llvmpipe" else LAUNCH_US,
        subgroup_size=rates.subgroup_size,
        shared_memory=rates.shared,
        outer_batch_mma_shapes=OUTER_BATCH_MMA_SHAPES if arch in COOPERATIVE else {},
        missing_mma_shapes=MISSING_MMA_SHAPES if arch in NVIDIA else {},
        unsupported={
            "attention": _NO_ATTENTION,
            "flash_attention_fusion_v1": _NO_ATTENTION,
            "flash_attention_fusion_v2": _NO_ATTENTION,
            "dequant_matmul_fusion": "IREE's SPIR-V code generation takes no dispatch with a "
            "contraction behind other loops (unhandled multiple matmul/generic cases)",
        },
        source=rates.source,
    )
