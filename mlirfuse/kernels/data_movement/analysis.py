"""Reads a chain of `tensor.insert_slice`, or a `tensor.concat`, along one axis."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import POINTERS
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, known_product
from mlirfuse.kernels.codegen.tile_writer import computing
from mlirfuse.kernels.data_movement.problem import ConcatProblem
from mlirfuse.structured.ir import destination, ops

INSERT, CONCAT, PAD = "tensor.insert_slice", "tensor.concat", "tensor.pad"


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A concatenated tensor.

    Attributes:
      value: the tensor.
      start: its first index along the axis.
      size: its size along the axis.
    """

    value: ir.Value
    start: int
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class ConcatAnalysis:
    """A concatenation.

    Attributes:
      result: the result.
      axis: the dimension of the concatenation.
      parts: its parts in their order along the axis.
    """

    result: ir.Value
    axis: int
    parts: tuple[Part, ...]

    @property
    def outer(self) -> int:
        """The product of the sizes before the axis."""
        return known_product(ops.shape(self.result)[: self.axis])

    @property
    def inner(self) -> int:
        """The product of the sizes after the axis."""
        return known_product(ops.shape(self.result)[self.axis + 1 :])

    @property
    def row_elements(self) -> int:
        """Contiguous elements of the result, of all parts."""
        return known_product(ops.shape(self.result)[self.axis :])


def insertions(last: ir.Operation) -> list[ir.Operation]:
    """The insertions into one tensor up to the last, in their order.

    Empty where another op uses a tensor between them.
    """
    found = [last]
    while (owner := ops.defining_op(found[-1].operands[1])) is not None and owner.name == last.name:
        if ops.users(owner.results[0]) != [found[-1]]:
            return []
        found.append(owner)
    return found[::-1]


def chain(last: ir.Operation) -> list[ir.Operation]:
    """The insertions into one empty tensor up to the last, in their order; empty for others."""
    group = insertions(last)
    base = ops.defining_op(group[0].operands[1]) if group else None
    return group if base is not None and base.name == "tensor.empty" else []


def concatenated_by(last: ir.Operation) -> list[ir.Operation]:
    """The ops of a concatenation: a `tensor.concat`, or the insertions up to the last."""
    if last.name == CONCAT:
        return [last]
    return chain(last) if last.name == INSERT else []


def copied_parts(last: ir.Operation) -> list[ir.Operation]:
    """The insertions of a concatenation whose largest part no group writes; empty for others.

    Args:
      last: a `tensor.insert_slice`, the last one of those that are looked for.
    """
    group = [] if ops.in_region(last) else chain(last)
    if len(group) < 2 or has_more(last):
        return []
    largest = max(group, key=lambda op: ops.num_elements(op.operands[0]))
    writer = destination.writer(largest.operands[0], largest)
    return [] if isinstance(writer, destination.Writer) else group


def has_more(last: ir.Operation) -> bool:
    """Whether a user of an insertion's result inserts another part into it."""
    result = last.results[0]
    return any(u.name == INSERT and u.operands[1] == result for u in ops.users(result))


def is_written_in_place(group: Iterable[ir.Operation]) -> bool:
    """Whether regions compute most of what ops insert, concatenate or pad, each for one of them."""
    size = {True: 0, False: 0}
    for op in group:
        if op.name not in (INSERT, CONCAT, PAD):
            continue
        for part in op.operands if op.name == CONCAT else op.operands[:1]:
            owner = ops.defining_op(part)
            in_place = owner is not None and owner.name == ops.REGION and len(ops.users(part)) == 1
            size[in_place] += ops.num_elements(part)
    return size[True] > size[False]


def is_concatenation(group: Sequence[ir.Operation]) -> bool:
    """Whether ops are the insertions of one concatenation of tensors from outside of a region."""
    if not group or any(op.name != INSERT for op in group) or chain(group[-1]) != [*group]:
        return False
    owners = [ops.defining_op(op.operands[0]) for op in group]
    return not any(owner is not None and ops.in_region(owner) for owner in owners)


def analyze(region: ir.Operation) -> ConcatAnalysis | NoMatch | None:
    """Reads a region of one concatenation; None for another kind of region."""
    group = computing(region)
    return analyze_chain(group) if is_concatenation(group) else None


def analyze_chain(group: Sequence[ir.Operation]) -> ConcatAnalysis | NoMatch:
    """Reads the insertions that `chain` found, or one `tensor.concat`."""
    result = group[-1].results[0]
    shape, kind = ops.shape(result), ops.element_type(result)
    dynamic = any(op.name == INSERT and len(op.operands) != 2 for op in group)
    if None in shape or dynamic:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel takes static sizes and offsets")
    if kind not in POINTERS:
        return NoMatch(Reason.ELEMENT_TYPE, f"a concatenation of {kind}")
    if known_product(shape) >= MAX_INDEX:
        return NoMatch(Reason.NOT_PROFITABLE, f"a tensor of {known_product(shape)} elements")
    if group[-1].name == CONCAT:
        return _of_concat(group[-1])
    found = _parts(group, [size or 0 for size in shape])
    if found is None:
        return NoMatch(Reason.STRUCTURE, "the parts are not adjacent along one axis")
    axis, parts = found
    return ConcatAnalysis(result, axis, tuple(parts))


def _of_concat(op: ir.Operation) -> ConcatAnalysis:
    axis = int(op.attributes["dim"].value)
    sizes = [ops.shape(value)[axis] or 0 for value in op.operands]
    starts = itertools.accumulate(sizes, initial=0)
    parts = map(Part, op.operands, starts, sizes)
    return ConcatAnalysis(op.results[0], axis, tuple(parts))


def problem_of(analysis: ConcatAnalysis) -> ConcatProblem:
    """The problem that the configuration is chosen by."""
    elements = known_product(ops.shape(analysis.result))
    return ConcatProblem(elements, len(analysis.parts), ops.element_bits(analysis.result))


def _parts(group: Sequence[ir.Operation], shape: list[int]) -> tuple[int, list[Part]] | None:
    """The axis of a concatenation and its parts in order; None where they are not adjacent."""
    boxes = []
    for op in group:
        if not ops.has_unit_strides(op):
            return None
        offsets, sizes = (list(op.attributes[n]) for n in ("static_offsets", "static_sizes"))
        boxes.append((op, offsets, sizes))
    axes = [n for n, size in enumerate(shape) if any(box[2][n] != size for box in boxes)]
    if len(axes) != 1:
        return None
    (axis,) = axes
    found = [Part(op.operands[0], offsets[axis], sizes[axis]) for op, offsets, sizes in boxes]
    parts = sorted(found, key=lambda part: part.start)
    end = 0
    for part in parts:
        if part.start != end:
            return None
        end += part.size
    return (axis, parts) if end == shape[axis] else None
