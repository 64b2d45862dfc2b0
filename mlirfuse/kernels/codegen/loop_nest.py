"""The loop nest of a region of elementwise ops, and its split into rows and columns for tiles.

The axes are those of the largest result, outermost first; where an inner one is dynamic, dynamic
axes come first, as in the operands. A nest is flat, without rows, where its indices are plain; else
rows and columns split where an operand that all rows share begins. With a transposed operand the
rows are its innermost axes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.accesses import Accesses, AxisIndex, Read
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import (
    UNKNOWN_ROWS,
    Axis,
    Conflict,
    Group,
    Space,
    known_product,
    loop_axes,
    power_of_two,
)
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.structured.ir import ops

VECTOR = 8
"""Elements of 16 bits that one access of 16 bytes moves."""

MAX_TILE_COLUMNS = 1024
"""Upper limit of a tile's columns that the split is chosen for."""

MIN_TILE_SIDE = 16
"""Rows or columns of a tile, or of a transposition, below which most of a tile is masked."""

MAX_NARROW_SHARE = 2
"""Elements of the result for each of a transposed operand up to which it decides the tiles of fewer
columns: on an H200 images of three channels to channels last, 21.4 million f16, took 36 us in flat
tiles and 25.7 in those of four columns, one of them masked; of twelve 38 and 22.8, pixel shuffles
by two and three 44 and 23, 54 and 26."""

MIN_TILE_WIDTH = 32
"""Columns of a tile of longer rows, at least: a reflecting pad of 32x116x76x76 f16 to rows of 78
took 47 us on an H200 in tiles of 16 columns, two of 80 masked, and 37 in those of 128."""

MAX_PADDED_COLUMNS = 1.07
"""Upper limit of the columns of all tiles over those of the tensor."""

SHARED_READ_COST = 1 / 16
"""Cost of a read that all rows or all columns of a tile share, relative to one of each element."""

SCALAR_COST = 3 / 4
"""Cost that an access without vectorized loads or stores has in addition, relative to one with
them: a subtraction of 40883295 f16 took 156 us with three scalar accesses, 95 with vectorized ones
(H100)."""

DIVISION_COST = {16: 1 / 4, 32: 1 / 8}
"""Bits of an element -> the cost of a division or a remainder for each, relative to a vectorized
access: about six instructions of integers, of which an SM issues 64 a cycle, while it gets 14 bytes
from memory. Most of them run while loads wait. Padding 512x10x8x408 f32 took 69 us on an H100 with
rows of 411 as rows of tiles, and 51 with three divisions and aligned stores."""

UNCOALESCED_COST = 4
"""Cost of a load in a tile of rows and columns whose columns are not adjacent in memory: Triton 3.6
gives the lanes of a warp to the rows then. On an H100 a gather of every other one of 64 columns of
360448 rows of f16 took 53 us in tiles of 32 by 32, and 21 in flat ones."""

MAX_SHARING_ROWS = 8
"""Rows of a thread that share the divided indices of their columns."""

THREAD_ELEMENTS = 16
"""Elements of a thread that the split is chosen for."""


def count(sizes: Sequence[int | None]) -> int:
    """The product of the sizes; a dynamic one counts as `UNKNOWN_ROWS`."""
    return math.prod(UNKNOWN_ROWS if size is None else size for size in sizes)


def tile_width(columns: int, max_width: int) -> int:
    """Columns of a tile: the largest power of two with few masked columns.

    Args:
      columns: columns of the tensor.
      max_width: upper limit, a power of two.
    """
    width = max_width = min(max_width, power_of_two(columns))
    while -(-columns // width) * width > columns * MAX_PADDED_COLUMNS:
        if width <= MIN_TILE_WIDTH:
            return max_width
        width //= 2
    return width


class Nest:
    """The axes of a region, and their split into batches, rows and columns.

    Attributes:
      results: results of the region.
      sizes: sizes of the axes; only the first ones may be dynamic.
      written: value that the kernel computes -> the axis along each of its dimensions; without
        all of them being elementwise, the results alone.
      reads: accesses of tensors from outside.
      indexed: axes whose own index the kernel computes, for a position or a condition.
      permuted_writes: the access of the largest result, where its memory has the axes in another
        order; empty elsewhere.
      transposed: whether an operand has the axes of a tile in another order than the result.
      rows: first axis of the rows; those before it are batches.
      columns: first axis of the columns.
      rows_first: whether the tiles of the rows of a column are next to each other.

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
        shape = ops.shape(main)
        if not shape or 0 in shape:
            raise Unsupported(f"an empty {main.type}" if shape else f"a result of type {main.type}")
        # Dynamic axes first, as in the operands, where an inner one is dynamic.
        order = written_in = [*range(len(shape))]
        if shape[-1] is not None:
            order = sorted(order, key=lambda dim: shape[dim] is not None)
        self._division_cost = DIVISION_COST[32 if ops.element_bits(main) >= 32 else 16]
        self._arrange(main, order)
        in_memory = tuple(order.index(loop) for loop in written_in)
        permuted = Read(in_memory, ops.shape(main), (True,) * len(in_memory), "permuted")
        self.permuted_writes = [] if order == written_in else [permuted]
        every_axis = tuple(range(len(order)))
        if self.permuted_writes and all(read.axes != every_axis for read in self.reads):
            raise Unsupported(f"an inner dynamic dimension of {main.type}")
        transposition = self._transposition()
        if order == written_in and None not in shape and (rows := self._scattered_rows()):
            columns = max(rows) + 1
            batches = [axis for axis in range(columns) if axis not in rows]
            self._arrange(main, [*batches, *rows, *range(columns, len(shape))])
            transposition = len(batches), columns
        self.transposed = transposition is not None
        self.rows, self.columns = transposition or (0, self._split())
        self.rows_first = False

    def _arrange(self, main: ir.Value, order: Sequence[int]) -> None:
        """Sets the axes, those of these dimensions of a result, and the accesses along them."""
        self.sizes = tuple(ops.shape(main)[dim] for dim in order)
        space = Space((Group("i", self.sizes),))
        self.written = self._written(space, main, order)
        demanded = Accesses(Tiles(space, {}), self._group)
        for value, found in self.written.items():
            demanded.value(value, tuple((0, axis) for axis in found))
        self.reads, self.indexed = demanded.reads, frozenset(demanded.indexed)

    def _written(
        self, space: Space, main: ir.Value, order: Sequence[int]
    ) -> dict[ir.Value, tuple[int, ...]]:
        """`written`, for the axes that the dimensions `order` of a result are."""
        if all(map(ops.is_elementwise, self._group)):
            anchor = main.owner.operation
            loops = _order(anchor, main)
            axes: list[Axis] = [(0, order.index(loops.index(n))) for n in range(len(loops))]
            try:
                return _written(self._group, loop_axes(space, self._group, axes, anchor=anchor))
            except Conflict:
                pass  # a value is read along several axes
        if any(ops.shape(value) != ops.shape(main) for value in self.results):
            raise Unsupported("results of several shapes beside moved data")
        return {
            value: tuple(order.index(dim) for dim in range(len(order))) for value in self.results
        }

    def _transposition(self) -> tuple[int, int] | None:
        """The first axes of the rows and of the columns of a transposition, if there is one.

        Few rows are none whose columns have divided indices, or which a flat tile has as a whole:
        the inverse of a pixel shuffle by three of 20 million f16 took 43.9 us on an H200 in tiles
        of four rows, and 27.6 in flat ones; by two 29.0 and 25.0; 8432 blocks of 64x12 10.6 and
        7.1. Others read a line for each element: four rows of 90000 took 23.4 us, and 49.8 flat.
        """
        transposed = self._transposed_reads()
        if not transposed:
            return None
        largest = transposed[0]
        end = self._contiguous_axis(largest)
        assert end is not None
        columns = count(self.sizes[end + 1 :])
        if columns < MIN_TILE_SIDE:
            whole = MAX_NARROW_SHARE * count(largest.sizes) >= count(self.sizes)
            return (0, end + 1) if whole and count(self.sizes[: end + 1]) >= MIN_TILE_SIDE else None
        first = end
        while first > 0 and all(read.collapses(first - 1, first) for read in transposed):
            first -= 1
        rows = count(self.sizes[first : end + 1])
        # One with few elements for its threads reads no line as a whole.
        if rows * columns < MIN_TILE_SIDE**2:
            return None
        runs = range(end + 2, len(self.sizes))
        divided = not all(largest.collapses(axis - 1, axis) for axis in runs)
        short = divided or rows * columns <= MAX_TILE_COLUMNS
        return None if rows < MIN_TILE_SIDE and short else (first, end + 1)

    def _scattered_rows(self) -> list[int]:
        """The innermost axes of the largest transposed operand, in its order, where these are rows.

        That is where the innermost one alone has few elements, and the others are not next to it in
        the result. Empty elsewhere.
        """
        transposed = self._transposed_reads()
        if not transposed:
            return []
        last = self._last_axis()
        rows: list[int] = []
        for axis in reversed(self._axes_in_memory(transposed[0])):
            if axis in (None, last) or count([self.sizes[n] for n in rows]) >= MIN_TILE_SIDE:
                break
            rows.insert(0, axis)
        natural = rows == [*range(rows[0], rows[-1] + 1)]
        wide = count(self.sizes[max(rows) + 1 :]) >= MIN_TILE_SIDE
        return rows if wide and not natural else []

    def _transposed_reads(self) -> list[Read]:
        """The accesses along the last axis of tensors that are contiguous along another one.

        The one of the largest tensor is first.
        """
        last = self._last_axis()
        found = [
            read
            for read in self.reads
            if last in read.axes and self._contiguous_axis(read) not in (None, last)
        ]
        return sorted(found, key=lambda read: -count(read.sizes))

    def _last_axis(self) -> int:
        """The last axis that has several elements."""
        return max((n for n, size in enumerate(self.sizes) if size != 1), default=0)

    def _contiguous_axis(self, read: Read) -> AxisIndex:
        """The axis along which a tensor is contiguous; None where there is none."""
        axes = self._axes_in_memory(read)
        return axes[-1] if axes else None

    def _axes_in_memory(self, read: Read) -> list[AxisIndex]:
        """The axes along the dimensions of a tensor that have several elements."""
        sizes = [
            size if axis is None else self.sizes[axis]
            for axis, size in zip(read.axes, read.sizes, strict=True)
        ]
        return [axis for axis, size in zip(read.axes, sizes, strict=True) if size != 1]

    def _split(self) -> int:
        """The first axis of the columns.

        Flat tiles, whose vectors divide an index once, are as fast as others or faster where no
        index is computed or needed for itself: on an H200 products of 512x96x56x7 f32 by rows of
        seven took 54.7 us in tiles of rows, and 37.8 in flat ones; three operands of 2448x128x49
        bf16 that lack an axis each 35.0 and 19.6; heads of 64 elements 17.5 and 17.4. But functions
        of what rows share are computed for each element there: the scales of a batch norm, its
        GELU behind it, of 5.8 million bf16 11.0 and 15.3 us.
        """
        plain = not self.indexed and not any(read.computed for read in self.reads)
        if plain and None not in self.sizes and not self._computes_shared_values():
            return 0
        breaks = [
            axis
            for axis in range(1, len(self.sizes))
            if not all(
                read.collapses(axis - 1, axis) for read in (*self.reads, *self.permuted_writes)
            )
            or self.indexed & {axis - 1, axis}
        ]
        # Of equals the last: rows whose tiles start where a row starts need no division.
        return min([*reversed(breaks), 0], key=self._access_cost)

    def _computes_shared_values(self) -> bool:
        """Whether functions or quotients have values that lack an axis as their only operands."""
        total = count(self.sizes)
        for op in filter(ops.is_elementwise, self._group):
            sizes, body = ops.loop_sizes(op), ops.body(op)
            shared = {
                argument
                for argument, index_map in zip(body.arguments, ops.indexing_maps(op), strict=True)
                if index_map is not None
                and count([sizes[loop] for loop in index_map if loop is not None]) < total
            }
            for scalar in (found.operation for found in body.operations):
                given = [value for value in scalar.operands if ops.constant(value) is None]
                if given and shared.issuperset(given):
                    if scalar.name.startswith("math.") or scalar.name == "arith.divf":
                        return True
                    shared.update(scalar.results)
        return False

    def sharing_a_large_operand(self, num_bytes: int) -> Nest:
        """The axes with rows that share an operand of at least so many bytes, if there is one.

        Static sizes; else, and without such an operand, the axes as they are.
        """
        if self.transposed or None in self.sizes:
            return self
        found = 0
        for read in self.reads:
            lacking = [axis for axis, size in enumerate(self.sizes) if size != 1]
            lacking = [axis for axis in lacking if axis not in read.axes]
            if lacking and not read.computed and count(read.sizes) * read.bits // 8 >= num_bytes:
                found = max(found, lacking[-1] + 1)
        if not found or count(self.sizes[found:]) < MAX_TILE_COLUMNS:
            return self
        nest = copy.copy(self)
        nest.rows, nest.columns, nest.rows_first = 0, found, True
        return nest

    def _access_cost(self, split: int) -> float:
        """Vectorized accesses for an element of the result, if the columns start at an axis."""
        last = len(self.sizes) - 1
        columns = count(self.sizes[split:])
        width = tile_width(columns, MAX_TILE_COLUMNS)
        total = 1.0 if split == 0 or columns % VECTOR == 0 else 1.0 + SCALAR_COST
        for read in self.reads:
            along = [axis for axis in read.axes if axis is not None]
            in_rows = read.computed or any(axis < split for axis in along)
            in_columns = read.computed or any(axis >= split for axis in along)
            start = next((n for n in range(last, 0, -1) if not read.collapses(n - 1, n)), 0)
            aligned = known_product(self.sizes[max(split, start) :]) % VECTOR == 0
            adjacent = self._contiguous_axis(read) == last and read.unit_stride
            vectorized = adjacent and (aligned or max(split, start) == 0)
            shared = not in_columns or (split > 0 and not in_rows)
            traffic = min(1.0, count(read.sizes) / count(self.sizes))
            cost = traffic + (0.0 if vectorized else SCALAR_COST)
            if in_rows and in_columns and split > 0 and not adjacent:
                cost += UNCOALESCED_COST * traffic
            total += cost * (SHARED_READ_COST if shared else 1.0)
        rows = sharing_rows(columns, THREAD_ELEMENTS) if self._divides(split) else 1
        for first, end in self._runs(split):
            in_rows = first < split
            begin, stop = (0, split) if in_rows else (split, last + 1)
            each = max(SHARED_READ_COST, rows / THREAD_ELEMENTS) if in_rows else 1 / rows
            total += ((first > begin) + (end < stop)) * each * self._division_cost
        return total * -(-columns // width) * width / columns

    def _runs(self, split: int) -> set[tuple[int, int]]:
        """The first and the end of the axes of each index, if the columns start at an axis."""
        found = {(axis, axis + 1) for axis in self.indexed}
        for read in self.reads:
            axes = sorted(axis for axis in read.axes if axis is not None)
            first = end = -1
            for axis in axes:
                joined = axis == end and axis != split and read.collapses(axis - 1, axis)
                if not joined and end > 0:
                    found.add((first, end))
                first, end = first if joined else axis, axis + 1
            found |= {(first, end)} if end > 0 else set()
        return found

    def _divides(self, split: int) -> bool:
        """Whether indices of columns are divided, if the columns start at an axis."""
        whole = (split, len(self.sizes))
        return split > 0 and any(run[0] >= split and run != whole for run in self._runs(split))

    @property
    def divides(self) -> bool:
        """Whether indices of columns are divided, which rows of a tile share."""
        return not self.transposed and self.rows < self.columns and self._divides(self.columns)


def sharing_rows(columns: int, elements: int) -> int:
    """Rows of a thread that share the indices of its columns.

    Args:
      columns: columns of the tensor, of which a thread has as many adjacent ones as are aligned.
      elements: elements of a thread.
    """
    return max(1, min(MAX_SHARING_ROWS, elements // math.gcd(columns, VECTOR)))


def _order(op: ir.Operation, result: ir.Value) -> list[int]:
    """The loops of an op in the order of its result's dimensions."""
    index_map = ops.indexing_maps(op)[ops.num_inputs(op) + list(op.results).index(result)]
    order = [loop for loop in index_map or () if loop is not None]
    if not order or len(order) != len(ops.iterator_types(op)):
        raise Unsupported(f"an indexing map of {op.name}")
    return order


def _written(
    group: Sequence[ir.Operation], loops: Mapping[ir.Operation, Sequence[Axis]]
) -> dict[ir.Value, tuple[int, ...]]:
    """The axis along each dimension of each value that the ops compute, in their order."""
    found = {}
    for op in group:
        for value, index_map in zip(
            op.results, ops.indexing_maps(op)[ops.num_inputs(op) :], strict=True
        ):
            if index_map is None or None in index_map:
                raise Unsupported(f"an indexing map of {op.name}")
            found[value] = tuple(loops[op][loop][1] for loop in index_map if loop is not None)
    return found
