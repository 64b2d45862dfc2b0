"""Targets as the engine and the passes see them: capabilities, resources and rates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

from mlirfuse.support import renamed

MmaShape: TypeAlias = tuple[int, int, int]
"""M, N and K of a matrix instruction."""

RENAMED_FIELDS: Mapping[str, str] = {
    "attention_heads": "max_attention_head_size",
    "attention_multiple": "attention_size_multiple",
    "outer_batch": "outer_batch_mma_shapes",
    "packed_tiles": "packed_matmul_tiles",
    "product_tiles": "mma_shapes",
    "subgroup": "subgroup_size",
    "twice_row_limit": "multi_reduction_row_limit",
    "uneven_row_limit": "non_power_of_two_row_limit",
}
"""Field of `Target` in version 0.1 -> its name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """A register tile of a matmul's accumulators.

    Attributes:
      m: size along M.
      n: size along N.
    """

    m: int
    n: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CpuTiles:
    """Tile sizes of the loops that passes write for a CPU, by its instruction set.

    Attributes:
      softmax_lanes: accumulators of one row, and the shortest row that pays, in elements.
      softmax_rows: rows in flight in one thread.
      softmax_stack_bytes: stack for the exponentials of the rows in flight, in bytes.
      softmax_workgroup_elements: elements of one workgroup.
      max_softmax_workgroup_rows: upper limit of the rows of one workgroup.
      softmax_uneven_rows: rows in flight where a row's length is no multiple of `softmax_lanes`.
      softmax_uneven_columns: elements of such a row in one vector.
      max_packed_m: upper limit of M that one workgroup computes of a matmul with a packed weight.
      max_packed_n_tiles: upper limit of the register tiles along N in one such workgroup.
      min_data_tiled_n: smallest N of a contraction that data tiling pays for.
    """

    softmax_lanes: int
    softmax_rows: int
    softmax_stack_bytes: int
    softmax_workgroup_elements: int
    max_softmax_workgroup_rows: int
    softmax_uneven_rows: int
    softmax_uneven_columns: int
    max_packed_m: int
    max_packed_n_tiles: int
    min_data_tiled_n: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CpuDevice:
    """Instruction sets and resources of a CPU that tiles and blocks of kernels are computed from.

    Attributes:
      vector_bytes: bytes of a vector register.
      num_registers: vector registers.
      has_fma: whether an instruction multiplies and adds.
      fma_ports: vectors that are multiplied and added in one cycle.
      load_ports: vectors that are loaded in one cycle.
      l1_bytes: bytes of a core's first data cache.
      l2_bytes: bytes of the second cache, divided by the cores that share it.
      l3_bytes: bytes of the last cache that cores share; 0 without one.
      cores: cores that work is distributed over.
      architecture: `x86_64`, `aarch64`, ...
      features: LLVM's names of its instruction sets, sorted, among those that kernels ask for:
        `avx2`, `fma`, `avx512f`, `avx512vnni`, `avx512bf16`, `amx-int8`, `neon`, `dotprod`, `i8mm`,
        `sve`, ...
    """

    vector_bytes: int
    num_registers: int
    has_fma: bool = True
    fma_ports: int = 2
    load_ports: int = 2
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    l3_bytes: int = 16 << 20
    cores: int = 8
    architecture: str = "x86_64"
    features: tuple[str, ...] = ()

    @property
    def lanes(self) -> int:
        """Elements of f32 in a vector register."""
        return self.vector_bytes // 4

    @property
    def masked_bits(self) -> int | None:
        """The fewest bits of elements that it loads and stores under a mask; None where no.

        Without such instructions each element has a branch of its own.
        """
        if self.has("avx512bw", "sve"):
            return 8
        return 32 if self.has("avx", "avx2", "avx512f") else None

    def has(self, *features: str) -> bool:
        """Whether the CPU has one of these instruction sets, by LLVM's names."""
        return not set(features).isdisjoint(self.features)


@dataclasses.dataclass(frozen=True, slots=True)
class MeasuredConfig:
    """A kernel configuration that was measured to be the fastest for a problem.

    Attributes:
      family: name of the kernel family: `matmul`, `attention`, ...
      problem: field -> value of the family's problem.
      config: field -> value of the family's configuration; None where no configuration beat the
        computed one.
      us: microseconds of the kernel.
    """

    family: str
    problem: Mapping[str, int | str | bool]
    config: Mapping[str, int | str | bool] | None
    us: float


@dataclasses.dataclass(frozen=True, slots=True)
class GpuDevice:
    """Resources of a GPU that configurations of kernels are computed from.

    Attributes:
      num_sms: multiprocessors (compute units on AMD GPUs).
      shared_memory_per_sm: bytes of shared memory (LDS) of a multiprocessor.
      shared_memory_per_cta: bytes of it that one CTA may use.
      registers_per_sm: 32-bit registers of a multiprocessor.
      max_threads_per_sm: threads that a multiprocessor holds.
      warp_size: threads of a warp (wavefront).
      l2_bytes: bytes of the last cache that all multiprocessors share.
      max_cluster_size: CTAs of a thread block cluster; 1 where there are no clusters.
    """

    num_sms: int
    shared_memory_per_sm: int
    shared_memory_per_cta: int
    registers_per_sm: int
    max_threads_per_sm: int
    warp_size: int
    l2_bytes: int
    max_cluster_size: int = 1


@renamed.renamed_fields(RENAMED_FIELDS)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """One machine to compile for: capabilities, modelled rates, and flags of IREE.

    Attributes:
      name: `cpu`, `cuda`, `rocm` or `vulkan`.
      arch: `host`, `sm_90`, `gfx942`, `ampere`, ...
      device: the URI of IREE's runtime driver, e.g. `local-task`, `cuda`, `hip`, `vulkan`.
      flags: arguments of `iree-compile` that choose this target, for both phases.
      demotes_f64: whether f64 becomes f32, for a device without it; then arguments and results do.
      codegen_flags: arguments for the code generation phase of a program fused by us only.
      feature_flags: code generation feature -> those of `codegen_flags` that are left out when it
        is off; a feature that is missing here cannot be switched off on this target.
      bandwidth: bytes per second of main memory, read and written bytes counted.
      matmul_rate: floating-point operations per second of contractions, by element type.
      vector_rate: floating-point operations per second of elementwise work, f32.
      special_rate: exponentials, divisions, roots and the like per second, f32.
      parallelism: independent iterations that keep the device busy.
      launch_us: microseconds that one more dispatch costs.
      max_operands: operands and results that IREE takes in one dispatch.
      stack_limit: bytes of a CPU thread's stack that a dispatch may use; None where it does not
        apply.
      row_limit: elements of a row, a power of two, that a group of row reductions may buffer and
        write; None for no limit.
      non_power_of_two_row_limit: the same for other numbers of elements.
      multi_reduction_row_limit: the same for a group that reduces a row more than once; None for no
        limit of its own.
      max_attention_head_size: head size up to which IREE's code for attention was measured to be
        faster than separate ops; None where it was not measured.
      attention_size_multiple: divisor of the numbers of queries and keys and of head sizes with
        which that code uses matrix instructions; None where it was not measured.
      kernels: whether kernels of a provider replace groups: limits of IREE's own code do not count.
      vector_kernels: whether kernels in the vector dialect replace groups, on a CPU.
      subgroup_size: lanes of a subgroup, where the code generator cannot lower reductions of rows
        that are no multiple of it; None elsewhere.
      shared_memory: bytes of workgroup memory; None where it does not apply.
      packed_matmul_tiles: register tiles of f32 matmuls with packed weights, the best first; none
        where no measurement shows that packing pays.
      cpu_tiles: tile sizes of softmax and of packed matmuls; None for other targets than CPUs.
      mma_shapes: element type of the operands -> M, N and K of the matrix instructions that IREE
        uses for a contraction of several results, without padding. Without them such a contraction
        reads its operands once for each index of M.
      outer_batch_mma_shapes: the same of the instructions that the code generator uses for a
        contraction with one batch loop only where that loop is the outermost of every tensor.
      missing_mma_shapes: element type -> M, N and K of the instructions that IREE chooses for
        contractions whose N they divide an odd number of times, and has no code for.
      bf16_instructions: whether the target's instructions round f32 to bf16; where none does,
        integers are rounded to bf16 in integer arithmetic.
      unsupported: pass name or form name (`attention`) -> why this target cannot generate it.
      gpu: resources of the GPU; None for a CPU, and where they are not known.
      cpu: resources of the CPU; None for a GPU.
      source: where the rates come from.
      calibrated: whether the rates were measured on this machine.
      measured: kernel configurations that the user measured on this machine.
      contracts: whether kernels contract a multiply and an add into one rounding.
      float32_matmul_precision: precision of f32 contractions in kernels, a value of the switch of
        that name: `highest`, `high` or `medium`.
      float32_conv_precision: the same of f32 convolutions.
    """

    name: str
    arch: str
    device: str
    flags: tuple[str, ...]
    demotes_f64: bool = False
    codegen_flags: tuple[str, ...] = ()
    feature_flags: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    bandwidth: float
    matmul_rate: Mapping[str, float]
    vector_rate: float
    special_rate: float
    parallelism: int
    launch_us: float
    max_operands: int = 16
    stack_limit: int | None = None
    row_limit: int | None = None
    non_power_of_two_row_limit: int | None = None
    multi_reduction_row_limit: int | None = None
    max_attention_head_size: int | None = None
    attention_size_multiple: int | None = None
    kernels: bool = False
    vector_kernels: bool = False
    subgroup_size: int | None = None
    shared_memory: int | None = None
    packed_matmul_tiles: tuple[Tile, ...] = ()
    cpu_tiles: CpuTiles | None = None
    mma_shapes: Mapping[str, MmaShape] = dataclasses.field(default_factory=dict)
    outer_batch_mma_shapes: Mapping[str, MmaShape] = dataclasses.field(default_factory=dict)
    missing_mma_shapes: Mapping[str, MmaShape] = dataclasses.field(default_factory=dict)
    bf16_instructions: bool = True
    unsupported: Mapping[str, str] = dataclasses.field(default_factory=dict)
    gpu: GpuDevice | None = None
    cpu: CpuDevice | None = None
    source: str = ""
    calibrated: bool = False
    measured: tuple[MeasuredConfig, ...] = ()
    contracts: bool = True
    float32_matmul_precision: str = "highest"
    float32_conv_precision: str = "highest"

    def __str__(self) -> str:
        """The spelling that `--target` takes."""
        return self.name if self.arch in ("", "host") else f"{self.name}:{self.arch}"
