"""Sizes that a program computes, as products of a coefficient and of dynamic sizes.

    %i = arith.index_cast %n : index to i64
    %m = arith.muli %i, %c15 : i64
    %d = arith.divui %m, %i : i64                      // 15
    %s = tensor.from_elements %i, %d : tensor<2xi64>   // (n, 15)

The analysis follows a size from scalars through tensors of i64 or index and back. It ends at
narrower integers, whose arithmetic can wrap.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, Reason
from mlirfuse.structured.ir import ops

MAX_COEFFICIENT = 2**31
"""Bound on coefficients, below which no product overflows 64 bits; larger ones stay opaque."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dim:
    """A dynamic size of a tensor that only `tensor.dim` can give."""

    value: ir.Value
    axis: int


@dataclasses.dataclass(frozen=True, slots=True)
class Compound:
    """An op on sizes whose result is no product."""

    op: str
    args: tuple[Size, ...]


Atom: TypeAlias = ir.Value | Dim | Compound


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """A product: a coefficient times dynamic sizes."""

    coefficient: int
    atoms: tuple[Atom, ...] = ()

    def equals(self, other: Size) -> bool:
        """Whether both are certainly the same product."""
        mine, theirs = collections.Counter(self.atoms), collections.Counter(other.atoms)
        return self.coefficient == other.coefficient and mine == theirs

    def times(self, other: Size) -> Size:
        """The product."""
        return Size(self.coefficient * other.coefficient, (*self.atoms, *other.atoms))

    def over(self, other: Size) -> Size | None:
        """The quotient, if the division is exact for all values; else None."""
        rest = list(self.atoms)
        for atom in other.atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        if other.coefficient == 0 or self.coefficient % other.coefficient:
            return None
        return Size(self.coefficient // other.coefficient, tuple(rest))


ONE = Size(1)
SIZE_TYPES = ("i64", "index")
"""Integer types that hold every size."""

_DIVISIONS = frozenset({"arith.divsi", "arith.divui", "arith.floordivsi", "arith.ceildivsi"})
_ARITHMETIC = frozenset({"arith.addi", "arith.subi", "arith.muli", *_DIVISIONS})


def product(sizes: Sequence[Size]) -> Size:
    """The number of elements of a tensor with these sizes."""
    total = ONE
    for size in sizes:
        total = total.times(size)
    return total


def sizes_of(value: ir.Value) -> list[Size]:
    """The sizes of a tensor: static ones from its type, dynamic ones from its producers."""
    static = ops.shape(value)
    if None not in static:
        return [Size(size) for size in static if size is not None]
    known = _dynamic_sizes(value)
    return [
        (known[axis] if known else Size(1, (Dim(value, axis),))) if size is None else Size(size)
        for axis, size in enumerate(static)
    ]


def _dynamic_sizes(value: ir.Value) -> list[Size] | None:
    """A size for each axis; None when the op that defines the value does not determine them."""
    op = ops.defining_op(value)
    if op is None:
        return None
    if op.name.startswith("linalg."):
        return sizes_of(ops.inits(op)[list(op.results).index(value)])
    if op.name == "tensor.collapse_shape":
        source = sizes_of(op.operands[0])
        return [product([source[d] for d in group]) for group in ops.reassociation(op)]
    if op.name == "tensor.reshape":
        return target_sizes(op)
    if op.name not in (
        "tensor.empty",
        "tensor.expand_shape",
        "iree_tensor_ext.compute_barrier.start",
    ):
        return None
    static = ops.shape(value)
    dynamic = iter(list(op.operands)[len(op.operands) - static.count(None) :])
    return [scalar(next(dynamic)) if size is None else Size(size) for size in static]


def target_sizes(reshape: ir.Operation) -> list[Size] | None:
    """The result sizes of a `tensor.reshape`; None when one is not arithmetic on sizes."""
    listed: list[Size] = []
    for axis, size in enumerate(ops.shape(reshape.results[0])):
        found = element(reshape.operands[1], (axis,)) if size is None else Size(size)
        if found is None:
            return None
        listed.append(found)
    return listed


def scalar(value: ir.Value) -> Size:
    """A 64-bit integer or index as a product; unknown arithmetic becomes an opaque factor."""
    op = ops.defining_op(value)
    itself = Size(1, (value,))
    if op is None:
        return itself
    if op.name == "arith.index_cast" and ops.element_type(op.operands[0]) in SIZE_TYPES:
        return scalar(op.operands[0])
    if op.name == "tensor.dim":
        axis = ops.constant(op.operands[1])
        return itself if axis is None else sizes_of(op.operands[0])[int(axis)]
    if op.name == "tensor.extract":
        return extracted(op) or itself
    if op.name in _ARITHMETIC:
        return _apply(op.name, [scalar(operand) for operand in op.operands])
    constant = ops.constant(value)
    return itself if constant is None else Size(int(constant))


def extracted(extract: ir.Operation) -> Size | None:
    """The element that a `tensor.extract` reads; None when it is not arithmetic on sizes."""
    index = [ops.constant(operand) for operand in list(extract.operands)[1:]]
    position = tuple(int(i) for i in index if i is not None)
    source = extract.operands[0]
    if len(position) != len(index) or not _inside(position, ops.shape(source)):
        return None
    return element(source, position)


def _inside(position: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return all(s is not None and 0 <= i < s for i, s in zip(position, shape, strict=True))


def element(value: ir.Value, position: tuple[int, ...]) -> Size | None:
    """One element of a static tensor of sizes; None when it is not arithmetic on sizes."""
    op = ops.defining_op(value)
    shape = [size for size in ops.shape(value) if size is not None]
    if op is None or ops.element_type(value) not in SIZE_TYPES or len(shape) != len(position):
        return None
    flat = 0
    for i, size in zip(position, shape, strict=True):
        flat = flat * size + i
    if op.name == "arith.constant":
        data = op.attributes["value"]
        return Size(int(data[flat])) if isinstance(data, ir.DenseIntElementsAttr) else None
    if op.name == "tensor.from_elements":
        return scalar(op.operands[flat])
    if op.name == "linalg.fill":
        return scalar(op.operands[0])
    if op.name in ops.RESHAPES:
        inner = [size for size in ops.shape(op.operands[0]) if size is not None]
        return element(op.operands[0], _unravel(flat, inner))
    if op.name == "tensor.insert":
        return _inserted(op, position)
    if op.name == "linalg.generic" and len(op.results) == 1:
        return _computed(op, position)
    return None


def _unravel(flat: int, shape: list[int]) -> tuple[int, ...]:
    position: list[int] = []
    for size in reversed(shape):
        position.insert(0, flat % size)
        flat //= size
    return tuple(position)


def _inserted(insert: ir.Operation, position: tuple[int, ...]) -> Size | None:
    index = tuple(ops.constant(operand) for operand in list(insert.operands)[2:])
    if None in index:
        return None
    return (
        scalar(insert.operands[0]) if index == position else element(insert.operands[1], position)
    )


def _computed(generic: ir.Operation, position: tuple[int, ...]) -> Size | None:
    """One element of an elementwise op's result."""
    if set(ops.iterator_types(generic)) - {"parallel"}:
        return None
    maps = ops.indexing_maps(generic)
    if any(m is None for m in maps) or maps[-1] != tuple(range(len(position))):
        return None
    block = ops.body(generic)
    arguments = dict(zip(block.arguments, zip(generic.operands, maps, strict=True), strict=True))

    def read(value: ir.Value) -> Size | None:
        if value in arguments:
            tensor, index_map = arguments[value]
            at = tuple(0 if loop is None else position[loop] for loop in index_map or ())
            return element(tensor, at)
        op = ops.defining_op(value)
        if op is None or op.block != block:
            return scalar(value) if ops.element_type(value) in SIZE_TYPES else None
        if op.name == "arith.index_cast" and ops.element_type(op.operands[0]) in SIZE_TYPES:
            return read(op.operands[0])
        if op.name not in _ARITHMETIC or ops.element_type(value) not in SIZE_TYPES:
            return None
        operands = [read(operand) for operand in op.operands]
        found = [operand for operand in operands if operand is not None]
        return _apply(op.name, found) if len(found) == len(operands) else None

    return read(block.operations[len(block.operations) - 1].operands[0])


def _apply(name: str, args: list[Size]) -> Size:
    """The result of an op on two sizes: a product where possible, else opaque."""
    left, right = args
    result: Size | None = None
    if name == "arith.muli":
        result = left.times(right)
    elif name in _DIVISIONS:
        # A value that is no size may be negative or large: division does not undo overflow.
        sizes = all(_is_size(atom) for atom in (*left.atoms, *right.atoms))
        positive = left.coefficient >= 0 and right.coefficient > 0
        result = left.over(right) if sizes and positive else None
    elif collections.Counter(left.atoms) == collections.Counter(right.atoms):
        sign = 1 if name == "arith.addi" else -1
        result = Size(left.coefficient + sign * right.coefficient, left.atoms)
    if result is None or abs(result.coefficient) >= MAX_COEFFICIENT:
        return Size(1, (Compound(name, (left, right)),))
    return result if result.coefficient else Size(0)


def _is_size(atom: Atom) -> bool:
    if isinstance(atom, Dim):
        return True
    op = None if isinstance(atom, Compound) else ops.defining_op(atom)
    return op is not None and op.name in ("hal.buffer_view.dim", "tensor.dim")


AxisGroup: TypeAlias = tuple[list[int], list[int]]
"""Axes of a reshape's operand and the axes of its result that hold the same elements."""


def groups(before: list[Size], after: list[Size]) -> list[AxisGroup] | None:
    """The finest correspondence of axes; None unless the products are proven equal."""
    found: list[AxisGroup] = []
    i = j = 0
    while i < len(before) and j < len(after):
        inner, outer = [i], [j]
        a, b = before[i], after[j]
        while not a.equals(b):
            grow_inner, grow_outer = b.over(a) is not None, a.over(b) is not None
            if grow_inner == grow_outer:
                grow_inner = grow_outer = True
            for grows, axes, sizes in ((grow_inner, inner, before), (grow_outer, outer, after)):
                if grows and axes[-1] + 1 == len(sizes):
                    return None
                if grows:
                    axes.append(axes[-1] + 1)
            a, b = product([before[d] for d in inner]), product([after[d] for d in outer])
        found.append((inner, outer))
        i, j = inner[-1] + 1, outer[-1] + 1
    if not found or not product(before[i:]).equals(ONE) or not product(after[j:]).equals(ONE):
        return None
    found[-1][0].extend(range(i, len(before)))
    found[-1][1].extend(range(j, len(after)))
    return found


def groups_around_one(before: list[Size], after: list[Size]) -> list[AxisGroup] | None:
    """A correspondence of axes in which the sizes of one group are not proven equal.

    They are equal all the same, since a reshape keeps the number of elements and the other sizes
    are equal: the batch of keys, which a program counts by that of queries. One of the two sides
    has one axis in that group, which is expanded or the result of a collapse, and its sizes are
    those of tensors. None where no axis is proven.
    """
    found: list[AxisGroup] = []
    last: list[AxisGroup] = []
    i, j, ends = 0, 0, (len(before), len(after))
    while i < ends[0] and j < ends[1] and before[i].equals(after[j]):
        found.append(([i], [j]))
        i, j = i + 1, j + 1
    while i < ends[0] and j < ends[1] and before[ends[0] - 1].equals(after[ends[1] - 1]):
        ends = ends[0] - 1, ends[1] - 1
        last.insert(0, ([ends[0]], [ends[1]]))
    inner, outer = list(range(i, ends[0])), list(range(j, ends[1]))
    shorter, longer = sorted([len(inner), len(outer)])
    if not (found or last) or shorter != 1 or longer == 1:
        return None
    sizes = [*(before[axis] for axis in inner), *(after[axis] for axis in outer)]
    if not all(_is_size(atom) for size in sizes for atom in size.atoms):
        return None
    return [*found, (inner, outer), *last]


# --- matches -------------------------------------------------------------------------------------

ROOTS = ("tensor.reshape", "tensor.extract")


@dataclasses.dataclass(frozen=True, slots=True)
class Reshape:
    """A reshape between known sizes.

    Attributes:
      before: sizes of the operand.
      after: sizes of the result.
      parts: corresponding axes of operand and result.
    """

    before: list[Size]
    after: list[Size]
    parts: list[AxisGroup]


def match(root: ir.Operation, *, static: bool) -> Match | NoMatch | None:
    """Matches a reshape, or a size extracted from a tensor.

    Args:
      root: a `tensor.reshape` or `tensor.extract`.
      static: whether the match takes sizes that are all constant, or the others.
    """
    if root.name == "tensor.extract":
        return _match_extract(root, static)
    before, after = sizes_of(root.operands[0]), target_sizes(root)
    is_static = after is not None and not any(size.atoms for size in (*before, *after))
    if is_static != static:
        return None
    if ops.element_type(root.operands[1]) not in SIZE_TYPES:
        return NoMatch(Reason.STRUCTURE, "the sizes are neither i64 nor index, and could wrap")
    if after is None:
        return NoMatch(Reason.STRUCTURE, "a size of the result is not arithmetic on sizes")
    parts = groups(before, after)
    if parts is None and is_static:
        return NoMatch(Reason.SHAPE_MISMATCH, "the result has another number of elements")
    if parts is None:
        parts = groups_around_one(before, after)
    if parts is None:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the numbers of elements are not proven equal")
    return Match(root, (root,), Reshape(before, after, parts))


def _match_extract(root: ir.Operation, static: bool) -> Match | None:
    source = ops.defining_op(root.operands[0])
    if source is None or ops.element_type(root.results[0]) not in SIZE_TYPES:
        return None
    size = extracted(root)
    if size is None or static == bool(size.atoms):
        return None
    return Match(root, (root,), size)
