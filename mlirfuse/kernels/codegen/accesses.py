"""How the ops of a kernel access tensors from outside: along which axes, in which order.

found = Accesses(Tiles(space, {}), group)
found.value(result, index)             demands the elements of a result
found.reads                            the accesses of tensors that this takes, each once
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.demand_writer import Demand, Guard
from mlirfuse.kernels.codegen.indices import Index, Named, axis_of, parts
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.structured.ir import ops

AxisIndex = int | None
"""The axis of the result along a dimension of a tensor; None for another index or none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """The access of a tensor from outside of the region.

    Attributes:
      axes: the axis along each of its dimensions.
      sizes: its sizes.
      whole: for each dimension, whether all of it is read.
      trait: `gathered`, `swapped`, `permuted`, `sliced`, or none.
      unit_stride: whether the last dimension is read forwards, element by element.
      computed: whether an index is computed, or read from memory.
      bits: width of an element.
    """

    axes: tuple[AxisIndex, ...]
    sizes: tuple[int | None, ...]
    whole: tuple[bool, ...]
    trait: str = ""
    unit_stride: bool = True
    computed: bool = False
    bits: int = 16

    def collapses(self, axis: int, following: int) -> bool:
        """Whether the two axes collapse into one in memory, or the tensor has neither."""
        if axis not in self.axes or following not in self.axes:
            return axis not in self.axes and following not in self.axes
        at = self.axes.index(axis) + 1
        return self.axes[at : at + 1] == (following,) and self.whole[at]


class Accesses(Demand):
    """Collects the accesses of a kernel.

    Attributes:
      reads: the accesses, each once.
      indexed: axes whose own index the kernel computes.
    """

    def __init__(self, tiles: Tiles, members: Sequence[ir.Operation]) -> None:
        super().__init__(tiles, members)
        self.reads: list[Read] = []
        self.indexed: set[int] = set()
        self._gathered = ""

    def text(self, index: Index) -> str:
        """Records the axis of an index that is computed."""
        axis = axis_of(index)
        if axis is not None:
            self.indexed.add(axis[1])
        return super().text(index)

    def gather(
        self, extract: ir.Operation, names: Sequence[str], loops: Sequence[Index], guard: Guard
    ) -> str:
        """Records a gather: one at indices that are sums of loops swaps or reverses elements."""
        indices = list(extract.operands)[1:]
        self._gathered = "swapped" if all(map(_is_sum_of_loops, indices)) else "gathered"
        found = super().gather(extract, names, loops, guard)
        self._gathered = ""
        return found

    def load(self, value: ir.Value, index: tuple[Index, ...], guard: Guard) -> str:
        """Records an access."""
        super().load(value, index, guard)
        shape = ops.shape(value)
        if shape:
            sizes, bits = self.tiles.space.groups[0].sizes, ops.element_bits(value)
            read = dataclasses.replace(_read(index, shape, sizes, self._gathered), bits=bits)
            self.reads += [read] if read not in self.reads else []
        return self.tiles.body.name("0")


_SUMS = ("addi", "subi", "cmpi", "select", "constant", "index_cast")
"""Ops of `arith` that compute the index of the other half of a row, or of a reversed one."""


def _is_sum_of_loops(value: ir.Value) -> bool:
    """Whether a scalar is computed from loops by sums and choices alone, and nothing is read."""
    op = ops.defining_op(value)
    if op is None or op.name == "linalg.index":
        return op is not None
    return op.name.removeprefix("arith.") in _SUMS and all(map(_is_sum_of_loops, op.operands))


def _read(
    index: Sequence[Index],
    shape: Sequence[int | None],
    sizes: Sequence[int | None],
    gathered: str,
) -> Read:
    """The access of a tensor at an index.

    Args:
      index: the index along each of its dimensions.
      shape: its sizes.
      sizes: sizes of the axes.
      gathered: trait of a gather; empty for other accesses.
    """
    found = [axis_of(part) for part in index]
    axes = tuple(None if axis is None else axis[1] for axis in found)
    whole = tuple(
        part is None or (axis == part and sizes[axis[1]] == size if axis else False)
        for part, axis, size in zip(index, found, shape, strict=True)
    )
    known = [axis for axis in axes if axis is not None]
    trait = gathered
    if not trait and known != sorted(known):
        trait = "permuted"
    elif not trait and not all(whole[1:]):
        trait = "sliced"
    last = index[-1]
    unit_stride = not isinstance(last, Named) and parts(last)[1] in (0, 1)
    computed = any(isinstance(part, Named) for part in index)
    return Read(axes, tuple(shape), whole, trait, unit_stride, computed)
