"""Plans of kernels, and their object code.

    plan = family.plan(region, target)         Plan, or NoMatch with the reason
    kernel = triton_compiler.build(...)        Kernel: object code and its launch
    extern_dispatch.replace(region, plan, ...) the region becomes a `hal.dispatch.extern`

A plan is made from the region alone, without Triton; building it needs Triton, in a process of its
own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.problem import Problem

ALIGNMENT = 16
"""Bytes to which kernels take buffers as aligned, unless `Program.alignments` says otherwise."""


@dataclasses.dataclass(frozen=True, slots=True)
class Extent:
    """CTAs along one axis of the grid: `ceildiv(size, block)`, times `repeat`.

    Attributes:
      size: iterations, those of dynamic dimensions left out.
      block: iterations of one CTA.
      sizes: indices of the plan's dynamic sizes that are factors of the iterations.
      repeat: CTAs for each block of iterations.
      repeats: indices of the dynamic sizes that are factors of `repeat`.
    """

    size: int
    block: int = 1
    sizes: tuple[int, ...] = ()
    repeat: int = 1
    repeats: tuple[int, ...] = ()

    def count(self, known: Sequence[int]) -> int:
        """The number of CTAs for these dynamic sizes."""
        size = self.size * math.prod(known[n] for n in self.sizes)
        repeat = self.repeat * math.prod(known[n] for n in self.repeats)
        return -(-size // self.block) * repeat


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """A dynamic size that a kernel has as an argument.

    Attributes:
      value: a tensor that has it: an operand or a result of the kernel.
      dim: the dimension.
    """

    value: ir.Value
    dim: int


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """The text of a kernel and its compilation options: all that its object code depends on.

    Attributes:
      entry: name of the kernel in `source`.
      source: a Python module that defines it.
      arguments: name and type (`*fp16`, `i32`) of each: the operands, the results, the sizes.
      num_warps: warps of one CTA.
      num_stages: depth of the software pipeline of loads.
      cluster_size: CTAs along x of a thread block cluster.
      max_registers: registers of a thread at most; 0 for no limit.
      contracts: whether a multiply and an add have one rounding.
      alignments: bytes to which each tensor of `arguments` is aligned; empty where all are to
        `ALIGNMENT`.
      ptx_version: the PTX that its instructions need, such as 81, where that is a newer one than
        other kernels have; else 0.
    """

    entry: str
    source: str
    arguments: tuple[tuple[str, str], ...]
    num_warps: int
    num_stages: int
    cluster_size: int = 1
    max_registers: int = 0
    alignments: tuple[int, ...] = ()
    contracts: bool = True
    ptx_version: int = 0

    @property
    def in_gluon(self) -> bool:
        """Whether the kernel is one in Gluon."""
        return "@gluon.jit" in self.source


@dataclasses.dataclass(frozen=True, slots=True)
class Workspace:
    """Memory of one kernel alone: an argument after its results, or before them where it is zeroed.

    IREE binds what a kernel updates before what it only writes.

    Attributes:
      elements: their number.
      element_type: their type.
      zeroed: whether they are zero when the kernel starts; else they may be anything.
    """

    elements: int
    element_type: str
    zeroed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A kernel that computes a region.

    Attributes:
      program: the kernel before compilation.
      operands: the tensors that it reads, in the order of its arguments.
      results: values inside the region that it writes, in the order of its arguments.
      grid: CTAs along x, y and z.
      sizes: the dynamic sizes, which are the kernel's last arguments, i32 each.
      problem: the problem that its configuration was chosen by; None where there is no choice.
      scratch: shapes of tensors that the kernel writes in place of the results, without blocks.
      scratch_types: their element types; empty where all are f32.
      destination: a tensor that the kernel updates in place, and that then is its one result; None
        where it writes results without reading them.
      before: a kernel that runs first; this one's first arguments are its scratch.
      workspaces: memory that only this kernel uses.
      instead: the plan in the place of one in Gluon, where Triton does not build that; None without
        another one.
    """

    program: Program
    operands: tuple[ir.Value, ...]
    results: tuple[ir.Value, ...]
    grid: tuple[Extent, ...]
    sizes: tuple[Size, ...] = ()
    problem: Problem | None = None
    scratch: tuple[tuple[Extent, ...], ...] = ()
    before: Plan | None = None
    scratch_types: tuple[str, ...] = ()
    destination: ir.Value | None = None
    workspaces: tuple[Workspace, ...] = ()
    instead: Plan | None = None

    def kernels(self) -> tuple[Plan, ...]:
        """The plans of all its kernels, in the order in which they run."""
        return (self,) if self.before is None else (*self.before.kernels(), self)

    def without_contraction(self) -> Plan:
        """The same, of kernels that round each product before they add to it."""
        before, instead = (
            None if plan is None else plan.without_contraction()
            for plan in (self.before, self.instead)
        )
        program = dataclasses.replace(self.program, contracts=False)
        return dataclasses.replace(self, program=program, before=before, instead=instead)


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """Object code of a program.

    Attributes:
      code: PTX text for CUDA, ELF for ROCm, as the driver loads it.
      workgroup_size: threads along x, y and z.
      shared_memory: bytes of dynamic shared memory.
      suffix: suffix of a file with the code: `ptx`, `hsaco`.
      declared: bytes of static shared memory.
    """

    code: bytes
    workgroup_size: tuple[int, int, int]
    shared_memory: int
    suffix: str
    declared: int = 0

    @property
    def workgroup_memory(self) -> int:
        """Bytes of all its shared memory."""
        return self.shared_memory + self.declared
