"""What the engine and the passes may know about a target."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """What a product keeps in registers: rows of the left operand times columns of the right."""

    rows: int
    columns: int


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


@dataclasses.dataclass(frozen=True, slots=True)
class MeasuredConfig:
    """A kernel configuration that was measured to be the fastest for a problem.

    Attributes:
      family: name of the kernel family: `matmul`, `attention`, ...
      problem: field -> value of the family's problem.
      config: field -> value of the family's configuration.
      us: microseconds of the kernel.
    """

    family: str
    problem: Mapping[str, int | str | bool]
    config: Mapping[str, int | str | bool]
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """One machine to compile for: capabilities, modelled rates, and how IREE is told.

    Attributes:
      name: `cpu`, `cuda`, `rocm` or `vulkan`.
      arch: `host`, `sm_90`, `gfx942`, `ampere`, ...
      device: the URI of IREE's runtime driver, e.g. `local-task`, `cuda`, `hip`, `vulkan`.
      flags: arguments of `iree-compile` that choose this target, for both phases.
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
      row_limit: elements of a row, a power of two, that a group of reductions over rows may keep
        and write; None where there is no limit.
      uneven_row_limit: the same for other numbers of elements.
      twice_row_limit: the same where the group sums a row more than once; None for no other limit.
      attention_heads: size of a head up to which IREE's code for attention was measured to be
        faster than that for its parts; None where it was not measured.
      attention_multiple: what queries, keys and heads have to be multiples of for that code to use
        matrix instructions; None where it was not measured.
      kernels: whether kernels of a provider replace groups: limits of IREE's own code do not count.
      subgroup: lanes of a subgroup, where the code generator cannot write sums of rows that no
        multiple of it fills; None elsewhere.
      shared_memory: bytes of workgroup memory; None where it does not apply.
      packed_tiles: tiles of f32 for products with packed weights, the best first; none where no
        measurement shows that packing pays.
      cpu_tiles: tile sizes of softmax and of packed matmuls; None for other targets than CPUs.
      product_tiles: element type of the operands -> rows, columns and terms of the matrix
        instructions that IREE gives a contraction of several results; it pads none. Without them
        such a contraction reads its operands once for each row.
      outer_batch: the same of the instructions that the code generator uses for a contraction with
        one batch loop, and only fails to where that loop is not the outer one of every tensor.
      bf16_instructions: whether the target's instructions round f32 to bf16; where none does,
        integers are rounded to bf16 in integer arithmetic.
      unsupported: pass name or form name (`attention`) -> why this target cannot generate it.
      gpu: resources of the GPU; None for a CPU, and where they are not known.
      source: where the rates come from.
      measured: kernel configurations that the user measured on this machine.
    """

    name: str
    arch: str
    device: str
    flags: tuple[str, ...]
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
    uneven_row_limit: int | None = None
    twice_row_limit: int | None = None
    attention_heads: int | None = None
    attention_multiple: int | None = None
    kernels: bool = False
    subgroup: int | None = None
    shared_memory: int | None = None
    packed_tiles: tuple[Tile, ...] = ()
    cpu_tiles: CpuTiles | None = None
    product_tiles: Mapping[str, tuple[int, int, int]] = dataclasses.field(default_factory=dict)
    outer_batch: Mapping[str, tuple[int, int, int]] = dataclasses.field(default_factory=dict)
    bf16_instructions: bool = True
    unsupported: Mapping[str, str] = dataclasses.field(default_factory=dict)
    gpu: GpuDevice | None = None
    source: str = ""
    measured: tuple[MeasuredConfig, ...] = ()

    def __str__(self) -> str:
        """The spelling that `--target` takes."""
        return self.name if self.arch in ("", "host") else f"{self.name}:{self.arch}"
