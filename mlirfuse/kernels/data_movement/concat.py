"""Kernels for concatenations: parts that lie in memory are copied to their places in one pass."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, known_product
from mlirfuse.kernels.codegen.scalar_ops import POINTERS
from mlirfuse.kernels.codegen.tile_writer import text_of
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.structured.ir import ops

ENTRY = "concat_kernel"

TILE = 2048
"""Elements of a workgroup, at most: 16 for each of 128 threads, two wide accesses of 16 bits."""

WARPS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One part.

    Attributes:
      op: the `tensor.insert_slice`.
      start: its first index along the axis.
      size: its size along the axis.
    """

    op: ir.Operation
    start: int
    size: int


def chain(last: ir.Operation) -> list[ir.Operation]:
    """The insertions into one empty tensor up to the last, in their order; none for others."""
    found = [last]
    while True:
        owner = ops.defining_op(found[-1].operands[1])
        if owner is not None and owner.name == "tensor.empty":
            return found[::-1]
        if owner is None or owner.name != last.name or ops.users(owner.results[0]) != [found[-1]]:
            return []
        found.append(owner)


def plan(group: list[ir.Operation]) -> Plan | NoMatch:
    """Plans a kernel for insertions that together write all of a tensor.

    Args:
      group: what `chain` found.
    """
    whole = group[-1].results[0]
    shape, kind = ops.shape(whole), ops.element_type(whole)
    if None in shape or any(len(op.operands) != 2 for op in group):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel takes static sizes and places")
    if kind not in POINTERS:
        return NoMatch(Reason.ELEMENT_TYPE, f"a concatenation of {kind}")
    if known_product(shape) >= MAX_INDEX:
        return NoMatch(Reason.NOT_PROFITABLE, f"a tensor of {known_product(shape)} elements")
    found = _parts(group, [size or 0 for size in shape])
    if found is None:
        return NoMatch(Reason.STRUCTURE, "the parts are not side by side along one axis")
    axis, parts = found
    inner, outer = known_product(shape[axis + 1 :]), known_product(shape[:axis])
    total = known_product(shape[axis:])
    tiles = -(-total // TILE)
    lines = [
        f"outer = tl.program_id(0) // {tiles}",
        f"at = tl.program_id(0) % {tiles} * {TILE} + tl.arange(0, {TILE})",
    ]
    value = ""
    for number, part in enumerate(parts):
        first, size = part.start * inner, part.size * inner
        lines += [
            f"inside = (at >= {first}) & (at < {first + size})",
            f"part = tl.load(x{number} + outer * {size} + (at - {first}), mask=inside, other=0)",
        ]
        lines.append(f"value = tl.where(inside, part, {value})" if value else "value = part")
        value = "value"
    lines.append(f"tl.store(y0 + outer * {total} + at, value, mask=at < {total})")
    arguments = [(f"x{n}", POINTERS[kind]) for n in range(len(parts))] + [("y0", POINTERS[kind])]
    text = text_of(ENTRY, arguments, lines, f"{len(parts)} parts, {outer} times.")
    return Plan(
        Program(ENTRY, text, tuple(arguments), WARPS, 1),
        tuple(part.op.operands[0] for part in parts),
        (whole,),
        (Extent(outer, repeat=tiles), Extent(1), Extent(1)),
    )


def _parts(group: list[ir.Operation], shape: list[int]) -> tuple[int, list[Part]] | None:
    """The axis of a concatenation and its parts in order; None where they are not side by side."""
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
    parts = sorted((Part(op, o[axis], s[axis]) for op, o, s in boxes), key=lambda part: part.start)
    end = 0
    for part in parts:
        if part.start != end:
            return None
        end += part.size
    return (axis, parts) if end == shape[axis] else None
