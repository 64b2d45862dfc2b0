"""The part of each tensor that a slice of a result needs, back to tensors that more is needed of.

    %h = elementwise(%x)                     all of %x is needed by others, too
    %y = matmul(%h, %w)                      rows 0, 32, 64 of %h
    %e = expand_shape %y                     [4, 32, n]
    %s = extract_slice %e[0, 0, 0] [4, 1, n]

An op is a member if nothing but the slice, or slices equal to it, needs its result, and all that
need it need the same part. The indices along each dimension of a part are a progression.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.structured.ir import ops

_SLICE, _EXPAND, _COLLAPSE = "tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape"


@dataclasses.dataclass(frozen=True, slots=True)
class Progression:
    """The indices `offset + n * step` for `n` below `size`."""

    offset: int
    size: int
    step: int


Part = tuple[Progression, ...]
"""The indices along each dimension of a tensor."""


def whole(shape: Sequence[int | None]) -> Part:
    """All of a tensor of static sizes."""
    return tuple(Progression(0, size or 0, 1) for size in shape)


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """What a slice needs.

    Attributes:
      cuts: the slice, and those that are equal to it, in block order.
      members: the ops of whose results a part is computed, in block order.
      parts: the part of the sliced tensor, and of each member's result.
      reads: for each member the part of each tensor that it reads.
      loops: for each member that has loops, the indices along those that it runs in part.
    """

    cuts: tuple[ir.Operation, ...]
    members: tuple[ir.Operation, ...]
    parts: Mapping[ir.Value, Part]
    reads: Mapping[ir.Operation, Sequence[tuple[ir.Value, Part]]]
    loops: Mapping[ir.Operation, Mapping[int, Progression]]


def demand_of(root: ir.Operation) -> Demand | None:
    """Follows a static `tensor.extract_slice` back; None for another op or without a member."""
    source, part = root.operands[0], cut_of(root)
    if part is None:
        return None
    cuts = [op for op in ops.users(source) if op.name == _SLICE and cut_of(op) == part]
    if len(cuts) != len(ops.users(source)) or any(op.block != root.block for op in cuts):
        return None
    if ops.defining_op(source) is None:
        return None
    following = _Following(cuts, {source: part})
    for view in reversed([*root.block.operations]):
        following.visit(view.operation)
    members = tuple(reversed(following.members))
    if not members:
        return None
    return Demand(tuple(cuts), members, following.parts, following.reads, following.loops)


class _Following:
    """The demand while it is followed back."""

    def __init__(self, cuts: Sequence[ir.Operation], parts: dict[ir.Value, Part]) -> None:
        self.members: list[ir.Operation] = []
        self.parts = parts
        self.reads: dict[ir.Operation, Sequence[tuple[ir.Value, Part]]] = {}
        self.loops: dict[ir.Operation, dict[int, Progression]] = {}
        self._known = set(cuts)
        # Values that members read in several parts.
        self._several: set[ir.Value] = set()

    def visit(self, op: ir.Operation) -> None:
        """Makes an op a member, if nothing needs more of its result."""
        if len(op.results) != 1 or op.results[0] not in self.parts:
            return
        result = op.results[0]
        part = self.parts[result]
        if result in self._several or part == whole(ops.shape(result)):
            return
        if any(user not in self._known for user in ops.users(result)):
            return
        read = self._read(op, part)
        if read is None:
            return
        self.members.append(op)
        self.reads[op] = read
        self._known.add(op)
        for value, needed in read:
            if self.parts.setdefault(value, needed) != needed:
                self._several.add(value)

    def _read(self, op: ir.Operation, part: Part) -> list[tuple[ir.Value, Part]] | None:
        """The parts of its operands that an op needs for a part of its result."""
        if any(ops.ranked(v) is not None and None in ops.shape(v) for v in op.operands):
            return None
        source = op.operands[0] if len(op.operands) else None
        if op.name == _SLICE and source is not None:
            taken = cut_of(op)
            return None if taken is None else [(source, _of_slice(taken, part))]
        if op.name == _EXPAND and source is not None:
            sizes = [size or 0 for size in ops.shape(op.results[0])]
            found = [
                merged_indices([part[d] for d in group], [sizes[d] for d in group])
                for group in ops.reassociation(op)
            ]
            known = [each for each in found if each is not None]
            return [(source, tuple(known))] if len(known) == len(found) else None
        if op.name == _COLLAPSE and source is not None:
            dims: list[Progression] = []
            for one, group in zip(part, ops.reassociation(op), strict=True):
                split = split_indices(one, [ops.shape(source)[d] or 0 for d in group])
                if split is None:
                    return None
                dims += split
            return [(source, tuple(dims))]
        if op.name == "linalg.softmax":
            axis = ops.softmax_axis(op)
            rows = part[axis] == whole(ops.shape(op.results[0]))[axis]
            return [(value, part) for value in op.operands] if rows else None
        return self._read_by_loops(op, part)

    def _read_by_loops(self, op: ir.Operation, part: Part) -> list[tuple[ir.Value, Part]] | None:
        """The same of an op with loops and projected permutations for its maps."""
        maps = ops.indexing_maps(op)
        if (
            not op.name.startswith("linalg.")
            or not maps
            or None in maps
            or op.name == "linalg.fill"
        ):
            return None
        *_, written = maps
        if len(op.operands) != len(maps) or written is None or None in written:
            return None
        loops = {
            loop: each
            for loop, each, every in zip(
                written, part, whole(ops.shape(op.results[0])), strict=True
            )
            if loop is not None and each != every
        }
        found = []
        for value, index_map in zip(op.operands, maps, strict=True):
            if ops.ranked(value) is None:
                continue
            needed = tuple(
                every if loop is None else loops.get(loop, every)
                for loop, every in zip(index_map or (), whole(ops.shape(value)), strict=True)
            )
            found.append((value, needed))
        self.loops[op] = loops
        return found


def cut_of(op: ir.Operation) -> Part | None:
    """The part that a static slice takes; None for another slice."""
    source = ops.shape(op.operands[0])
    boxes = ops.slice_params(op).boxes if len(op.operands) == 1 else ()
    if None in source or len(boxes) != len(source):
        return None
    found = [Progression(*each) for each in boxes if all(isinstance(n, int) for n in each)]
    return tuple(found) if len(found) == len(boxes) else None


def _of_slice(taken: Part, part: Part) -> Part:
    """The part of a tensor that is a part of its slice."""
    if len(taken) != len(part):
        part = _with_dropped(taken, part)
    return tuple(
        Progression(outer.offset + inner.offset * outer.step, inner.size, inner.step * outer.step)
        for outer, inner in zip(taken, part, strict=True)
    )


def _with_dropped(taken: Part, part: Part) -> Part:
    """The part of a slice with the dimensions that it drops."""
    left = list(part)
    kept = kept_dims(taken, len(part))
    return tuple(left.pop(0) if d in kept else Progression(0, 1, 1) for d in range(len(taken)))


def kept_dims(part: Part, rank: int) -> list[int]:
    """The dimensions of a part that a slice of that rank keeps: the first of size one are dropped.

    Which of them it drops makes no difference.
    """
    missing, found = len(part) - rank, []
    for dim, one in enumerate(part):
        if missing and one.size == 1:
            missing -= 1
        else:
            found.append(dim)
    return found


def merged_indices(dims: Sequence[Progression], sizes: Sequence[int]) -> Progression | None:
    """The indices of a dimension that was expanded to some; None where they are no progression."""
    offset, stride = 0, 1
    size, step = 1, 1
    for one, length in zip(reversed(dims), reversed(sizes), strict=True):
        offset += one.offset * stride
        if one.size > 1:
            if size > 1 and one.step * stride != size * step:
                return None
            step = step if size > 1 else one.step * stride
            size *= one.size
        stride *= length
    return Progression(offset, size, step)


def split_indices(one: Progression, sizes: Sequence[int]) -> list[Progression] | None:
    """The indices along each dimension that was merged into one; None where they are no box."""
    if one == Progression(0, math.prod(sizes), 1):
        return list(whole(sizes))
    if not sizes:
        return [] if one.size == 1 and one.offset == 0 else None
    *outer, inner = sizes
    first, offset = one.offset % inner, one.offset // inner
    if one.size == 1 or one.step % inner == 0:
        last = Progression(first, 1, 1)
        rest = Progression(offset, one.size, max(1, one.step // inner))
    elif first + one.step * (one.size - 1) < inner:
        last, rest = Progression(first, one.size, one.step), Progression(offset, 1, 1)
    elif inner % one.step == 0 and first < one.step and one.size % (inner // one.step) == 0:
        count = inner // one.step
        last, rest = Progression(first, count, one.step), Progression(offset, one.size // count, 1)
    else:
        return None
    before = split_indices(rest, outer)
    return None if before is None else [*before, last]
