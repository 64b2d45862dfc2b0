"""How a region of elementwise ops lies over its largest result, and where tiles cut it.

The axes are those of the largest result, in the order of its memory, or with dynamic ones first, as
they are read. They are cut into rows and columns where a tensor that all rows share ends, or, where
one is read transposed, behind its fastest axis.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import (
    UNKNOWN_ROWS,
    Axis,
    Group,
    Space,
    known_product,
    loop_axes,
    power_of_two,
)
from mlirfuse.structured.ir import ops

VECTOR = 8
"""Elements of 16 bits that one access of 16 bytes moves."""

WIDEST = 1024
"""Columns of a tile, where the cut is chosen."""

FEWEST = 16
"""Rows and columns of a transposition below which a tile would be mostly empty."""

WASTE = 1.07
"""Of a tile's columns, beyond the tensor's, over which a narrower tile is looked for."""

HELD = 1 / 16
"""What a read counts that all rows of a tile share, or all columns."""

UNALIGNED = 4
"""What a read counts that moves one element at a time; an estimate."""

Place = int | None
"""The axis of the result along a dimension of a tensor; None where another index, or none, is."""


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """How a tensor from outside is read.

    Attributes:
      places: the axis along each of its dimensions.
      sizes: its sizes.
      whole: for each dimension, whether all of it is read.
      trait: `gathered`, `swapped`, `permuted`, `sliced`, or none.
    """

    places: tuple[Place, ...]
    sizes: tuple[int | None, ...]
    whole: tuple[bool, ...]
    trait: str = ""

    def joins(self, axis: int, following: int) -> bool:
        """Whether the two axes are one in memory, or the tensor has neither."""
        if axis not in self.places or following not in self.places:
            return axis not in self.places and following not in self.places
        at = self.places.index(axis) + 1
        return self.places[at : at + 1] == (following,) and self.whole[at]


def count(sizes: Sequence[int | None]) -> int:
    """The product of the sizes; an unknown one counts as some."""
    return math.prod(UNKNOWN_ROWS if size is None else size for size in sizes)


def tile_width(columns: int, widest: int) -> int:
    """Columns of a tile: the most of which few are outside."""
    width = widest = min(widest, power_of_two(columns))
    while -(-columns // width) * width > columns * WASTE:
        if width <= FEWEST:
            return widest
        width //= 2
    return width


class Nest:
    """The axes of a region, and where they are cut.

    Attributes:
      results: what the region returns.
      sizes: of the axes; only the first ones may be dynamic.
      places: the axis that each loop of each op is.
      reads: how tensors from outside are read.
      moved: how the largest result is written, where its dynamic axes are the first of what is read
        and not of it.
      transposed: whether one is read in another order than the result is written.
      rows: the first axis of the rows; those before are batches.
      columns: the first axis of the columns.

    Raises:
      Conflict: the ops do not share these axes.
      Unsupported: there is no such kernel.
    """

    def __init__(self, group: Sequence[ir.Operation], results: Sequence[ir.Value]) -> None:
        self._group = group
        self.results = results
        written = {value for op in group for value in op.results}
        if not written.issuperset(results):
            raise Unsupported("a result that no op of the region computes")
        main = max(results, key=lambda v: known_product(ops.shape(v)))
        anchor = main.owner.operation
        written_in = _order(anchor, main)
        loop_sizes = ops.loop_sizes(anchor)
        order = written_in
        if loop_sizes[written_in[-1]] is not None:
            order = sorted(written_in, key=lambda loop: loop_sizes[loop] is not None)
        self.sizes = tuple(loop_sizes[loop] for loop in order)
        if 0 in self.sizes:
            raise Unsupported(f"an empty {main.type}")
        axes: list[Axis] = [(0, order.index(n)) for n in range(len(order))]
        flat = Space((Group("", self.sizes),))
        self.places = {
            op: [axis for _, axis in found]
            for op, found in loop_axes(flat, group, axes, anchor=anchor).items()
        }
        self.reads = list(self._reads(written))
        places = tuple(order.index(loop) for loop in written_in)
        self.moved = [] if order == written_in else [_read(main, places)]
        if self.moved and all(read.places != tuple(range(len(order))) for read in self.reads):
            raise Unsupported(f"an inner dynamic dimension of {main.type}")
        turned = self._turned()
        self.transposed = turned is not None
        self.rows, self.columns = turned or (0, self._split())

    def _reads(self, written: set[ir.Value]) -> Iterator[Read]:
        for op in self._group:
            maps, places = ops.indexing_maps(op), self.places[op]
            for argument, value, index_map in zip(
                ops.body(op).arguments, op.operands, maps, strict=True
            ):
                if value in written or not list(argument.uses) or not ops.shape(value):
                    continue
                found = tuple(None if loop is None else places[loop] for loop in index_map or ())
                yield _read(value, found)
            for view in ops.body(op).operations:
                if view.operation.name == "tensor.extract":
                    tensor, *indices = view.operation.operands
                    found = tuple(_loop_of(v, places) for v in indices)
                    trait = "gathered" if ops.num_inputs(op) else "swapped"
                    yield Read(found, ops.shape(tensor), (True,) * len(found), trait)

    def _turned(self) -> tuple[int, int] | None:
        """The first axes of the rows and of the columns of a transposition, if there is one."""
        last = max((n for n, size in enumerate(self.sizes) if size != 1), default=0)
        turned = [
            read
            for read in self.reads
            if last in read.places and self._fastest(read) not in (None, last)
        ]
        if not turned:
            return None
        end = self._fastest(max(turned, key=lambda read: count(read.sizes)))
        assert end is not None
        first = end
        while first > 0 and all(read.joins(first - 1, first) for read in turned):
            first -= 1
        rows, columns = count(self.sizes[first : end + 1]), count(self.sizes[end + 1 :])
        if min(rows, columns) < FEWEST:
            raise Unsupported(f"a transposition of {rows} by {columns}")
        return first, end + 1

    def _fastest(self, read: Read) -> Place:
        """The axis along which a tensor lies densely; None where there is none."""
        sizes = [
            size if place is None else self.sizes[place]
            for place, size in zip(read.places, read.sizes, strict=True)
        ]
        places = [p for p, size in zip(read.places, sizes, strict=True) if size != 1]
        return places[-1] if places else None

    def _split(self) -> int:
        """The first axis of the columns."""
        breaks = [
            axis
            for axis in range(1, len(self.sizes))
            if not all(read.joins(axis - 1, axis) for read in (*self.reads, *self.moved))
        ]
        # Of equals the last: rows whose tiles start where a row starts need no division.
        return min([*reversed(breaks), 0], key=self._bytes)

    def _bytes(self, split: int) -> float:
        """What is moved for an element where the columns start at an axis, in wide accesses."""
        last = len(self.sizes) - 1
        columns = count(self.sizes[split:])
        width = tile_width(columns, WIDEST)
        total = 1.0 if split == 0 or columns % VECTOR == 0 else UNALIGNED
        for read in self.reads:
            above = any(p is not None and p < split for p in read.places)
            below = any(p is not None and p >= split for p in read.places)
            start = next((n for n in range(last, 0, -1) if not read.joins(n - 1, n)), 0)
            dense = known_product(self.sizes[max(split, start) :]) % VECTOR == 0
            wide = self._fastest(read) == last and (dense or max(split, start) == 0)
            held = not below or (split > 0 and not above)
            total += (HELD if held else 1.0) * (1.0 if wide else UNALIGNED)
        return total * -(-columns // width) * width / columns


def _order(op: ir.Operation, result: ir.Value) -> list[int]:
    """The loops of an op as its result lies in memory."""
    index_map = ops.indexing_maps(op)[ops.num_inputs(op) + list(op.results).index(result)]
    order = [loop for loop in index_map or () if loop is not None]
    if not order or len(order) != len(ops.iterator_types(op)):
        raise Unsupported(f"an indexing map of {op.name}")
    return order


def _read(value: ir.Value, places: tuple[Place, ...]) -> Read:
    """How an operand is read along these axes, if it is a slice as a part of its source."""
    known = [place for place in places if place is not None]
    permuted = known != sorted(known)
    cut = ops.defining_op(value)
    if cut is None or cut.name != "tensor.extract_slice":
        return Read(places, ops.shape(value), (True,) * len(places), "permuted" if permuted else "")
    taken, sizes = ops.shape(value), ops.shape(cut.operands[0])
    if len(taken) != len(sizes):
        raise Unsupported("a slice that leaves out dimensions")
    whole = tuple(one == other for one, other in zip(taken, sizes, strict=True))
    return Read(
        places, sizes, whole, "permuted" if permuted else "" if all(whole[1:]) else "sliced"
    )


def _loop_of(value: ir.Value, places: Sequence[int]) -> Place:
    """The axis that an index of a gather is; None where it is computed."""
    op = ops.defining_op(value)
    if op is None or op.name != "linalg.index":
        return None
    return places[int(op.attributes["dim"].value)]
