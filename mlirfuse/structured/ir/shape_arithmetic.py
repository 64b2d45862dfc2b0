"""Sizes that a program computes, as products: of numbers, sizes of tensors and other values.

    %i = arith.index_cast %n : index to i64
    %m = arith.muli %i, %c15 : i64
    %d = arith.divui %m, %i : i64                      // 15
    %s = tensor.from_elements %i, %d : tensor<2xi64>   // (n, 15)

A size is followed from scalars into tensors of i64 or index and back. Narrower integers are not
looked into: their arithmetic wraps where that of sizes does not.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, Reason
from mlirfuse.structured.ir import ops

LARGEST = 2**31
"""A number from which on a product is not followed: 64 bits could be too few for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dim:
    """A dynamic size of a tensor of which only `tensor.dim` tells."""

    value: ir.Value
    axis: int


@dataclasses.dataclass(frozen=True, slots=True)
class Compound:
    """An op on sizes that is no product."""

    op: str
    args: tuple[Size, ...]


Atom: TypeAlias = ir.Value | Dim | Compound


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """A number times values."""

    number: int
    atoms: tuple[Atom, ...] = ()

    def equals(self, other: Size) -> bool:
        """Whether both are the same product; False where it cannot be told."""
        mine, theirs = collections.Counter(self.atoms), collections.Counter(other.atoms)
        return self.number == other.number and mine == theirs

    def times(self, other: Size) -> Size:
        """The product."""
        return Size(self.number * other.number, (*self.atoms, *other.atoms))

    def over(self, other: Size) -> Size | None:
        """The quotient, where there is no rest whatever the values are."""
        rest = list(self.atoms)
        for atom in other.atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        if other.number == 0 or self.number % other.number:
            return None
        return Size(self.number // other.number, tuple(rest))


ONE = Size(1)
WIDE = ("i64", "index")
"""Integer types that hold every size."""

_DIVISIONS = frozenset({"arith.divsi", "arith.divui", "arith.floordivsi", "arith.ceildivsi"})
_ARITHMETIC = frozenset({"arith.addi", "arith.subi", "arith.muli", *_DIVISIONS})


def product(sizes: Sequence[Size]) -> Size:
    """The number of elements of a tensor of these sizes."""
    total = ONE
    for size in sizes:
        total = total.times(size)
    return total


def sizes_of(value: ir.Value) -> list[Size]:
    """The sizes of a tensor: its type's, and of the dynamic ones what the ops before it tell."""
    static = ops.shape(value)
    if None not in static:
        return [Size(size) for size in static if size is not None]
    known = _dynamic_sizes(value)
    return [
        (known[axis] if known else Size(1, (Dim(value, axis),))) if size is None else Size(size)
        for axis, size in enumerate(static)
    ]


def _dynamic_sizes(value: ir.Value) -> list[Size] | None:
    """A size for each axis; None when the op that defines the value does not tell."""
    op = ops.defining_op(value)
    if op is None:
        return None
    if op.name.startswith("linalg."):
        return sizes_of(ops.inits(op)[list(op.results).index(value)])
    if op.name == "tensor.collapse_shape":
        source = sizes_of(op.operands[0])
        return [product([source[d] for d in group]) for group in ops.reassociation(op)]
    if op.name == "tensor.reshape":
        return target_of(op)
    if op.name not in (
        "tensor.empty",
        "tensor.expand_shape",
        "iree_tensor_ext.compute_barrier.start",
    ):
        return None
    static = ops.shape(value)
    dynamic = iter(list(op.operands)[len(op.operands) - static.count(None) :])
    return [scalar(next(dynamic)) if size is None else Size(size) for size in static]


def target_of(reshape: ir.Operation) -> list[Size] | None:
    """The sizes that a `tensor.reshape` asks for; None when one is not arithmetic on sizes."""
    listed: list[Size] = []
    for axis, size in enumerate(ops.shape(reshape.results[0])):
        found = element(reshape.operands[1], (axis,)) if size is None else Size(size)
        if found is None:
            return None
        listed.append(found)
    return listed


def scalar(value: ir.Value) -> Size:
    """An integer of 64 bits or an index, as far as its arithmetic is understood."""
    op = ops.defining_op(value)
    itself = Size(1, (value,))
    if op is None:
        return itself
    if op.name == "arith.index_cast" and ops.element_type(op.operands[0]) in WIDE:
        return scalar(op.operands[0])
    if op.name == "tensor.dim":
        axis = ops.constant(op.operands[1])
        return itself if axis is None else sizes_of(op.operands[0])[int(axis)]
    if op.name == "tensor.extract":
        return extracted(op) or itself
    if op.name in _ARITHMETIC:
        return _apply(op.name, [scalar(operand) for operand in op.operands])
    number = ops.constant(value)
    return itself if number is None else Size(int(number))


def extracted(extract: ir.Operation) -> Size | None:
    """The element that a `tensor.extract` reads; None when it is not arithmetic on sizes."""
    index = [ops.constant(operand) for operand in list(extract.operands)[1:]]
    place = tuple(int(i) for i in index if i is not None)
    source = extract.operands[0]
    if len(place) != len(index) or not _inside(place, ops.shape(source)):
        return None
    return element(source, place)


def _inside(place: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return all(s is not None and 0 <= i < s for i, s in zip(place, shape, strict=True))


def element(value: ir.Value, place: tuple[int, ...]) -> Size | None:
    """One element of a static tensor of sizes; None when it is not arithmetic on sizes."""
    op = ops.defining_op(value)
    shape = [size for size in ops.shape(value) if size is not None]
    if op is None or ops.element_type(value) not in WIDE or len(shape) != len(place):
        return None
    flat = 0
    for i, size in zip(place, shape, strict=True):
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
        return _inserted(op, place)
    if op.name == "linalg.generic" and len(op.results) == 1:
        return _computed(op, place)
    return None


def _unravel(flat: int, shape: list[int]) -> tuple[int, ...]:
    place: list[int] = []
    for size in reversed(shape):
        place.insert(0, flat % size)
        flat //= size
    return tuple(place)


def _inserted(insert: ir.Operation, place: tuple[int, ...]) -> Size | None:
    index = tuple(ops.constant(operand) for operand in list(insert.operands)[2:])
    if None in index:
        return None
    return scalar(insert.operands[0]) if index == place else element(insert.operands[1], place)


def _computed(generic: ir.Operation, place: tuple[int, ...]) -> Size | None:
    """One element of an elementwise op's result."""
    if set(ops.iterator_types(generic)) - {"parallel"}:
        return None
    maps = ops.indexing_maps(generic)
    if any(m is None for m in maps) or maps[-1] != tuple(range(len(place))):
        return None
    block = ops.body(generic)
    arguments = dict(zip(block.arguments, zip(generic.operands, maps, strict=True), strict=True))

    def read(value: ir.Value) -> Size | None:
        if value in arguments:
            tensor, index_map = arguments[value]
            at = tuple(0 if loop is None else place[loop] for loop in index_map or ())
            return element(tensor, at)
        op = ops.defining_op(value)
        if op is None or op.block != block:
            return scalar(value) if ops.element_type(value) in WIDE else None
        if op.name == "arith.index_cast" and ops.element_type(op.operands[0]) in WIDE:
            return read(op.operands[0])
        if op.name not in _ARITHMETIC or ops.element_type(value) not in WIDE:
            return None
        operands = [read(operand) for operand in op.operands]
        found = [operand for operand in operands if operand is not None]
        return _apply(op.name, found) if len(found) == len(operands) else None

    return read(block.operations[len(block.operations) - 1].operands[0])


def _apply(name: str, args: list[Size]) -> Size:
    """An op on two sizes, as one product where it is one."""
    left, right = args
    result: Size | None = None
    if name == "arith.muli":
        result = left.times(right)
    elif name in _DIVISIONS:
        # A value that is no size may be negative or large: what wraps does not divide back.
        sizes = all(_is_size(atom) for atom in (*left.atoms, *right.atoms))
        positive = left.number >= 0 and right.number > 0
        result = left.over(right) if sizes and positive else None
    elif collections.Counter(left.atoms) == collections.Counter(right.atoms):
        sign = 1 if name == "arith.addi" else -1
        result = Size(left.number + sign * right.number, left.atoms)
    if result is None or abs(result.number) >= LARGEST:
        return Size(1, (Compound(name, (left, right)),))
    return result if result.number else Size(0)


def _is_size(atom: Atom) -> bool:
    if isinstance(atom, Dim):
        return True
    op = None if isinstance(atom, Compound) else ops.defining_op(atom)
    return op is not None and op.name in ("hal.buffer_view.dim", "tensor.dim")


Group: TypeAlias = tuple[list[int], list[int]]
"""Axes of a reshape's operand and the axes of its result that hold the same elements."""


def groups(before: list[Size], after: list[Size]) -> list[Group] | None:
    """Which axes become which, as finely as products tell; None when they cannot be told equal."""
    found: list[Group] = []
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


# --- matches -------------------------------------------------------------------------------------

ROOTS = ("tensor.reshape", "tensor.extract")


@dataclasses.dataclass(frozen=True, slots=True)
class Reshape:
    """A reshape whose axes correspond as `parts` says."""

    before: list[Size]
    after: list[Size]
    parts: list[Group]


def match(root: ir.Operation, *, static: bool) -> Match | NoMatch | None:
    """A reshape, or a size read from a tensor, whose sizes are all numbers or not."""
    if root.name == "tensor.extract":
        return _match_extract(root, static)
    before, after = sizes_of(root.operands[0]), target_of(root)
    is_static = after is not None and not any(size.atoms for size in (*before, *after))
    if is_static != static:
        return None
    if ops.element_type(root.operands[1]) not in WIDE:
        return NoMatch(Reason.STRUCTURE, "the sizes are not of i64 or index, and could wrap")
    if after is None:
        return NoMatch(Reason.STRUCTURE, "a size of the result is not arithmetic on sizes")
    parts = groups(before, after)
    if parts is None and is_static:
        return NoMatch(Reason.SHAPE_MISMATCH, "the result has another number of elements")
    if parts is None:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the numbers of elements are not proven equal")
    return Match(root, (root,), Reshape(before, after, parts))


def _match_extract(root: ir.Operation, static: bool) -> Match | None:
    source = ops.defining_op(root.operands[0])
    if source is None or ops.element_type(root.results[0]) not in WIDE:
        return None
    size = extracted(root)
    if size is None or static == bool(size.atoms):
        return None
    return Match(root, (root,), size)
