"""Copies of operands whose rows start at multiples of 16 bytes, which a kernel before writes.

matmul_kernel     scratch[row, 0:pitch] = A[row, 0:K], zeros
matmul_kernel     the matmul, with vectorized loads of the scratch tensors

Rows of an odd number of elements are loaded one element at a time. A copy pays where each element
is loaded by several tiles. An operand whose innermost dimension is a batch has it outermost in its
copy: `[k, n, batch]` becomes `[batch, k, n]`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TypeVar

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import POINTERS
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    Axis,
    Space,
    known_product,
    power_of_two,
)
from mlirfuse.kernels.codegen.module_text import TextOf, text_of
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES, MatmulConfig
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.structured.ir import ops

T = TypeVar("T")

ENTRY = "matmul_kernel"
"""Name of all kernels of this family."""

COPY_BLOCK, COPY_WARPS = 1024, 4
"""Elements that a CTA copies, and its warps: a thread has eight loads in flight."""

TURNED_LANES = 32
"""Matrices of a batch of which a CTA turns elements, at most: a line of the cache in f32."""

_TYPES = ("f16", "bf16", "f32")

IMPORTS = """\
import triton
import triton.language as tl

from mlirfuse.kernels.device import library, matmul


"""


@dataclasses.dataclass(frozen=True, slots=True)
class AlignedCopy:
    """The copy of an operand.

    Attributes:
      name: name of the scratch tensor in the kernel that reads it.
      value: the operand.
      turned: whether the innermost dimension of the operand, a batch, is outermost in the copy.
    """

    name: str
    value: ir.Value
    turned: bool = False

    def ordered(self, dims: Sequence[T]) -> tuple[T, ...]:
        """What belongs to the dimensions of the operand, in the order of those of the copy."""
        return (dims[-1], *dims[:-1]) if self.turned else tuple(dims)

    @property
    def columns(self) -> int:
        """Elements of a row without the zeros behind it."""
        return self.ordered(ops.shape(self.value))[-1] or 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape: that of the operand with longer rows, which end with zeros."""
        shape = tuple(size or 0 for size in self.ordered(ops.shape(self.value)))
        multiple = VECTOR_BYTES * 8 // ops.element_bits(self.value)
        return (*shape[:-1], -(-shape[-1] // multiple) * multiple)

    @property
    def pitch(self) -> int:
        """Elements of a row."""
        return self.shape[-1]

    def pointers(self, space: Space, axes: Sequence[Axis | None]) -> str:
        """Pointers to the elements at these axes."""
        return f"{self.name} + {space.offset(self.shape, self.ordered(axes))}"

    def stride(self, dim: int) -> str:
        """Elements from one index of a dimension to the next."""
        place = self.ordered(range(len(self.shape))).index(dim)
        return str(known_product(self.shape[place + 1 :]))


def can_copy(analysis: MatmulAnalysis) -> bool:
    """Whether a kernel may copy the operands: of static sizes, in memory, and multiplied alone."""
    operands = [analysis.operand(n) for n in (analysis.first.a, analysis.first.b)]
    return (
        not analysis.prologue
        and analysis.accumulators == 1
        and analysis.m is not None
        and all(is_copyable(value) for value in operands)
    )


def is_copyable(value: ir.Value) -> bool:
    """Whether a kernel may copy a tensor: a whole one of floating-point numbers."""
    op = ops.defining_op(value)
    return (
        ops.element_type(value) in _TYPES
        and None not in ops.shape(value)
        and not (op is not None and op.name == "tensor.extract_slice")
        and all(
            known_product(AlignedCopy("", value, turned).shape) < MAX_INDEX
            for turned in (False, True)
        )
    )


def copies_of(analysis: MatmulAnalysis, config: MatmulConfig) -> Mapping[int, AlignedCopy]:
    """The copies of a configuration: index of an operand -> its copy; empty where none can be."""
    if not config.aligned_copies or not can_copy(analysis):
        return {}
    roles = {"a": analysis.first.a, "b": analysis.first.b}
    chosen = [roles[role] for role in config.aligned_copies]
    batch = analysis.loops.batch
    return {
        n: AlignedCopy(f"s{i}", analysis.operand(n), analysis.maps[n][-1] in batch)
        for i, n in enumerate(chosen)
    }


def bound_of_k(analysis: MatmulAnalysis, copies: Mapping[int, AlignedCopy], index: int) -> int:
    """Elements along K that an operand has, the zeros of a copy among them."""
    copy = copies.get(index)
    if copy is not None and copy.ordered(analysis.maps[index])[-1] == analysis.loops.inner_k:
        return copy.pitch
    return analysis.k


def reading(copies: Sequence[AlignedCopy], plan: Plan) -> Plan:
    """The plan of a kernel whose text reads copies, with the kernel that writes them before it."""
    if not copies:
        return plan
    read = (*arguments(copies), *plan.program.arguments)
    program = dataclasses.replace(plan.program, arguments=read)
    return dataclasses.replace(plan, program=program, before=_copying(copies))


def text_with(
    before: Sequence[tuple[str, str]] = (), after: Sequence[tuple[str, str]] = ()
) -> TextOf:
    """A writer of modules whose kernels have scratch tensors before and after other arguments."""
    return functools.partial(_text, before=tuple(before), after=tuple(after))


def _text(
    entry: str,
    arguments: Sequence[tuple[str, str]],
    lines: Sequence[str],
    note: str,
    *,
    before: tuple[tuple[str, str], ...],
    after: tuple[tuple[str, str], ...],
) -> str:
    return text_of(entry, [*before, *arguments, *after], lines, note, imported=IMPORTS)


def arguments(copies: Sequence[AlignedCopy]) -> list[tuple[str, str]]:
    """Name and type of the arguments that are copies."""
    return [(copy.name, POINTERS[ops.element_type(copy.value)]) for copy in copies]


def _copying(copies: Sequence[AlignedCopy]) -> Plan:
    """The kernel that writes the copies, one after the other in its grid."""
    lines, first = ["pid = tl.program_id(0)"], 0
    for number, copy in enumerate(copies):
        elements, called = known_product(copy.shape), f"copy_rows(x{number}, y{number}"
        ctas, block = -(-elements // COPY_BLOCK), str(COPY_BLOCK)
        if copy.turned:
            batch = copy.shape[0]
            elements //= batch
            lanes = min(TURNED_LANES, power_of_two(batch))
            block = f"{COPY_BLOCK // lanes}, {batch}, {lanes}"
            ctas = -(-elements * lanes // COPY_BLOCK) * -(-batch // lanes)
            called = f"copy_turned_rows(x{number}, y{number}"
        lines += [
            f"if (pid >= {first}) & (pid < {first + ctas}):",
            f"    matmul.{called}, {elements}, {copy.columns}, {copy.pitch},"
            f" pid - {first}, {block})",
        ]
        first += ctas
    kinds = [kind for _, kind in arguments(copies)]
    named = [(f"{letter}{n}", kind) for letter in "xy" for n, kind in enumerate(kinds)]
    note = "Copies of operands with aligned rows."
    text = text_of(ENTRY, named, lines, note, imported=IMPORTS)
    return Plan(
        Program(ENTRY, text, tuple(named), COPY_WARPS, 1),
        tuple(copy.value for copy in copies),
        (),
        (Extent(first), Extent(1), Extent(1)),
        scratch=tuple(tuple(Extent(size) for size in copy.shape) for copy in copies),
        scratch_types=tuple(ops.element_type(copy.value) for copy in copies),
    )
