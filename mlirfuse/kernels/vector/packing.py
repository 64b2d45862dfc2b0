"""Filters in the order in which kernels read them."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.destination_builder import insert
from mlirfuse.kernels.convolution.analysis import Analysis
from mlirfuse.structured.ir import ops


def packed(
    held: ir.Value, found: Analysis, columns: int | None, group: int, unit: int, pairs: int = 0
) -> ir.Value:
    """A filter as [groups][tiles][taps][input channels / group][columns][group], in one dimension.

    Args:
      held: the filter.
      found: its convolution.
      columns: output channels of a tile; None for a depthwise convolution, whose filter is
        [taps][groups].
      group: input channels that an instruction multiplies for each column.
      unit: input channels of a step; zeros fill up the last one.
      pairs: lanes of vectors of columns of which each two are interleaved; 0 where they follow each
        other.
    """
    loops = found.loops
    depthwise = columns is None
    order = (
        *(() if depthwise else loops.group_loops),
        *loops.tap_loops,
        loops.channel_loop,
        *(loops.group_loops if depthwise else (loops.n_loop,)),
    )
    value, held_loops = held, list(found.filter_loops)
    if columns is not None:
        if loops.n_loop is None:
            value = _with_unit_dim(value)
            held_loops.append(None)
        # Zeros first: they are a dispatch of their own, and all transpositions behind it are one.
        if loops.channel_loop is not None:
            value = _padded(value, held_loops.index(loops.channel_loop), unit)
        value = _padded(value, held_loops.index(loops.n_loop), columns)
    wanted = [loop for loop in order if loop in held_loops]
    value = builders.transpose(value, [wanted.index(loop) for loop in held_loops])
    if columns is not None:
        value = split(value, len(loops.group_loops), columns)
        value = _grouped(value, group)
        value = _interleaved(value, pairs) if pairs else value
    return builders.collapse(value, [list(range(len(ops.shape(value))))])


def _with_unit_dim(value: ir.Value) -> ir.Value:
    """A tensor with a last dimension of one element more."""
    rank = len(ops.shape(value))
    return builders.expand(value, builders.split_axis(rank, rank - 1), [*ops.shape(value), 1])


def sums(held: ir.Value, found: Analysis, factor: int) -> ir.Value:
    """The sums of the columns of a filter of i8, times a factor, as i32, group after group.

    Args:
      held: the filter.
      found: its contraction.
      factor: the factor.
    """
    loops = sorted(loop for loop in found.filter_loops if loop is not None)
    axes = tuple(loops.index(loop) for loop in found.filter_loops if loop is not None)
    kept = [*found.loops.group_loops, found.loops.n_loop or 0]
    zero = builders.scalar_constant(0, "i32")

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        wide = builders.scalar("arith.extsi", [arguments[0]], "i32")
        scaled = builders.scalar(
            "arith.muli", [wide, builders.scalar_constant(factor, "i32")], "i32"
        )
        return [builders.scalar("arith.addi", [arguments[1], scaled], "i32")]

    value = builders.generic(
        [held],
        [builders.fill(zero, builders.empty([*found.groups, found.out_channels], "i32"))],
        [axes, tuple(loops.index(loop) for loop in kept)],
        ["parallel" if loop in kept else "reduction" for loop in loops],
        body,
    ).results[0]
    return builders.collapse(value, [list(range(len(kept)))])


def _padded(value: ir.Value, axis: int, unit: int) -> ir.Value:
    """A tensor with zeros at the end of one dimension, so that a unit divides its size."""
    sizes = [size or 0 for size in ops.shape(value)]
    if sizes[axis] % unit == 0:
        return value
    whole = list(sizes)
    whole[axis] = -(-sizes[axis] // unit) * unit
    element = ops.element_type(value)
    zeros = builders.fill(builders.scalar_constant(0, element), builders.empty(whole, element))
    return insert(value, zeros, [0] * len(sizes)).results[0]


def split(value: ir.Value, outer: int, columns: int) -> ir.Value:
    """A tensor with tiles of its last dimension behind its first `outer` ones, zeros at the end."""
    rank = len(ops.shape(value))
    value = _padded(value, rank - 1, columns)
    sizes = [size or 0 for size in ops.shape(value)]
    value = builders.expand(
        value,
        builders.split_axis(rank, rank - 1),
        [*sizes[:-1], sizes[-1] // columns, columns],
    )
    place = [d if d < outer else d + 1 for d in range(rank - 1)]
    return builders.transpose(value, [*place, outer, rank])


def _grouped(value: ir.Value, group: int) -> ir.Value:
    """A tensor of [..., K, columns] as [..., K / group, columns, group]."""
    if group == 1:
        return value
    sizes = [size or 0 for size in ops.shape(value)]
    rank = len(sizes)
    value = builders.expand(
        value,
        builders.split_axis(rank, rank - 2),
        [*sizes[:-2], sizes[-2] // group, group, sizes[-1]],
    )
    return builders.transpose(value, [*range(rank - 1), rank, rank - 1])


def _interleaved(value: ir.Value, lanes: int) -> ir.Value:
    """A tensor whose last dimension has vectors of so many lanes, in pairs, elements in turns."""
    *outer, columns = (size or 0 for size in ops.shape(value))
    rank = len(outer) + 1
    groups = [*([n] for n in range(rank - 1)), [rank - 1, rank, rank + 1]]
    value = builders.expand(value, groups, [*outer, columns // (2 * lanes), 2, lanes])
    return builders.transpose(value, [*range(rank), rank + 1, rank])
