"""Expansion through `tensor.reshape` where it only expands or collapses dimensions.

PyTorch's `view` with two dynamic sizes becomes `tensor.reshape`, whose sizes are computed at run
time and which could move elements between any two dimensions:

    %r = tensor.reshape %x(%n) : tensor<8x?x?xf32> -> tensor<2x4x?x?xf32>

Sizes in `%n` that equal sizes of `%x` prove that this one expands the first dimension.
"""

from __future__ import annotations

from typing import TypeAlias

from iree.compiler import ir

from mlirfuse.structured.expr.expansion import delinearize, linearize, step_through
from mlirfuse.structured.expr.nodes import Element, Expr, Index
from mlirfuse.structured.ir import ops

Size: TypeAlias = int | ir.Value | None
"""A size: static, the value that holds it, or None if unknown."""


def step(element: Element) -> Expr | None:
    """`step_through`, extended to a `tensor.reshape` that only expands or collapses."""
    op = ops.defining_op(element.value)
    if op is None or op.name != "tensor.reshape":
        return step_through(element)
    groups = _groups(_sizes(op.operands[0]), _sizes(op.results[0]))
    if groups is None:
        return None
    before, after = ops.shape(op.operands[0]), ops.shape(op.results[0])
    index: list[Index] = []
    for inner, outer in groups:
        whole = linearize(tuple(element.index[d] for d in outer), tuple(after[d] for d in outer))
        radix = tuple(before[d] for d in inner)
        index += [delinearize(whole, position, radix) for position in range(len(radix))]
    return Element(op.operands[0], tuple(index), element.cache)


Group: TypeAlias = tuple[list[int], list[int]]
"""Dimensions of a reshape's operand and the corresponding dimensions of its result."""


def _groups(before: list[Size], after: list[Size]) -> list[Group] | None:
    """The correspondence of dimensions, if only static ones are split or collapsed; else None."""
    groups: list[Group] = []
    kept: list[tuple[Size, Size]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        a, b = before[i], after[j]
        inner, outer = [i], [j]
        if isinstance(a, int) != isinstance(b, int):
            return None
        while isinstance(a, int) and isinstance(b, int) and a != b:
            sizes, dims = (before, inner) if a < b else (after, outer)
            more = sizes[dims[-1] + 1] if dims[-1] + 1 < len(sizes) else None
            if not isinstance(more, int):
                return None
            dims.append(dims[-1] + 1)
            a, b = (a * more, b) if a < b else (a, b * more)
        if len(inner) > 1 < len(outer):
            return None
        if not isinstance(a, int):
            kept.append((a, b))
        groups.append((inner, outer))
        i, j = inner[-1] + 1, outer[-1] + 1
    if i < len(before) or j < len(after):
        return None
    # The numbers of elements are equal, so that one unproven pair of sizes has to be equal too.
    unknown = [pair for pair in kept if pair[0] is None or pair[0] != pair[1]]
    return groups if len(unknown) <= 1 or _all_equal(unknown) else None


def _all_equal(pairs: list[tuple[Size, Size]]) -> bool:
    """Whether equal products of both sides imply that the sizes of each pair are equal."""
    known = all(size is not None for pair in pairs for size in pair)
    return known and len({a for a, _ in pairs}) == 1 and len({b for _, b in pairs}) == 1


def _sizes(value: ir.Value) -> list[Size]:
    """The sizes of a tensor, as far as the op that defines it lists them."""
    dynamic = iter(_dynamic_sizes(value))
    return [next(dynamic, None) if size is None else size for size in ops.shape(value)]


def _dynamic_sizes(value: ir.Value) -> list[Size]:
    op = ops.defining_op(value)
    while op is not None and op.name.startswith("linalg."):
        value = ops.inits(op)[list(op.results).index(value)]
        op = ops.defining_op(value)
    if op is None:
        return []
    if op.name == "tensor.empty":
        return [_index(size) for size in op.operands]
    if op.name == "tensor.expand_shape":
        return [_index(size) for size in list(op.operands)[1:]]
    if op.name == "tensor.reshape":
        listed = ops.defining_op(op.operands[1])
        if listed is not None and listed.name == "tensor.from_elements":
            sizes = zip(ops.shape(value), listed.operands, strict=True)
            return [_index(size) for static, size in sizes if static is None]
    return []


def _index(value: ir.Value) -> ir.Value:
    """The value under casts between index and integer types."""
    op = ops.defining_op(value)
    while op is not None and op.name == "arith.index_cast":
        value = op.operands[0]
        op = ops.defining_op(value)
    return value
