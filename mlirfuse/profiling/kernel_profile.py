"""The measured time of one kernel, beside what limits it."""

from __future__ import annotations

import dataclasses
from typing import Any

from mlirfuse.final_kernels import Operand


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelProfile:
    """The time of a kernel in one call of the program, all of its launches together.

    Attributes:
      name: name of its entry point.
      calls: launches in one call of the program.
      min_us: microseconds in the fastest call.
      median_us: microseconds in the median call.
      share: part of the sum of all kernels' medians, from 0 to 1.
      bytes: bytes of its operands, all launches together; None where they are not known.
      flops: arithmetic operations, all launches together; None where they are not known.
      bytes_per_second: `bytes` over the median; None where they are not known.
      copy_share: the same as a part of the device's copy rate; above 1 where operands are in a
        cache.
      flops_per_second: `flops` over the median; None where they are not known.
      peak_share: the same as a part of the device's peak for such arithmetic.
      bound: the device's resource that would take the longest at its full rate: `memory`,
        `compute` or `launch`; None where bytes, flops or rates are not known.
      workgroups: workgroups along x, y, z; None where launches differ.
      workgroup_size: threads of a workgroup; None on a CPU.
      registers: 32-bit registers of a thread; None where they are not known.
      shared_memory: bytes of shared memory of a workgroup; None where they are not known.
      local_memory: bytes of spilled registers of a thread; None where they are not known.
      occupancy: part of a multiprocessor's threads that are resident; None where it is not known.
      ops: locations of the source ops in it.
      op_names: names of its ops.
      layers: parts of the model that they come from, as `blocks/0/norm`.
      origins: location and layer of each op, by which kernels of two programs are matched; not in
        JSON.
      operands: tensors that it reads and writes; those of its first launch.
      code: the kernel pass that put its code there, or `iree`; None where it is not known.
      pass_name: the pass that formed it; None for a dispatch of IREE's own.
      executable: name of IREE's executable; empty where it is not known.
      launch: ordinal of its first launch in a call among those of its name.
    """

    name: str
    calls: int
    min_us: float
    median_us: float
    share: float
    bytes: int | None = None
    flops: int | None = None
    bytes_per_second: float | None = None
    copy_share: float | None = None
    flops_per_second: float | None = None
    peak_share: float | None = None
    bound: str | None = None
    workgroups: tuple[int, ...] | None = None
    workgroup_size: tuple[int, ...] | None = None
    registers: int | None = None
    shared_memory: int | None = None
    local_memory: int | None = None
    occupancy: float | None = None
    ops: tuple[str, ...] = ()
    op_names: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    origins: frozenset[tuple[str, str]] = frozenset()
    operands: tuple[Operand, ...] = ()
    code: str | None = None
    pass_name: str | None = None
    executable: str = ""
    launch: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The kernel as JSON has it; the pass is called `pass`, as in decisions."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        fields["pass"] = fields.pop("pass_name")
        del fields["origins"]
        fields["operands"] = [operand.to_dict() for operand in self.operands]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}
