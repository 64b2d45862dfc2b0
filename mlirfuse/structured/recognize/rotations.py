"""Rotary embeddings of transposed heads, and of heads in adjacent slices of one tensor.

    %t = linalg.generic {transpose} ins(%x)            tensor<SxHxDxT> -> tensor<HxSxDxT>
    %e = tensor.expand_shape %t [[0], [1], [2, 3]]     tensor<HxSx2x(D/2)xT>
    %r = linalg.generic {extract %e at the other half, negated in the first}
    %y = %t * cos + (tensor.collapse_shape %r) * sin   tensor<HxSxDxT>

Queries and keys of one projection are slices of one tensor with equivalent rotations.
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import equivalence, ops, slices
from mlirfuse.structured.recognize import gathers


@dataclasses.dataclass(frozen=True, slots=True)
class Rotation:
    """A rotation that reads its heads through a transpose.

    Attributes:
      gather: the gather that swaps the halves.
      reshape: the collapse that is its only user.
      chain: the elementwise epilogue, in block order, in the transpose's dimensions.
      split: the expand of the transposed heads that the gather reads.
      moved: the transpose, used by the split and the chain only.
    """

    gather: ir.Operation
    reshape: ir.Operation
    chain: tuple[ir.Operation, ...]
    split: ir.Operation
    moved: ir.Operation

    @property
    def ops(self) -> list[ir.Operation]:
        """All of it, in block order."""
        own = {self.gather, self.reshape, self.split, self.moved, *self.chain}
        return slices.in_order(own)

    @property
    def source(self) -> ir.Value:
        """The heads before the transpose."""
        value: ir.Value = self.moved.operands[0]
        return value

    @property
    def end(self) -> ir.Value:
        """The rotated heads."""
        value: ir.Value = self.chain[-1].results[0]
        return value

    @property
    def permutation(self) -> tuple[int, ...]:
        """For each dimension of the source, the dimension of the transposed heads."""
        read, _ = ops.plain_maps(self.moved)
        return tuple(d for d in read if d is not None)


@dataclasses.dataclass(frozen=True, slots=True)
class Rotations:
    """Equivalent rotations of contiguous slices of one tensor along an axis.

    Attributes:
      members: rotations in the order of their slices; a single one may read any tensor.
      axis: axis of the source; None for a single rotation.
      offset: offset of the first slice.
    """

    members: tuple[Rotation, ...]
    axis: int | None = None
    offset: int = 0

    @property
    def ops(self) -> list[ir.Operation]:
        """All of it, in block order."""
        return slices.in_order({op for member in self.members for op in member.ops})


def rotations(gather: ir.Operation, max_operands: int) -> Rotations | NoMatch:
    """The rotation of transposed heads, with earlier rotations of adjacent slices.

    Args:
      gather: a `gathers.is_rotation` of a transpose.
      max_operands: operands and results that a dispatch may have.
    """
    own = _rotation(gather, max_operands)
    if isinstance(own, NoMatch):
        return own
    found = [own, *_equivalent_rotations(own, max_operands)]
    parts = {part: r for r in found if (part := _part(r.source)) is not None}
    run = _contiguous(sorted(parts), _part(own.source))
    if len(run) < 2:
        return Rotations((own,))
    axis, offset, _ = run[0]
    together = Rotations(tuple(parts[part] for part in run), axis, offset)
    return Rotations((own,)) if slices.cycle(together.ops) else together


def _rotation(gather: ir.Operation, max_operands: int) -> Rotation | NoMatch:
    left = NoMatch(Reason.LEFT_TO_PRODUCER, "the gather reads a transpose")
    (extract,) = (
        o.operation for o in ops.body(gather).operations if o.operation.name == "tensor.extract"
    )
    split = ops.defining_op(extract.operands[0])
    if split is None or split.name != "tensor.expand_shape" or _users_in_block(split) != [gather]:
        return left
    moved = ops.defining_op(split.operands[0])
    if moved is None or not ops.is_projection(moved) or ops.in_region(moved):
        return left
    read, out = ops.plain_maps(moved)
    loops = tuple(range(len(out)))
    if out != loops or None in read or sorted(d for d in read if d is not None) != list(loops):
        return left
    found = gathers.gathered(gather, max_operands, takes_epilogues=True, takes_moved=True)
    if not isinstance(found, gathers.Gathered):
        return found or left
    reshape = found.reshape
    if found.before or reshape is None or reshape.name != "tensor.collapse_shape":
        return left
    if ops.reassociation(reshape) != ops.reassociation(split):
        return left
    rotation = Rotation(gather, reshape, found.chain, split, moved)
    shape = ops.shape(moved.results[0])
    if any(ops.shape(r) != shape for op in found.chain for r in op.results):
        return left
    if slices.results_of(rotation.ops) != [rotation.end]:
        return NoMatch(Reason.EXTRA_USERS, "an intermediate value of the rotation has other users")
    return rotation


def _users_in_block(op: ir.Operation) -> list[ir.Operation]:
    """The ops of the block that use the op, directly or in their bodies."""
    users = (ops.ancestor_in(op.block, u) for r in op.results for u in ops.users(r))
    return list(dict.fromkeys(user for user in users if user is not None))


_Part: TypeAlias = tuple[int, int, int]
"""Axis, offset and size of a slice."""


def _part(value: ir.Value) -> _Part | None:
    """The slice that produces the value, if it is static and along one axis; else None."""
    op = ops.defining_op(value)
    cut = None if op is None else ops.static_slice(op)
    if op is None or cut is None or len(cut) != len(ops.shape(value)):
        return None
    whole = ops.shape(op.operands[0])
    taken = [d for d, (offset, size) in enumerate(cut) if offset or size != whole[d]]
    if len(taken) != 1:
        return None
    (axis,) = taken
    offset, size = cut[axis]
    return None if size is None else (axis, offset, size)


def _equivalent_rotations(own: Rotation, max_operands: int) -> list[Rotation]:
    """The earlier rotations of other slices of the same tensor."""
    cut, part = ops.defining_op(own.source), _part(own.source)
    if cut is None or part is None or not _rotates_each(own, part[0]):
        return []
    found = []
    for sibling in ops.users(cut.operands[0]):
        gather = _gather_of(sibling)
        if gather is None or gather.block != own.gather.block or sibling == cut:
            continue
        if not gather.is_before_in_block(own.gather) or not gathers.is_rotation(gather):
            continue
        other = _rotation(gather, max_operands)
        if isinstance(other, Rotation) and _are_equivalent(own, other):
            there = _part(other.source)
            if there is not None and there[0] == part[0]:
                found.append(other)
    return found


def _gather_of(cut: ir.Operation) -> ir.Operation | None:
    """The gather that reads the slice through a transpose and an expand."""
    for moved in filter(ops.is_projection, ops.users(cut.results[0])):
        for split in ops.users(moved.results[0]):
            if split.name == "tensor.expand_shape":
                users = _users_in_block(split)
                return users[0] if len(users) == 1 else None
    return None


def _rotates_each(rotation: Rotation, axis: int) -> bool:
    """Whether the rotation is independent of the index along the source's axis.

    The axis has to be the first of the rotated heads: along any other one the slices are not
    contiguous in memory, and IREE copies them where a reshape follows.
    """
    loop = rotation.permutation[axis]
    if loop != 0 or len(ops.reassociation(rotation.split)[loop]) != 1:
        return False
    inner = {rotation.moved.results[0], *rotation.reshape.results}
    for op in rotation.chain:
        for value, index_map in zip(ops.inputs(op), ops.plain_maps(op), strict=False):
            if value not in inner and loop in index_map:
                return False
        inner.update(op.results)
    return True


def _are_equivalent(one: Rotation, other: Rotation) -> bool:
    """Whether two rotations differ only in the heads that they read."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("moved", "split", "gather")]
    pairs += [(one.reshape, other.reshape), *zip(one.chain, other.chain, strict=False)]
    known = {one.source: other.source}
    if len(one.chain) != len(other.chain):
        return False
    for a, b in pairs:
        if a.name in ops.RESHAPES:
            if ops.reassociation(a) != ops.reassociation(b):
                return False
        else:
            read = zip(ops.inputs(a), ops.inputs(b), strict=True)
            if ops.num_inputs(a) != ops.num_inputs(b) or any(known.get(v, v) != w for v, w in read):
                return False
            if not equivalence.are_equivalent(a, b, known):
                return False
        known.update(zip(a.results, b.results, strict=True))
    return True


def _contiguous(parts: list[_Part], wanted: _Part | None) -> list[_Part]:
    """The contiguous run of the sorted parts that includes the wanted one."""
    runs: list[list[_Part]] = [[]]
    for part in parts:
        _, offset, _ = part
        last = runs[-1][-1] if runs[-1] else None
        if last is not None and last[1] + last[2] != offset:
            runs.append([])
        runs[-1].append(part)
    return next((run for run in runs if wanted in run), [])
