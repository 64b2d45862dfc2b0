"""NVIDIA GPUs through PTX: `cuda`, `cuda:sm_80`, `cuda:sm_90`, ..."""

from __future__ import annotations

from typing import NamedTuple

from mlirfuse.core import UsageError, nearest
from mlirfuse.targets import present
from mlirfuse.targets.base import GpuDevice, Target

ROW_LIMIT = 32768
"""Elements of a row that a group keeps and writes. IREE 3.13.0 unrolls longer ones: add and layer
norm of 64x65536 f32 with the sum as a result compile in 27 s on two busy cores, without groups in
3 s; 64x32768 in 10 s."""

NON_POWER_OF_TWO_ROW_LIMIT = 8192
"""The same where the row is no power of two: for sm_80 9 s at 6144 elements, 12 s at 7168, more
than two minutes at 12288."""

MULTI_REDUCTION_ROW_LIMIT = 4096
"""The same where a row is summed more than once: add and layer norm of 16384x8192 f16 with the sum
as a result take 25.6 ms on an H100, in two dispatches 1.1 ms; 16384x4096 take 0.47 and 0.56 ms."""

MAX_ATTENTION_HEAD_SIZE = 64
"""IREE 3.13.0 on an H100, f16: 8x16x1024x64 takes 0.49 ms as attention and 0.72 ms in parts, but
causal 1x32x4096x128 takes 5.4 and 4.1 ms, 2x32x1024x128 with 8 heads of keys 0.68 and 0.49 ms."""

ATTENTION_SIZE_MULTIPLE = 16
"""Of other sizes IREE 3.13.0 uses no matrix instructions: ViT-B/16, 197 tokens, batch 32, f16,
takes 262 ms on an H100, and 22 ms in parts."""

DEFAULT_ARCH = "sm_80"

HOPPER = "sm_90"
"""The architecture with asynchronous matmuls and thread block clusters."""

LAUNCH_US = 5.0
"""Microseconds of one more dispatch in a stream: the low end of 5 to 10 seen on an H100."""

OPERATIONS_PER_EXPONENTIAL = 16
"""f32 operations in the time of one exponential: 128 multiply-adds a clock and multiprocessor, 16
special functions. CUDA C++ Programming Guide, throughput of native arithmetic."""

MATMUL_SLOWDOWN = 60
"""The card's f32 rate over that of IREE 3.13.0's f32 matmuls. Measured on an H200, 65 groups of
`benchmarks.ranks`: the model's times rank as the measured ones do by 0.91 with it, 0.70 without."""

LANE_RATE = 3.4e9
"""f32 operations per second of one lane: a multiply-add each clock at 1.7 GHz."""

ITERATIONS_PER_LANE = 4
"""Iterations that a lane needs at hand to hide the latency of memory; an estimate."""


class Rates(NamedTuple):
    """Peak rates of one card.

    Attributes:
      bandwidth: bytes per second, read and written bytes counted.
      half: f16 and bf16 contractions with f32 accumulation, dense, operations per second.
      single: f32 work outside tensor cores, operations per second.
      shared: bytes of workgroup memory that one workgroup may use.
      source: the card, and where the numbers come from.
    """

    bandwidth: float
    half: float
    single: float
    shared: int
    source: str


RATES = {
    "sm_60": Rates(7.32e11, 1.87e13, 9.3e12, 49152, "P100 PCIe, data sheet"),
    "sm_61": Rates(3.46e11, 1.1e13, 1.1e13, 49152, "P40, data sheet"),
    "sm_70": Rates(9.0e11, 1.12e14, 1.4e13, 98304, "V100 PCIe, data sheet"),
    "sm_75": Rates(3.2e11, 6.5e13, 8.1e12, 65536, "T4, data sheet"),
    "sm_80": Rates(1.56e12, 3.12e14, 1.95e13, 166912, "A100 40 GB, data sheet"),
    "sm_86": Rates(6.0e11, 1.25e14, 3.12e13, 101376, "A10, data sheet"),
    "sm_87": Rates(2.05e11, 4.3e13, 5.3e12, 166912, "Jetson AGX Orin, data sheet"),
    "sm_89": Rates(8.64e11, 3.62e14, 9.16e13, 101376, "L40S, data sheet"),
    "sm_90": Rates(
        3.0e12, 7.98e14, 6.7e13, 232448, "H100 SXM; f32 from the data sheet, the rest measured"
    ),
}

_KIB = 1024
_MIB = 1024 * 1024


def _gpu(
    num_sms: int, shared_per_sm: int, shared_per_cta: int, threads: int, l2: int, cluster: int = 1
) -> GpuDevice:
    """The resources of a card; of every compute capability an SM has 65536 registers."""
    return GpuDevice(num_sms, shared_per_sm, shared_per_cta, 65536, threads, 32, l2, cluster)


GPUS = {
    "sm_80": _gpu(108, 164 * _KIB, 163 * _KIB, 2048, 40 * _MIB),
    "sm_86": _gpu(72, 100 * _KIB, 99 * _KIB, 1536, 6 * _MIB),
    "sm_87": _gpu(16, 164 * _KIB, 163 * _KIB, 1536, 4 * _MIB),
    "sm_89": _gpu(142, 100 * _KIB, 99 * _KIB, 1536, 96 * _MIB),
    "sm_90": _gpu(132, 228 * _KIB, 227 * _KIB, 2048, 50 * _MIB, 8),
}
"""Compute capability -> the card of `RATES`: A100, A10, AGX Orin, L40S, H100 SXM. SMs and L2 are of
NVIDIA's data sheets; shared memory and threads of the CUDA C++ Programming Guide, table of compute
capabilities; clusters of 8 CTAs are portable, those of 16 are not."""

MMA_SHAPES = {kind: (16, 8, 16) for kind in ("f16", "bf16")}
"""`mma.sync` of sm_80 and later, which IREE 3.13.0 chooses; it has nothing for f32."""

# IREE 3.13.0 does not know sm_90 by name and gives sm_86 the workgroup memory of sm_80, with which
# kernels compile that the card cannot launch. For these the whole device is spelled out.
_SPELLED_OUT = {"sm_86": "+ptx76", "sm_90": "+ptx80"}

# Without it IREE 3.13.0 rounds a product before it is added (`mul.rn`, `add.rn`), unlike its code
# for the CPU, and unlike PyTorch, XLA and Triton.
_CONTRACT = ("--nvptx-fma-level=1",)

_DEVICE = (
    '#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb", '
    "{{iree_codegen.target_info = #iree_gpu.target<"
    'arch = "{arch}", features = "{ptx}", wgp = <'
    "compute = fp64|fp32|fp16|int64|int32|int16|int8, storage = b64|b32|b16|b8, "
    "subgroup = shuffle|arithmetic, dot = dp4xi8toi32, "
    "mma = [<NV_MMA_SYNC_F32_16x8x16_F16>, <NV_MMA_SYNC_F16_16x8x16_F16>, "
    "<NV_MMA_SYNC_F32_16x8x16_BF16>, <NV_WMMA_F32_16x16x16_F16>, <NV_WMMA_F16_16x16x16_F16>], "
    "subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], "
    "max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = {shared}, "
    "max_workgroup_counts = [2147483647, 65535, 65535]>>}}>]> : !hal.device"
)


def create(arch: str) -> Target:
    """The CUDA target.

    Args:
      arch: NVIDIA's name of the compute capability, `sm_80`; that of the GPU of this machine where
        it is empty. A newer card runs the code of the newest one in `RATES`, since PTX is compiled
        again by its driver.

    Raises:
      UsageError: `arch` is not in `RATES`.
    """
    arch = arch or present.cuda_arch(tuple(RATES), DEFAULT_ARCH)
    rates = RATES.get(arch)
    if rates is None:
        raise UsageError(f"unknown target 'cuda:{arch}'{nearest(arch, RATES)}")
    if arch in _SPELLED_OUT:
        device = _DEVICE.format(arch=arch, ptx=_SPELLED_OUT[arch], shared=rates.shared)
        flags: tuple[str, ...] = (f"--iree-hal-target-device={arch}={device}",)
    else:
        flags = ("--iree-hal-target-device=cuda", f"--iree-cuda-target={arch}")
    return Target(
        name="cuda",
        arch=arch,
        device="cuda",
        flags=flags,
        codegen_flags=_CONTRACT,
        feature_flags={"fma": _CONTRACT, "data_tiling": ()},
        bandwidth=rates.bandwidth,
        matmul_rate={"f32": rates.single / MATMUL_SLOWDOWN, "f16": rates.half, "bf16": rates.half},
        vector_rate=rates.single,
        special_rate=rates.single / OPERATIONS_PER_EXPONENTIAL,
        parallelism=ITERATIONS_PER_LANE * max(1, int(rates.single / LANE_RATE)),
        launch_us=LAUNCH_US,
        row_limit=ROW_LIMIT,
        non_power_of_two_row_limit=NON_POWER_OF_TWO_ROW_LIMIT,
        multi_reduction_row_limit=MULTI_REDUCTION_ROW_LIMIT,
        max_attention_head_size=MAX_ATTENTION_HEAD_SIZE,
        attention_size_multiple=ATTENTION_SIZE_MULTIPLE,
        shared_memory=rates.shared,
        mma_shapes=MMA_SHAPES if int(arch.removeprefix("sm_")) >= 80 else {},
        gpu=GPUS.get(arch),
        source=rates.source,
    )
