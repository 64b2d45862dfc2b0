"""The kernels of a compiled program, and the tensors that they exchange.

Kernels are those of IREE's final program: groups of our passes, IREE's own fusions, and copies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

IREE = "iree"
"""Code of a kernel that IREE generates."""

Place = tuple[str, str]
"""Location of an op, and its layer as `blocks/0/norm`; an empty layer where it is unknown."""


def places(ops: Sequence[str], layers: Sequence[str]) -> tuple[Place, ...]:
    """The places of ops, of which the layers of all or of none are known."""
    return tuple(zip(ops, layers or ("",) * len(ops), strict=True))


@dataclasses.dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that a kernel reads or writes.

    Attributes:
      shape: sizes; None for a dynamic one.
      dtype: element type by MLIR's name: `f32`, `bf16`, `i8`, ...
      bytes: its size; None where a dimension is dynamic.
      is_result: whether the kernel writes it.
    """

    shape: tuple[int | None, ...]
    dtype: str
    bytes: int | None
    is_result: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The operand in the shape of the decisions schema."""
        return {**dataclasses.asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Operand:
        """The operand that `to_dict` wrote."""
        return cls(**{**entry, "shape": tuple(entry["shape"])})


@dataclasses.dataclass(frozen=True, slots=True)
class FinalKernel:
    """One dispatch of the final program.

    Attributes:
      name: name of its entry point, by which profilers of IREE, CUDA and Vulkan call it.
      function: function of the model that dispatches it.
      ops: locations of the source ops in it, as `file:line:col` or a name.
      op_names: the names of the same ops; an op that IREE merged of several is named for each.
      operands: tensors that it reads and writes, the results last.
      bytes: bytes of the operands, which it moves at least; of a table that it indexes, those of as
        many elements as it asks for. None where a size is dynamic.
      flops: arithmetic operations of its contractions, reductions and elementwise ops; None where
        a size is dynamic.
      code: the kernel pass that put its code there, as `matmul_triton_kernel`, or `iree`.
      pass_name: the pass that formed it; None for a dispatch that IREE formed.
      match: index of the match of that pass.
      workgroups: number of workgroups by dimension; None where it depends on a dynamic size.
      calls: number of times that a call of the program dispatches it; None in a loop or branch.
      layers: the parts of the model that the same ops come from, as `blocks/0/norm`; empty names
        where unknown.
      executable: name of IREE's executable, since several have an entry point of one name; empty
        where it is not known.
    """

    name: str
    function: str
    ops: tuple[str, ...]
    op_names: tuple[str, ...]
    operands: tuple[Operand, ...]
    bytes: int | None
    flops: int | None
    code: str = IREE
    pass_name: str | None = None
    match: int | None = None
    workgroups: tuple[int, ...] | None = None
    calls: int | None = 1
    layers: tuple[str, ...] = ()
    executable: str = ""

    @property
    def model_function(self) -> str:
        """The function of the model that the kernel belongs to."""
        return self.function.removesuffix("$async")

    @property
    def places(self) -> tuple[Place, ...]:
        """Location and layer of each op."""
        return places(self.ops, self.layers)

    def to_dict(self) -> dict[str, Any]:
        """The kernel in the shape of the decisions schema."""
        return {
            "name": self.name,
            "function": self.function,
            "ops": list(self.ops),
            "op_names": list(self.op_names),
            "operands": [operand.to_dict() for operand in self.operands],
            "bytes": self.bytes,
            "flops": self.flops,
            "code": self.code,
            "pass": self.pass_name,
            "match": self.match,
            "workgroups": None if self.workgroups is None else list(self.workgroups),
            "calls": self.calls,
            "layers": list(self.layers),
            "executable": self.executable,
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> FinalKernel:
        """The kernel that `to_dict` wrote."""
        workgroups = entry["workgroups"]
        return cls(
            name=entry["name"],
            function=entry["function"],
            ops=tuple(entry["ops"]),
            op_names=tuple(entry["op_names"]),
            operands=tuple(Operand.from_dict(operand) for operand in entry["operands"]),
            bytes=entry["bytes"],
            flops=entry["flops"],
            code=entry["code"],
            pass_name=entry["pass"],
            match=entry["match"],
            workgroups=None if workgroups is None else tuple(workgroups),
            calls=entry["calls"],
            layers=tuple(entry.get("layers", ())),
            executable=entry.get("executable", ""),
        )


def moved_bytes(kernels: Sequence[FinalKernel]) -> int | None:
    """Bytes that kernels move; None where one has a dynamic size."""
    sizes = [kernel.bytes for kernel in kernels]
    return None if None in sizes else sum(size for size in sizes if size is not None)
