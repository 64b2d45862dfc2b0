"""Elements of tensors on demand: each value is computed at the indices where it is needed.

    demand.value(y, (rows, columns))        the tile of y, and before it all that y is computed from

Slices, paddings, concatenations, flips and gathers only change the indices at which their operands
are needed, so that a chain of them and of elementwise ops is one kernel without memory in between.
Elements outside of a part are neither loaded nor computed from loads: each has a condition.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported, literal
from mlirfuse.kernels.codegen.indices import (
    Index,
    Named,
    Shifted,
    axis_of,
    linear,
    of_scalar,
    parts,
    sliced,
)
from mlirfuse.kernels.codegen.iteration_space import Axis, known_product
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.structured.ir import ops

MOVEMENTS = frozenset(
    {"tensor.concat", "tensor.extract_slice", "tensor.insert_slice", "tensor.pad"}
)
"""Ops that only move elements, other than elementwise ops."""


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """The condition under which an element is needed.

    Attributes:
      text: the condition in the kernel; empty where there is none.
      groups: the groups of axes that it depends on.
    """

    text: str = ""
    groups: frozenset[int] = frozenset()

    def and_also(self, text: str, groups: Collection[int]) -> Guard:
        """Both conditions."""
        both = f"{self.text} & {text}" if self.text else text
        return Guard(both, self.groups | frozenset(groups))


ALWAYS = Guard()

MAX_EVALUATIONS_PER_OP = 3
"""Indices at which the ops of a region are evaluated, on average. Steps of a scan read the one
before at two indices: 17 in a row would evaluate the first at 2^17."""

MIN_EVALUATIONS = 64
"""Evaluations that every region may have."""


class Demand:
    """Writes the values of a region into a kernel where they are demanded.

    Attributes:
      tiles: the lines of the kernel.
      members: the ops of the region that are computed in the kernel.
    """

    def __init__(self, tiles: Tiles, members: Collection[ir.Operation]) -> None:
        self.tiles = tiles
        self.members = set(members)
        self._known: dict[tuple[ir.Value, tuple[Index, ...], Guard], str] = {}
        self._evaluations = 0

    def define(self, value: ir.Value, index: tuple[Index, ...], name: str) -> None:
        """Sets the tile of a value at an index."""
        self._known[value, index, ALWAYS] = name

    def value(self, value: ir.Value, index: tuple[Index, ...], guard: Guard = ALWAYS) -> str:
        """The tile of a value.

        Args:
          value: a tensor of the region, or one that it reads.
          index: the index along each of its dimensions.
          guard: the condition under which it is needed; elsewhere it may be anything.

        Raises:
          Unsupported: there is no translation.
        """
        found = self._known.get((value, index, ALWAYS)) or self._known.get((value, index, guard))
        if found is None:
            found = self._computed(value, index, guard)
            self._known[value, index, guard] = found
        return found

    def _computed(self, value: ir.Value, index: tuple[Index, ...], guard: Guard) -> str:
        op = ops.defining_op(value)
        number = ops.constant(value)
        if number is not None:
            body = self.tiles.body
            return body.name(literal(number, ops.element_type(value), body.types, body.layout))
        if op is not None and op.name == "tensor.extract_slice":
            source = self.cut(op, index)
            if source is not None:
                return self.value(op.operands[0], source, guard)
            if ops.in_region(op):
                raise Unsupported("a slice at computed offsets")
        if op is None or op not in self.members:
            return self.load(value, index, guard)
        if op.name == "tensor.pad":
            return self._pad(op, index, guard)
        if op.name == "tensor.insert_slice":
            return self._insert(op, index, guard)
        if op.name == "tensor.concat":
            return self._concat(op, index, guard)
        if op.name in ops.RESHAPES:
            return self.value(op.operands[0], self._reshaped(op, index), guard)
        if ops.is_elementwise(op):
            self._evaluations += 1
            limit = max(MIN_EVALUATIONS, MAX_EVALUATIONS_PER_OP * len(self.members))
            if self._evaluations > limit:
                raise Unsupported(f"ops at more than {limit} indices together")
            return self._elementwise(op, value, index, guard)
        raise Unsupported(ops.described(op))

    def cut(self, cut: ir.Operation, index: tuple[Index, ...]) -> tuple[Index, ...] | None:
        """The index in the source of a slice; None where its offsets are not known."""
        return sliced(cut, index)

    def load(self, value: ir.Value, index: tuple[Index, ...], guard: Guard) -> str:
        """The elements of a tensor from outside of the region."""
        owner = ops.defining_op(value)
        if owner is not None and owner.name == "tensor.empty":
            raise Unsupported("a value that nothing has written")
        plain = tuple(part for part in index if not isinstance(part, Shifted | Named))
        whole = all(
            part is None or self._size(part) == size
            for part, size in zip(plain, ops.shape(value), strict=False)
        )
        if len(plain) == len(index) and whole and not guard.text:
            return self.tiles.read(value, plain)
        if ops.element_type(value) == "i4":
            raise Unsupported("a part of a tensor of i4")
        pointers, mask = self.pointers(self.tiles.pointer(value), value, index, guard)
        axes = tuple(axis_of(part) for part in index)
        return self.tiles.body.name(self.tiles.loaded(pointers, mask, value, axes))

    def pointers(
        self, base: str, value: ir.Value, index: tuple[Index, ...], guard: Guard = ALWAYS
    ) -> tuple[str, str]:
        """Pointers to elements of a tensor, and the condition under which they may be read.

        Args:
          base: a pointer to the first element.
          value: the tensor.
          index: the index along each of its dimensions.
          guard: the condition under which the elements are needed.
        """
        offset, groups = self._offset(value, index)
        space = self.tiles.space
        masks = [space.groups[g].mask for g in sorted(groups) if space.groups[g].mask]
        pointers = f"{base} + {offset}"
        for group in sorted(guard.groups - groups):
            # The pointers have the shape of their mask.
            pointers += f" + {space.groups[group].flat} * 0"
            masks += [space.groups[group].mask] if space.groups[group].mask else []
        return pointers, " & ".join([*masks, *([guard.text] if guard.text else [])])

    def _size(self, axis: Axis) -> int | None:
        return self.tiles.space.groups[axis[0]].sizes[axis[1]]

    def _offset(self, value: ir.Value, index: Sequence[Index]) -> tuple[str, set[int]]:
        """The offset of an element in a tensor, and the groups of axes that it depends on."""
        space, shape = self.tiles.space, ops.shape(value)
        plain: list[Axis | None] = []
        taken: list[int | None] = []
        terms: list[str] = []
        start = 0
        computed = False
        for dim, part in enumerate(index):
            axis = axis_of(part)
            step = 1 if isinstance(part, Named) else parts(part)[1]
            plain.append(axis if axis is not None and step == 1 else None)
            taken.append(None if axis is None else self._size(axis))
            if axis == part or part is None:
                continue
            if None in shape[dim + 1 :]:
                raise Unsupported(f"a part of {value.type}")
            stride = known_product(shape[dim + 1 :])
            if isinstance(part, Named):
                terms.append(f"{part.text} * {stride}")
                computed = True
                continue
            start += parts(part)[2] * stride
            if axis is not None and step != 1:
                terms.append(f"{space.index(axis[0], axis[1], axis[1])} * {step * stride}")
        self.tiles.axes.setdefault(value, tuple(plain))
        groups = {part[0] for part in map(axis_of, index) if part is not None}
        if computed:
            groups = {n for n, group in enumerate(space.groups) if group.sizes}
            terms += [f"{space.groups[n].flat} * 0" for n in sorted(groups) if space.groups[n].mask]
            groups = {n for n in groups if space.groups[n].mask}
        first = space.offset(shape, plain, taken)
        found = [first] if first != "0" or not (terms or start) else []
        return "(" + " + ".join([*found, *terms, *([str(start)] if start else [])]) + ")", groups

    def _elementwise(
        self, op: ir.Operation, value: ir.Value, index: tuple[Index, ...], guard: Guard
    ) -> str:
        written = ops.indexing_maps(op)[ops.num_inputs(op) + list(op.results).index(value)]
        loops: list[Index] = [None] * len(ops.iterator_types(op))
        settled = set()
        for loop, part in zip(written or (), index, strict=True):
            if loop is None:
                raise Unsupported(f"an indexing map of {op.name}")
            loops[loop] = part
            settled.add(loop)
        if len(settled) != len(loops):
            raise Unsupported(f"an indexing map of {op.name}")
        arguments: list[str | None] = []
        for argument, operand, index_map in zip(
            ops.body(op).arguments, op.operands, ops.indexing_maps(op), strict=True
        ):
            if not list(argument.uses):
                arguments.append(None)
                continue
            if index_map is None:
                raise Unsupported(f"an indexing map of {op.name}")
            at = tuple(None if loop is None else loops[loop] for loop in index_map)
            arguments.append(self.value(operand, at, guard))
        known = self.tiles.body.block(
            ops.body(op),
            arguments,
            lambda loop: self.text(loops[loop]),
            gather=lambda extract, names: self.gather(extract, names, loops, guard),
        )
        yielded = list(ops.body(op).operations)[-1].operation.operands
        for result, inner in zip(op.results, yielded, strict=True):
            index_map = ops.indexing_maps(op)[ops.num_inputs(op) + list(op.results).index(result)]
            if index_map is not None and None not in index_map:
                at = tuple(None if loop is None else loops[loop] for loop in index_map)
                self._known[result, at, guard] = known[inner]
        return self._known[value, index, guard]

    def gather(
        self, extract: ir.Operation, names: Sequence[str], loops: Sequence[Index], guard: Guard
    ) -> str:
        """The elements of a tensor at indices that the body of an op computes."""
        tensor, *given = extract.operands
        named = dict(zip(given, names, strict=True))
        index = tuple(of_scalar(v, loops, lambda inner: named.get(inner, "")) for v in given)
        if any(isinstance(part, Named) for part in index) and ops.element_type(tensor) == "i4":
            raise Unsupported(f"a gather from {tensor.type}")
        return self.value(tensor, index, guard)

    def text(self, index: Index) -> str:
        """An index in the kernel."""
        if isinstance(index, Named):
            return index.text
        axis, step, start = parts(index)
        if axis is None:
            return str(start)
        text = self.tiles.space.index(axis[0], axis[1], axis[1])
        text = text if step == 1 else f"{text} * {step}"
        return f"{text} + {start}" if start else text

    def _inside(
        self, index: Index, low: int, size: int | None, whole: int | None
    ) -> tuple[str, set[int]]:
        """The condition that an index is one of `size` from `low` on, and its groups."""
        if size is None or whole is None:
            raise Unsupported("a part of a dynamic dimension")
        if not isinstance(index, Named) and axis_of(index) is None:
            if low <= parts(index)[2] < low + size:
                return "", set()
            raise Unsupported("one element of a tensor that another part covers")
        text = self.text(index)
        bounds = [f"({text} >= {low})"] if low > 0 else []
        bounds += [f"({text} < {low + size})"] if low + size < whole else []
        axis = axis_of(index)
        every = {n for n, group in enumerate(self.tiles.space.groups) if group.sizes}
        return " & ".join(bounds), every if isinstance(index, Named) else {
            axis[0]
        } if axis else set()

    def box(
        self,
        index: Sequence[Index],
        starts: Sequence[int],
        sizes: Sequence[int | None],
        shape: Sequence[int | None],
    ) -> Guard:
        """The condition that an index is in a box of a tensor of that shape."""
        found = ALWAYS
        for part, low, size, whole in zip(index, starts, sizes, shape, strict=True):
            if low == 0 and size == whole:
                continue
            text, groups = self._inside(part, low, size, whole)
            if text:
                found = found.and_also(text, groups)
        if not found.text:
            return found
        return Guard(self.tiles.body.name(found.text), found.groups)

    def chosen(
        self, box: Guard, guard: Guard, part: tuple[ir.Value, tuple[Index, ...]], rest: str | None
    ) -> str:
        """The elements of a part inside of a box, those of the rest elsewhere."""
        inner = self.value(*part, guard.and_also(box.text, box.groups) if box.text else guard)
        if rest is None or not box.text:
            return inner
        return self.tiles.body.name(f"tl.where({box.text}, {inner}, {rest})")

    def _reshaped(self, op: ir.Operation, index: tuple[Index, ...]) -> tuple[Index, ...]:
        """The index in the source of a `tensor.collapse_shape` or `tensor.expand_shape`."""
        collapses = op.name == "tensor.collapse_shape"
        wide = ops.shape(op.operands[0] if collapses else op.results[0])
        if None in wide:
            raise Unsupported("a reshape of dynamic sizes")
        found: list[Index] = []
        for number, group in enumerate(ops.reassociation(op)):
            sizes = [wide[dim] or 0 for dim in group]
            if collapses:
                found += self._split(index[number], sizes)
            else:
                found.append(self._merged([index[dim] for dim in group], sizes))
        return tuple(found)

    def _split(self, index: Index, sizes: Sequence[int]) -> list[Index]:
        """An index along dimensions of these sizes as one, along each of them."""
        if all(size == 1 for size in sizes):
            return [None for _ in sizes]
        if math.prod(sizes) == max(sizes):
            return [index if size > 1 else None for size in sizes]
        text, found = self.text(index), []
        for position, size in enumerate(sizes):
            inner = math.prod(sizes[position + 1 :])
            part = f"({text}) // {inner}" if inner > 1 else f"({text})"
            found.append(Named(f"({part} % {size})" if position else f"({part})"))
        return [part if size > 1 else None for part, size in zip(found, sizes, strict=True)]

    def _merged(self, indices: Sequence[Index], sizes: Sequence[int]) -> Index:
        """Indices along dimensions of these sizes as one along all of them."""
        varying = [
            (part, math.prod(sizes[position + 1 :]))
            for position, (part, size) in enumerate(zip(indices, sizes, strict=True))
            if size > 1 and part is not None
        ]
        if not varying:
            return None
        if len(varying) == 1:
            return linear(varying[0][0], varying[0][1], 0)
        return Named("(" + " + ".join(f"({self.text(p)}) * {s}" for p, s in varying) + ")")

    def _pad(self, op: ir.Operation, index: tuple[Index, ...], guard: Guard) -> str:
        amounts, filler = ops.padding_amounts(op), ops.padding_value(op)
        number = None if filler is None else ops.constant(filler)
        dynamic = ir.ShapedType.get_dynamic_size()
        if amounts is None or number is None or any(dynamic in pair for pair in amounts):
            raise Unsupported("a padding that is not static, with one constant")
        source, lows = op.operands[0], [low for low, _ in amounts]
        box = self.box(index, lows, ops.shape(source), ops.shape(op.results[0]))
        inner = tuple(linear(part, 1, -low) for part, low in zip(index, lows, strict=True))
        body = self.tiles.body
        fill = literal(number, ops.element_type(source), body.types, body.layout)
        return self.chosen(box, guard, (source, inner), fill)

    def _insert(self, op: ir.Operation, index: tuple[Index, ...], guard: Guard) -> str:
        bounds = ops.static_insert(op)
        if bounds is None or not ops.has_unit_strides(op):
            raise Unsupported("an insertion that is not static, with unit strides")
        starts, sizes = bounds
        source, whole = op.operands[0], op.operands[1]
        if _misses(index, starts, sizes):
            return self.value(whole, index, guard)
        box = self.box(index, starts, sizes, ops.shape(whole))
        kept = ops.kept_dimensions(sizes, ops.shape(source))
        inner = tuple(linear(index[dim], 1, -starts[dim]) for dim in kept)
        owner = ops.defining_op(whole)
        rest = None
        if box.text and (owner is None or owner.name != "tensor.empty"):
            rest = self.value(whole, index, guard.and_also(f"({box.text} == 0)", box.groups))
        return self.chosen(box, guard, (source, inner), rest)

    def _concat(self, op: ir.Operation, index: tuple[Index, ...], guard: Guard) -> str:
        axis, start, found = int(op.attributes["dim"].value), 0, None
        shape = ops.shape(op.results[0])
        for part in op.operands:
            size = ops.shape(part)[axis]
            if size is None:
                raise Unsupported("a part of a dynamic dimension")
            starts = [start if dim == axis else 0 for dim in range(len(shape))]
            if _misses(index, starts, ops.shape(part)):
                start += size
                continue
            box = self.box(index, starts, ops.shape(part), shape)
            inner = tuple(
                linear(at, 1, -start) if dim == axis else at for dim, at in enumerate(index)
            )
            found = self.chosen(box, guard, (part, inner), found)
            start += size
        assert found is not None
        return found


def _misses(index: Sequence[Index], starts: Sequence[int], sizes: Sequence[int | None]) -> bool:
    """Whether an index is constant along a dimension of a box, and outside of it."""
    for part, low, size in zip(index, starts, sizes, strict=True):
        if isinstance(part, Named) or axis_of(part) is not None or size is None:
            continue
        if not low <= parts(part)[2] < low + size:
            return True
    return False
