"""Rotations on heads that no transpose has moved; adjacent heads rotate as one."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import reshape_builder, slice_builder
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.rotations import Rotation, Rotations


def unmoved(found: Rotations) -> list[ir.Operation]:
    """The ops of the rotations, which read the heads where they are; the old ones are erased.

    Returns:
      The new ops, in block order, over the dimensions of the halves. Users of the rotated heads
      read reshapes of the last op's result, or of slices of it.
    """
    first = found.members[0]
    anchor = builders.make_room(found.ops)
    location = ir.Location.fused([op.location for op in found.ops], context=anchor.context)
    with ir.InsertionPoint(anchor), location:
        made = _Builder(found).build()
        whole = made[-1].results[0]
        groups = ops.reassociation(first.reshape)
        for member, part in zip(found.members, _parts(found, whole), strict=True):
            builders.replace_collapsed(member.end, part, groups)
    for op in reversed(found.ops):
        op.erase()
    return made


def _parts(found: Rotations, whole: ir.Value) -> list[ir.Value]:
    if found.axis is None:
        return [whole]
    first = found.members[0]
    (axis,) = ops.reassociation(first.split)[first.permutation[found.axis]]
    parts, offset = [], 0
    for member in found.members:
        size = ops.shape(member.source)[found.axis]
        assert size is not None
        parts.append(slice_builder.take(whole, axis, offset, size).results[0])
        offset += size
    return parts


class _Builder:
    """One construction, at the current insertion point and location."""

    def __init__(self, found: Rotations) -> None:
        self.first: Rotation = found.members[0]
        self.groups = ops.reassociation(self.first.split)
        self.permutation = self.first.permutation
        self.dynamic = builders.dynamic_sizes(self.first.end)
        wide = list(ops.shape(self.first.split.results[0]))
        if found.axis is not None:
            sizes = [ops.shape(member.source)[found.axis] or 0 for member in found.members]
            (axis,) = self.groups[self.permutation[found.axis]]
            wide[axis] = sum(sizes)
        self.wide = wide
        self.heads = self._heads(found)

    def build(self) -> list[ir.Operation]:
        first = self.first
        made = [self._gather()]
        known = {first.reshape.results[0]: made[0].results[0]}
        for op in first.chain:
            made.append(self._elementwise(op, known))
            known[op.results[0]] = made[-1].results[0]
        return made

    def _loops(self, dimension: int) -> Sequence[int]:
        """The loops over the halves' dimensions that a dimension of the source has."""
        return self.groups[self.permutation[dimension]]

    def _heads(self, found: Rotations) -> ir.Value:
        """The heads with their halves apart: a slice of an expand, which is read in place."""
        value = self.first.source
        cut = ops.defining_op(value)
        taken = None if cut is None else ops.static_slice(cut)
        if cut is None or taken is None or len(taken) != len(ops.shape(value)):
            return self._expanded(value)
        whole = self._expanded(cut.operands[0])
        axes = [d for d, (o, s) in enumerate(taken) if o or s != ops.shape(cut.operands[0])[d]]
        if any(len(self._loops(d)) != 1 for d in axes):
            return self._expanded(value)
        for d in axes:
            (loop,) = self._loops(d)
            offset = found.offset if d == found.axis else taken[d][0]
            before = sum(len(self._loops(n)) for n in range(d))
            size = self.wide[loop]
            assert size is not None
            whole = slice_builder.take(whole, before, offset, size).results[0]
        return whole

    def _expanded(self, value: ir.Value) -> ir.Value:
        groups: list[list[int]] = []
        sizes: list[int | None] = []
        for d, own in enumerate(ops.shape(value)):
            loops = self._loops(d)
            groups.append([len(sizes) + i for i in range(len(loops))])
            sizes += [own] if len(loops) == 1 else [self.wide[loop] for loop in loops]
        if len(sizes) == len(groups):
            return value
        return builders.expand(value, groups, sizes, builders.dynamic_sizes(value))

    def _gather(self) -> ir.Operation:
        op = self.first.gather
        out = ops.plain_maps(op)[-1]
        init = builders.empty(self.wide, ops.element_type(op.results[0]), self.dynamic)
        new = builders.generic([], [init], [out], ops.iterator_types(op), builders.body_of(op))
        for inner in ops.body(new).operations:
            extract = inner.operation
            if extract.name == "tensor.extract":
                _, *index = list(extract.operands)
                moved = [index[n] for d in range(len(self.permutation)) for n in self._loops(d)]
                for i, value in enumerate([self.heads, *moved]):
                    extract.operands[i] = value
        return new

    def _elementwise(self, op: ir.Operation, known: dict[ir.Value, ir.Value]) -> ir.Operation:
        inputs: list[ir.Value] = []
        maps: list[ops.IndexMap] = []
        *read, out = ops.plain_maps(op)
        for value, index_map in zip(ops.inputs(op), read, strict=True):
            if value == self.first.moved.results[0]:
                inputs.append(self.heads)
                index_map = tuple(index_map[d] for d in self.permutation)
            elif value in known:
                inputs.append(known[value])
            else:
                inputs.append(reshape_builder.expanded(value, index_map, self.groups, self.wide))
            maps.append(self._wide(index_map))
        init = builders.empty(self.wide, ops.element_type(op.results[0]), self.dynamic)
        kinds = ["parallel"] * len(self.wide)
        return builders.generic(
            inputs, [init], [*maps, self._wide(out)], kinds, builders.body_of(op)
        )

    def _wide(self, index_map: ops.IndexMap) -> ops.IndexMap:
        return tuple(n for d in index_map for n in ((None,) if d is None else self.groups[d]))
