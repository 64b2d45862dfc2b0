"""The ops of a group over the digits of their common iteration space."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import slice_builder
from mlirfuse.core import Match, PassContext
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.common_iteration_space import Digits, Space
from mlirfuse.structured.recognize.norm_epilogues import Extension


def fuse_norm(match: Match, ctx: PassContext) -> ir.Operation:
    """The `rewrite` of most norm passes: one region, over one space if reshapes lie inside.

    Args:
      match: a match with a `NormGroup` as its data.
      ctx: the pass's context.
    """
    space = match.data.space
    return builders.form_region(list(match.ops) if space is None else respace(match.ops, space))


def extend_group(match: Match, ctx: PassContext) -> ir.Operation:
    """The `rewrite` of passes that extend a group.

    Args:
      match: a match of a region, which is erased, with an `Extension` as its data.
      ctx: the pass's context.
    """
    added: Extension = match.data
    builders.ungroup(match.root)
    group, space = slices.in_order([*added.inner, *added.ops]), added.space
    if space is None:
        return builders.form_region(group)
    # The hash of an op changes with its operands.
    rehashed = dataclasses.replace(space, loops=dict([*space.loops.items()]))
    return builders.form_region(respace(group, rehashed))


def respace(group: Sequence[ir.Operation], space: Space) -> list[ir.Operation]:
    """Replaces the ops by ones over the space's digits and erases them; reshapes vanish.

    Operands of the group are reshaped before it, results after it.

    Args:
      group: ops of one block in block order.
      space: the result of `common_space` for them.

    Returns:
      The new `linalg.generic`s, in block order.
    """
    work = _Respacing(group, space)
    for op in group:
        with ir.InsertionPoint(op), op.location:
            work.replace(op)
    for op in reversed(group):
        op.erase()
    return work.built


class _Respacing:
    def __init__(self, group: Sequence[ir.Operation], space: Space) -> None:
        self.members = set(group)
        self.space = space
        self.new: dict[ir.Value, ir.Value] = {}
        self.built: list[ir.Operation] = []

    def replace(self, op: ir.Operation) -> None:
        if op.name in ops.RESHAPES:
            self.new[op.results[0]] = self.operand(op.operands[0])
        else:
            new = self.generic(op)
            self.built.append(new)
            self.new.update(zip(op.results, new.results, strict=True))
        for value in op.results:
            users = ops.users(value)
            inside = [user for user in users if user in self.members]
            if len(inside) < len(users):
                shape = ops.shape(value)
                restored = reshape(self.new[value], shape, builders.dynamic_sizes(value))
                value.replace_all_uses_except(restored, inside)

    def operand(self, value: ir.Value) -> ir.Value:
        found = self.new.get(value)
        if found is None:
            sizes = self.sizes(value)
            dynamic = builders.dynamic_sizes(value)
            found = self.new[value] = reshape(value, sizes, dynamic)
        return found

    def sizes(self, value: ir.Value) -> list[int | None]:
        return [self.space.sizes[digit] for digit in _flat(self.space.values[value])]

    def generic(self, op: ir.Operation) -> ir.Operation:
        loops = self.space.loops[op]
        loop_of = {digit: loop for loop, digit in enumerate(_flat(loops))}
        kinds = [
            kind for digits, kind in zip(loops, ops.iterator_types(op), strict=True) for _ in digits
        ]
        values = [*ops.inputs(op), *op.results]
        maps = [tuple(loop_of[d] for d in _flat(self.space.values[v])) for v in values]
        inputs = [self.operand(v) for v in ops.inputs(op)]
        inits = [self.init(i, r) for i, r in zip(ops.inits(op), op.results, strict=True)]
        new = builders.generic(inputs, inits, maps, kinds, builders.body_of(op))
        groups = [[loop_of[digit] for digit in digits] for digits in loops]
        builders.split_loop_indices(new, groups, [self.space.sizes[d] for d in _flat(loops)])
        return new

    def init(self, init: ir.Value, result: ir.Value) -> ir.Value:
        empty = builders.empty(
            self.sizes(result), ops.element_type(result), builders.dynamic_sizes(result)
        )
        owner = ops.defining_op(init)
        filled = owner is not None and owner.name == "linalg.fill"
        return builders.fill(init.owner.operands[0], empty) if filled else empty


def _flat(digits: Digits) -> list[int]:
    return list(itertools.chain.from_iterable(digits))


def reshape(
    value: ir.Value, sizes: Sequence[int | None], dynamic: Sequence[ir.Value] = ()
) -> ir.Value:
    """The value with other dimensions, its elements in the same row-major order.

    Args:
      value: a tensor of rank 1 or more, or one that has that shape already.
      sizes: the new shape; a dynamic size stands where the value has it.
      dynamic: the dynamic sizes.
    """
    before = ops.shape(value)
    if before == tuple(sizes):
        return value
    groups, split = _pairs(before, sizes)
    if all(len(group) == 1 for group in split):
        return slice_builder.merged(value, groups) or builders.collapse(value, groups)
    merged = builders.collapse(value, groups)
    return builders.expand(merged, split, sizes, dynamic)


def _pairs(
    before: Sequence[int | None], after: Sequence[int | None]
) -> tuple[list[list[int]], list[list[int]]]:
    """The finest groups of dimensions of the two shapes that hold the same elements."""
    left: list[list[int]] = []
    right: list[list[int]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        left.append([i])
        right.append([j])
        a, b = before[i] or 0, after[j] or 0
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a *= before[i] or 0
                left[-1].append(i)
                i += 1
            else:
                b *= after[j] or 0
                right[-1].append(j)
                j += 1
    left[-1] += range(i, len(before))
    right[-1] += range(j, len(after))
    return left, right
