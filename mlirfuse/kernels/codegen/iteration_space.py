"""The iteration space of a kernel, and which axis of it every loop of a region is.

Axes come in groups. Along a group the kernel has one flat index: a row of a tile, a column of it,
or a batch. The index of an axis is computed from the flat one only where it is needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.structured.ir import ops

SIZE = "size"
"""Name of the dynamic dimension's size in a kernel's text."""

MAX_INDEX = 1 << 31
"""Elements up to which offsets are 32 bits wide; above, and with dynamic rows, they have 64."""

UNKNOWN_ROWS = 4096
"""The number that dynamic rows count as, where a configuration is chosen."""


def power_of_two(number: int) -> int:
    """The least power of two that is at least the number."""
    return 1 << max(0, number - 1).bit_length()


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Axes that a kernel linearizes into one index, the last axis innermost.

    Attributes:
      flat: name of the flat index, a tile or a scalar; empty where it is 0.
      sizes: sizes of the axes; the first ones may be dynamic.
      mask: name of the condition that the flat index is in bounds; empty when it always is.
      size: name of the group's dynamic size, the product of all its dynamic axes.
      pairs: dimension of a tile along which adjacent elements are packed in pairs: there
        `FLAT_pair` is the index of a pair, and `FLAT_pair_inside` its mask; None without pairs.
      apart: whether several dynamic axes have indices of their own, without the others: the
        kernel's arguments have their sizes as `SIZE_0` and so on.
      tail: how many of its last axes have an index apart, `FLAT_inner`, which the mask is of; that
        of the others is `FLAT_outer`. 0 where there is the flat index alone. Static sizes.
      run: elements of the runs that a thread loads, where a tile has whole ones; 0 without runs.
      starts: the flat indices of the first elements of a tile's runs, as an expression.
      origin: where a loop moves a tile, the scalar that all of its flat indices have in common;
        `FLAT_local` is the rest. Offsets have their products apart: that of the scalar is added to
        a pointer, and the others become constants of a load's instruction.
      indices: the index along each axis, as an expression; empty where they are computed from the
        flat index. Triton does not find in `row % 6144` which rows are adjacent, if those of a tile
        are in two dimensions. Static sizes.
    """

    flat: str
    sizes: tuple[int | None, ...]
    mask: str = ""
    size: str = SIZE
    pairs: int | None = None
    apart: bool = False
    tail: int = 0
    run: int = 0
    starts: str = ""
    origin: str = ""
    indices: tuple[str, ...] = ()

    @property
    def dynamic(self) -> int:
        """How many of its first sizes are dynamic."""
        return next((n for n, size in enumerate(self.sizes) if size is not None), len(self.sizes))

    def shares_runs(self, axis: int) -> bool:
        """Whether all elements of a run have the same index along an axis and those before it."""
        inner = self.sizes[axis + 1 :]
        return self.run > 0 and len(inner) > 0 and known_product(inner) % self.run == 0

    def factor(self, axis: int) -> bool:
        """Whether a product of sizes has the axis: of several dynamic axes it has the last."""
        return axis >= self.dynamic - 1


Axis = tuple[int, int]
"""Index of the group, and of the axis in it."""


def known_product(sizes: Sequence[int | None]) -> int:
    """The product of the sizes that are static."""
    total = 1
    for size in sizes:
        total *= 1 if size is None else size
    return total


def product_text(sizes: Sequence[int | None], names: Sequence[str] | None = None) -> str:
    """The product of the sizes in a kernel's text.

    Args:
      sizes: None for a dynamic one.
      names: name of each size where it is dynamic; `SIZE` when left out.
    """
    called = [SIZE] * len(sizes) if names is None else names
    factors = [name for size, name in zip(sizes, called, strict=True) if size is None]
    number = known_product(sizes)
    return " * ".join([*([str(number)] if number != 1 or not factors else []), *factors])


def _factor(sizes: Sequence[int | None], names: Sequence[str]) -> str:
    """The product of the sizes as a part of a product or a quotient."""
    text = product_text(sizes, names)
    return f"({text})" if "*" in text else text


@dataclasses.dataclass(frozen=True, slots=True)
class Space:
    """The groups of a kernel."""

    groups: tuple[Group, ...]

    def index(self, group: int, first: int, last: int) -> str:
        """The linearized index of the axes `first` to `last` of a group.

        Raises:
          Unsupported: the group has several dynamic axes, of which some are not among these, and
            it is not `apart`.
        """
        flat, sizes = self.groups[group].flat, self.groups[group].sizes
        if own := self.groups[group].indices:
            strides = [known_product(sizes[axis + 1 : last + 1]) for axis in range(first, last + 1)]
            terms = zip(own[first : last + 1], strides, strict=True)
            text = " + ".join(f"{name} * {n}" if n != 1 else name for name, n in terms)
            return f"({text})"
        dynamic, split = self.groups[group].dynamic, len(sizes) - self.groups[group].tail
        if first >= split:
            flat, sizes, first, last = f"{flat}_inner", sizes[split:], first - split, last - split
        elif last < split < len(sizes):
            flat, sizes = f"{flat}_outer", sizes[:split]
        names = [""] * len(sizes)
        if first < dynamic and (first > 0 or last < dynamic - 1):
            names = [self._own_size(group, n) if n < dynamic else "" for n in range(len(sizes))]
        inner = _factor(sizes[last + 1 :], names[last + 1 :])
        text = f"({flat} // {inner})" if inner != "1" else flat
        if first == 0:
            return text
        return f"({text} % {_factor(sizes[first : last + 1], names[first : last + 1])})"

    def linear_index(self, terms: Sequence[tuple[Axis, int]]) -> str:
        """Indices of axes, each times its factor, added up; empty without any."""
        return " + ".join(
            self.index(group, axis, axis) + (f" * {factor}" if factor != 1 else "")
            for (group, axis), factor in terms
        )

    def inside(self, *groups: int) -> list[str]:
        """The lines that compute the masks of these groups."""
        found = []
        for number in groups:
            group = self.groups[number]
            flat, size = group.flat, self.size(number)
            if group.tail:
                flat, size = f"{flat}_inner", product_text(group.sizes[-group.tail :])
            found += [f"{group.mask} = {flat} < {size}"] if group.mask else []
        return found

    def size(self, group: int) -> str:
        """The number of flat indices of a group."""
        g = self.groups[group]
        sizes = [size for axis, size in enumerate(g.sizes) if g.factor(axis)]
        return product_text(sizes, [g.size] * len(sizes))

    def stride(self, shape: Sequence[int | None], axes: Sequence[Axis | None], dim: int) -> str:
        """Elements of a row-major tensor from one index of a dimension to the next.

        Args:
          shape: shape of the tensor.
          axes: the axis along each dimension; None for a dimension without one.
          dim: the dimension.
        """
        later, named = {*axes[dim + 1 :]}, []
        for size, axis in zip(shape[dim + 1 :], axes[dim + 1 :], strict=True):
            if axis is None:
                named.append((size, SIZE))
                continue
            group = self.groups[axis[0]]
            together = {(axis[0], n) for n in range(group.dynamic)} <= later
            if size is None and not together:
                named.append((size, self._own_size(*axis)))
            elif group.factor(axis[1]):
                named.append((size, group.size))
        return product_text([size for size, _ in named], [name for _, name in named])

    def _own_size(self, group: int, axis: int) -> str:
        """The size of a dynamic axis that has an index without the others of its group."""
        whole = self.groups[group]
        if whole.dynamic > 1 and not whole.apart:
            raise Unsupported("one of several dynamic dimensions without the others")
        return whole.size if whole.dynamic == 1 else f"{whole.size}_{axis}"

    def offset(
        self,
        shape: Sequence[int | None],
        axes: Sequence[Axis | None],
        taken: Sequence[int | None] | None = None,
        steps: Sequence[int] = (),
    ) -> str:
        """The offset of an element of a row-major tensor, in elements.

        Args:
          shape: shape of the tensor.
          axes: the axis along each dimension; None for its first element.
          taken: sizes of the slice that the axes index; those of the tensor when left out.
          steps: strides of that slice; empty for unit strides.
        """
        sizes = shape if taken is None else taken
        steps = steps or [1] * len(axes)
        terms = []
        dim = 0
        while dim < len(axes):
            axis = axes[dim]
            end = dim + 1
            if axis is None or not self.groups[axis[0]].flat:
                dim = end
                continue
            group, first = axis
            while (
                end < len(axes)
                and axes[end] == (group, first + end - dim)
                and sizes[end] == shape[end]
                and steps[dim] == steps[end] == 1
            ):
                end += 1
            stride = self.stride(shape, axes, end - 1)
            if steps[end - 1] != 1:
                stride = str(steps[end - 1]) if stride == "1" else f"{stride} * {steps[end - 1]}"
            text = self.index(group, first, first + end - 1 - dim)
            # A wide index makes a product with a dynamic size wide from the left on.
            dynamic = None in shape[end:]
            times = stride if dynamic else f"({stride})"
            origin = self.groups[group].origin
            if origin and text == self.groups[group].flat and stride != "1":
                terms.append(f"{origin} * {times}")
                text = f"{text}_local"
            terms.append(text if stride == "1" else f"{text} * {times}")
            dim = end
        return " + ".join(terms) or "0"

    def mask(self, axes: Sequence[Axis | None]) -> str:
        """The condition that an element is in bounds; empty when it always is."""
        groups = sorted({axis[0] for axis in axes if axis is not None})
        return " & ".join(self.groups[g].mask for g in groups if self.groups[g].mask)


class Conflict(Exception):
    """The ops of a region do not share one iteration space."""


def loop_axes(
    space: Space,
    group: Sequence[ir.Operation],
    main: Sequence[Axis],
    *,
    anchor: ir.Operation | None = None,
    written: Mapping[ir.Value, Sequence[Axis]] | None = None,
) -> dict[ir.Operation, list[Axis]]:
    """The axis of each loop of each op.

    Values that an op reads or writes inside the region tie its loops to those of other ops. A loop
    without a tie takes the axis at its own position in `main`, or the last axis of its size.

    Args:
      space: the axes.
      group: structured ops in block order.
      main: the axes in the order in which ops over the whole space mostly have them.
      anchor: an op whose loops are these axes.
      written: values that other ops compute -> the axes of their dimensions.

    Raises:
      Conflict: an op reads a value along another axis than the one it was written along, or has a
        loop that is no axis.
    """
    names = _Naming(space, group, written or {})
    if anchor is not None:
        for loop, axis in enumerate(main):
            names.settle(names.loops[anchor], loop, axis)
    names.propagate()
    for op in group:
        for loop, known in enumerate(names.loops[op]):
            if known is None:
                names.settle(names.loops[op], loop, names.guess(op, loop, main))
                names.propagate()
    return names.complete()


class _Naming:
    """The axes of loops and of the dimensions of values, as far as they are known."""

    def __init__(
        self,
        space: Space,
        group: Sequence[ir.Operation],
        written: Mapping[ir.Value, Sequence[Axis]],
    ) -> None:
        self.group = group
        self.sizes: dict[Axis, int | None] = {
            (g, n): size
            for g, entry in enumerate(space.groups)
            for n, size in enumerate(entry.sizes)
        }
        self.loops: dict[ir.Operation, list[Axis | None]] = {
            op: [None] * len(ops.iterator_types(op)) for op in group
        }
        self.dims: dict[ir.Value, list[Axis | None]] = {
            value: [None] * len(ops.shape(value)) for op in group for value in op.results
        }
        self.dims.update((value, list(axes)) for value, axes in written.items())

    @staticmethod
    def settle(known: list[Axis | None], position: int, axis: Axis | None) -> bool:
        """Sets an axis; returns whether it was unknown."""
        if axis is None or known[position] == axis:
            return False
        if known[position] is not None or axis in known:
            raise Conflict
        known[position] = axis
        return True

    def propagate(self) -> None:
        """Propagates axes along values from op to op, up to a fixed point."""
        changed = True
        while changed:
            changed = False
            for op in self.group:
                # An init that is not read may be a tensor of other axes of the same sizes.
                read = op.operands if ops.reads_inits(op) else ops.inputs(op)
                for value, index_map in zip(read, ops.indexing_maps(op), strict=False):
                    changed |= self._tie(op, value, index_map)
                outputs = ops.indexing_maps(op)[ops.num_inputs(op) :]
                for value, index_map in zip(op.results, outputs, strict=True):
                    changed |= self._tie(op, value, index_map)

    def _tie(self, op: ir.Operation, value: ir.Value, index_map: ops.IndexMap | None) -> bool:
        dims, loops = self.dims.get(value), self.loops[op]
        changed = False
        for dim, loop in enumerate(index_map or ()):
            if dims is not None and loop is not None:
                changed |= self.settle(dims, dim, loops[loop])
                changed |= self.settle(loops, loop, dims[dim])
        return changed

    def guess(self, op: ir.Operation, loop: int, main: Sequence[Axis]) -> Axis:
        """An axis of the size of a loop that no value ties.

        Raises:
          Conflict: there is none, or it is ambiguous among several dynamic ones.
        """
        size, taken = ops.loop_sizes(op)[loop], self.loops[op]
        dynamic = {axis for axis, known in self.sizes.items() if known is None}
        settled = [dynamic.intersection(known) for known in self.loops.values()]
        if size is None and len(dynamic) > 1 and any(settled) and not dynamic.intersection(taken):
            raise Conflict
        same_position = [main[loop]] if len(taken) == len(main) else []
        for axis in [*same_position, *reversed(sorted(self.sizes))]:
            if axis not in taken and self.sizes[axis] == size:
                return axis
        raise Conflict

    def complete(self) -> dict[ir.Operation, list[Axis]]:
        """The axis of every loop.

        Raises:
          Conflict: the size of an axis is not that of its loop.
        """
        found = {}
        for op, known in self.loops.items():
            axes = [axis for axis in known if axis is not None]
            if [self.sizes[a] for a in axes] != list(ops.loop_sizes(op)):
                raise Conflict
            found[op] = axes
        return found
