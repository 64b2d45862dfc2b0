"""Elementwise ops of a region as tile operations: loads, scalar bodies, stores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.dynamic_sizes import dynamic_sizes
from mlirfuse.kernels.codegen.element_types import POINTERS, TYPES, Unsupported, literal
from mlirfuse.kernels.codegen.iteration_space import (
    SIZE,
    Axis,
    Conflict,
    Space,
    known_product,
    product_text,
)
from mlirfuse.kernels.codegen.module_text import TextOf, text_of
from mlirfuse.kernels.codegen.scalar_ops import Body
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.kernels.problem import Problem
from mlirfuse.structured.ir import ops, slices

T = TypeVar("T")

_VIEWS = ops.RESHAPES | {"iree_tensor_ext.compute_barrier.start"}
"""Ops without effect on memory."""

ONE_ELEMENT = "tl.arange(0, 1)[:, None]"
"""The offset of the one element of a tensor, as a tile."""


def attempted(step: Callable[[], T | NoMatch], shared: str) -> T | NoMatch:
    """The result of analyzing or planning a region, or the refusal that it raises.

    Args:
      step: the analysis or the planner.
      shared: the axes that the ops of its regions have in common.
    """
    try:
        return step()
    except Conflict:
        return NoMatch(Reason.WRONG_AXIS, f"the ops do not share {shared}")
    except Unsupported as reason:
        return NoMatch(Reason.STRUCTURE, f"the kernel cannot compute {reason}")


def computing(region: ir.Operation) -> list[ir.Operation]:
    """The ops of a region that compute something, in order: no fill, size, slice or constant."""
    block = region.regions[0].blocks[0]
    return [
        o.operation
        for o in list(block.operations)[:-1]
        if not slices.is_clonable(o.operation)
        and o.operation.name not in ("arith.constant", "tensor.dim", "tensor.extract_slice")
    ]


def padding_and_elementwise(
    group: Sequence[ir.Operation],
    op: ir.Operation,
    image: ir.Value,
    paddings: Collection[str] = ("tensor.pad",),
) -> tuple[ir.Operation | None, list[ir.Operation]] | NoMatch:
    """The padding of an op's image, and the other ops of the op's group.

    Args:
      group: the ops of a region, from `computing`.
      op: a convolution or a pooling of the group.
      image: the operand of the op that may be padded.
      paddings: names of ops that pad.

    Returns:
      The pad, None without one in the group, and the elementwise ops in block order; a refusal
      where another op is not elementwise.
    """
    pad = ops.defining_op(image)
    if pad is not None and (pad.name not in paddings or pad not in group):
        pad = None
    elementwise = [o for o in group if o != op and (pad is None or o != pad)]
    others = [o for o in elementwise if not ops.is_elementwise(o)]
    if others:
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(others[0])}")
    return pad, elementwise


def returned(region: ir.Operation) -> list[ir.Value]:
    """The values inside a region that are its results."""
    return list(list(region.regions[0].blocks[0].operations)[-1].operation.operands)


@dataclasses.dataclass(frozen=True, slots=True)
class _Cut:
    """A static slice; of a tensor that is no slice, all of it.

    Attributes:
      source: the tensor that it is cut from.
      starts: the first index along each dimension of the source.
      steps: from one index to the next along each dimension of the source.
      kept: the dimensions of the source that the slice has, in order.
    """

    source: ir.Value
    starts: tuple[int, ...]
    steps: tuple[int, ...]
    kept: tuple[int, ...]

    @classmethod
    def of(cls, value: ir.Value) -> _Cut:
        """The slice that a value is.

        Raises:
          Unsupported: a slice with dynamic offsets or strides.
        """
        op = ops.defining_op(value)
        shape = ops.shape(value)
        if op is None or op.name != "tensor.extract_slice":
            return cls(value, (0,) * len(shape), (1,) * len(shape), tuple(range(len(shape))))
        taken = ops.slice_params(op)
        starts = tuple(start for start, _, _ in taken.boxes if isinstance(start, int))
        steps = tuple(step for _, _, step in taken.boxes if isinstance(step, int))
        if min(len(starts), len(steps)) < len(taken.boxes):
            raise Unsupported("a slice that is not static")
        kept = ops.kept_dimensions(taken.static_sizes, shape)
        return cls(op.operands[0], starts, steps, tuple(kept))

    def along_source(self, parts: Sequence[T], dropped: T) -> tuple[T, ...]:
        """What the dimensions of the slice have, for those of the source.

        Args:
          parts: one for each dimension of the slice.
          dropped: what a dimension has that the slice lacks.
        """
        known = dict(zip(self.kept, parts, strict=True))
        return tuple(known.get(dim, dropped) for dim in range(len(self.starts)))


def _same_elements(one: ir.Value, other: ir.Value) -> bool:
    """Whether two tensors are one in memory, as a swapped half and the whole tensor."""
    static = one.type == other.type and None not in ops.shape(one)
    return static and ops.strip_views(one, _VIEWS) == ops.strip_views(other, _VIEWS)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The CTAs of a kernel.

    Attributes:
      grid: their number along x, y and z.
      first: the first axis of a group, which may be dynamic, with those of the group after it.
      num_warps: warps of a CTA.
      num_stages: depth of the software pipeline of loads.
      cluster_size: CTAs along x of a thread block cluster.
    """

    grid: tuple[Extent, Extent, Extent]
    first: Axis
    num_warps: int
    num_stages: int = 1
    cluster_size: int = 1


class Tiles:
    """Writes the lines of one kernel.

    Attributes:
      space: the iteration space.
      body: the lines so far.
      operands: tensors from outside that the kernel reads, each with its pointer's name.
      axes: the axes of every tensor that was read or written, for its dynamic dimension.
    """

    def __init__(
        self,
        space: Space,
        loops: Mapping[ir.Operation, Sequence[Axis]],
        types: Mapping[str, str] = TYPES,
        *,
        short: bool = False,
        layout: str = "",
    ) -> None:
        self.space = space
        self.loops = loops
        self.body = Body(types, short=short, layout=layout)
        self.operands: dict[ir.Value, str] = {}
        self.axes: dict[ir.Value, tuple[Axis | None, ...]] = {}
        self._inside: dict[ir.Value, str] = {}
        self._loaded: dict[tuple[ir.Value, tuple[Axis | None, ...]], str] = {}

    def pointer(self, value: ir.Value) -> str:
        """The name of the argument that points to a tensor from outside."""
        if ops.ranked(value) is None or ops.element_type(value) not in POINTERS:
            raise Unsupported(f"an operand of type {value.type}")
        for known, name in self.operands.items():
            if _same_elements(known, value):
                return name
        return self.operands.setdefault(value, f"x{len(self.operands)}")

    def element_pointers(self, value: ir.Value, axes: tuple[Axis | None, ...]) -> str:
        """Pointers to the elements of a tensor from outside, or of a slice of one."""
        cut = _Cut.of(value)
        if cut.source in self._inside:
            raise Unsupported("a slice of a tensor that the group computes")
        pointer = self.pointer(cut.source)
        shape = ops.shape(cut.source)
        if cut.source != value and None in shape:
            raise Unsupported(f"a slice of {cut.source.type}")
        axes = cut.along_source(axes, None)
        self.axes.setdefault(cut.source, axes)
        taken = cut.along_source(ops.shape(value), 1)
        offset = self.space.offset(shape, axes, taken, cut.steps)
        first = sum(start * known_product(shape[dim + 1 :]) for dim, start in enumerate(cut.starts))
        return f"{pointer} + {offset}" + (f" + {first}" if first else "")

    def stride(self, value: ir.Value, dim: int) -> str:
        """Elements from one index of a dimension to the next."""
        cut = _Cut.of(value)
        place = cut.kept[dim]
        return product_text((*ops.shape(cut.source)[place + 1 :], cut.steps[place]))

    def define(self, value: ir.Value, name: str) -> None:
        """Sets the tile of a value inside the region."""
        self._inside[value] = name

    def tile(self, value: ir.Value) -> str:
        """The tile of a value inside the region."""
        return self._inside[value]

    def forget_loads(self) -> None:
        """Starts a part of the kernel in which earlier tiles are out of scope."""
        self._loaded.clear()

    def read(self, value: ir.Value, axes: tuple[Axis | None, ...]) -> str:
        """The tile of an op's operand: computed before, constant, or loaded."""
        if value in self._inside:
            return self._inside[value]
        number = ops.constant(value)
        if number is not None:
            kind = ops.element_type(value)
            return self.body.name(literal(number, kind, self.body.types, self.body.layout))
        owner = ops.defining_op(value)
        if owner is not None and owner.name == "tensor.empty":
            raise Unsupported("a value that nothing has written")
        if (value, axes) not in self._loaded:
            if ops.element_type(value) == "i4":
                text = self._halves_of_bytes(value, axes)
            else:
                text = self._of_runs(value, axes) or self._elements(value, axes)
            self._loaded[value, axes] = self.body.name(text)
        return self._loaded[value, axes]

    def _elements(self, value: ir.Value, axes: tuple[Axis | None, ...]) -> str:
        """A load of the elements of a tensor from outside."""
        pointers = self.element_pointers(value, axes)
        return self._load(
            pointers, self.space.mask(axes), ops.element_type(value), self.policy(axes)
        )

    def _of_runs(self, value: ir.Value, axes: tuple[Axis | None, ...]) -> str | None:
        """The elements of a tensor that all elements of a run share, loaded once for each of them.

        None for other tensors. A thread that has runs of eight elements has an index, and a load,
        for each run in place of each element.
        """
        for number, group in enumerate(self.space.groups):
            along = [axis[1] for axis in axes if axis is not None and axis[0] == number]
            if not along or not group.shares_runs(max(along)):
                continue
            starts, whole = self.body.name(group.starts), self.space
            mask = f"({starts} < {whole.size(number)})" if group.mask else ""
            groups = list(whole.groups)
            groups[number] = dataclasses.replace(group, flat=starts, mask=mask, run=0)
            self.space = Space(tuple(groups))
            text = self._elements(value, axes)
            self.space = whole
            return f"library.repeated({text}, {group.run})"
        return None

    def _halves_of_bytes(self, value: ir.Value, axes: tuple[Axis | None, ...]) -> str:
        """Elements of four bits, of which each byte has two, the first in its lower bits."""
        shape = ops.shape(value)
        if self.body.layout or _Cut.of(value).source != value or value in self._inside:
            raise Unsupported("an i4 that is not read in the order of memory")
        pointer = self.pointer(value)
        self.axes.setdefault(value, axes)
        last = axes[-1] if axes else None
        group = None if last is None else self.space.groups[last[0]]
        if last is None or group is None or group.pairs is None or group.sizes != (shape[-1],):
            offset = self.space.offset(shape, axes)
            byte = self._load(f"{pointer} + ({offset}) // 2", self.space.mask(axes), "i8")
            return f"library.half_of_byte({byte}, {offset})"
        if shape[-1] is None or shape[-1] % 2:
            raise Unsupported(f"rows of {shape[-1]} i4")
        groups = list(self.space.groups)
        pair = f"{group.flat}_pair"
        mask = f"{pair}_inside" if group.mask else ""
        groups[last[0]] = dataclasses.replace(group, flat=pair, mask=mask)
        space = Space(tuple(groups))
        offset = space.offset((*shape[:-1], shape[-1] // 2), axes)
        loaded = self._load(f"{pointer} + {offset}", space.mask(axes), "i8")
        return f"library.halves_of_bytes({loaded}, {group.pairs})"

    def policy(self, axes: Sequence[Axis | None]) -> str:
        """The cache policy of loads of a tensor with these axes, as an argument; empty for none."""
        return ""

    def loaded(self, pointers: str, mask: str, value: ir.Value, axes: Sequence[Axis | None]) -> str:
        """A load of elements of a tensor from outside, as an expression.

        Args:
          pointers: pointers to them.
          mask: the condition that they are in bounds; empty when they always are.
          value: the tensor.
          axes: its axes, for the cache policy.
        """
        return self._load(pointers, mask, ops.element_type(value), self.policy(axes))

    def _load(self, pointers: str, mask: str, kind: str, policy: str = "") -> str:
        guard = f", mask={mask}, other=0" if mask else ""
        text = f"tl.load({pointers}{guard}{policy})"
        if kind == "i1":
            return f"({text} != 0)"
        return f"{text}.to(tl.float32)" if self.body.types[kind] != TYPES[kind] else text

    def arguments(self, op: ir.Operation, later: Collection[ir.Value] = ()) -> list[str | None]:
        """The tile of each argument of an op's body; None for those without users.

        Args:
          op: an op without reductions.
          later: operands that are no tiles yet.
        """
        tiles: list[str | None] = []
        for argument, value, index_map in zip(
            ops.body(op).arguments, op.operands, ops.indexing_maps(op), strict=True
        ):
            if index_map is None:
                raise Unsupported(f"an indexing map of {op.name}")
            loops = self.loops[op]
            axes = tuple(None if loop is None else loops[loop] for loop in index_map)
            read = list(argument.uses) and value not in later
            tiles.append(self.read(value, axes) if read else None)
        return tiles

    def index(self, op: ir.Operation, loop: int) -> str:
        """The index along an op's loop."""
        group, position = self.loops[op][loop]
        return self.space.index(group, position, position)

    def elementwise(self, op: ir.Operation) -> None:
        """Computes the results of an op without reductions."""
        arguments = self.arguments(op)
        known = self.body.block(
            ops.body(op),
            arguments,
            lambda loop: self.index(op, loop),
            gather=lambda extract, indices: self._gather(op, extract.operands[0], indices),
        )
        yielded = list(ops.body(op).operations)[-1].operation.operands
        for result, value in zip(op.results, yielded, strict=True):
            self.define(result, known[value])

    def _gather(self, op: ir.Operation, tensor: ir.Value, indices: Sequence[str]) -> str:
        """The elements of a tensor from outside at computed indices, as an expression."""
        narrow = ops.element_type(tensor) == "i4"
        if tensor in self._inside or None in ops.shape(tensor)[1:] or narrow:
            raise Unsupported(f"a gather from {tensor.type}")
        groups = {axis[0] for axis in self.loops[op]}
        bounded = [g for n, g in enumerate(self.space.groups) if n in groups and g.mask]
        terms = [
            f"{index} * {known_product(ops.shape(tensor)[dim + 1 :])}"
            for dim, index in enumerate(indices)
        ]
        # The pointers have the shape of their mask.
        offset = " + ".join([*terms, *(f"{g.flat} * 0" for g in bounded)]) or "0"
        mask = " & ".join(g.mask for g in bounded)
        return self._load(f"{self.pointer(tensor)} + ({offset})", mask, ops.element_type(tensor))

    def written_axes(self, result: ir.Value) -> tuple[Axis | None, ...]:
        """The axes along which the op of a result writes it."""
        return written_axes(self.loops, result)

    def store(self, pointer: str, result: ir.Value, axes: tuple[Axis | None, ...]) -> None:
        """Writes a value inside the region to memory."""
        text = self.stored(result)
        self.axes[result] = axes
        offset = self.space.offset(ops.shape(result), axes)
        if offset == "0":
            offset = ONE_ELEMENT  # a tile can be stored to a tile of pointers alone
        mask = self.space.mask(axes)
        guard = f", mask={mask}" if mask else ""
        self.body.writer.line(f"tl.store({pointer} + {offset}, {text}{guard})")

    def stored(self, result: ir.Value) -> str:
        """The tile of a value inside the region as memory has it.

        Raises:
          Unsupported: memory has no such elements.
        """
        kind = ops.element_type(result)
        if kind not in POINTERS or kind == "i4":
            raise Unsupported(f"a result of type {result.type}")
        return f"{self._inside[result]}.to({'tl.int8' if kind == 'i1' else TYPES[kind]})"

    def pointer_arguments(self, results: Sequence[ir.Value]) -> list[tuple[str, str]]:
        """Names and types of the arguments that point to the operands, and to these results."""
        named = [*self.operands.items(), *((v, f"y{n}") for n, v in enumerate(results))]
        return [(name, POINTERS[ops.element_type(value)]) for value, name in named]

    def plan(
        self,
        entry: str,
        lines: Sequence[str],
        results: Sequence[ir.Value],
        note: str,
        *,
        launch: Launch,
        problem: Problem | None,
        text: TextOf | None = None,
    ) -> Plan:
        """The plan of the kernel, when all is written.

        Args:
          entry: name of the kernel.
          lines: its body.
          results: values that it writes.
          note: docstring of the kernel's module, one line.
          launch: its CTAs.
          problem: the problem that its configuration was chosen by.
          text: writer of its module; `text_of` where it is left out.

        Raises:
          Unsupported: another axis is dynamic.
        """
        group, axis = launch.first
        several = range(max(1, self.space.groups[group].dynamic))
        may = [(group, axis + n) for n in several]
        sizes = dynamic_sizes([*self.operands, *results], self.axes, may)
        counted = {n for extent in launch.grid for n in (*extent.sizes, *extent.repeats)}
        if counted != {*range(len(sizes))}:
            raise Unsupported(f"{len(sizes)} dynamic dimensions")
        names = [SIZE] if len(sizes) == 1 else [f"{SIZE}_{n}" for n in range(len(sizes))]
        if len(names) > 1:
            lines = [f"{SIZE} = {' * '.join(names)}", *lines]
        arguments = [*self.pointer_arguments(results), *((name, "i32") for name in names)]
        source = (text or text_of)(entry, arguments, lines, note)
        program = Program(
            entry,
            source,
            tuple(arguments),
            launch.num_warps,
            launch.num_stages,
            launch.cluster_size,
        )
        return Plan(program, tuple(self.operands), tuple(results), launch.grid, sizes, problem)


def written_axes(
    loops: Mapping[ir.Operation, Sequence[Axis]], result: ir.Value
) -> tuple[Axis, ...]:
    """The axes along which the op of a result writes it.

    Args:
      loops: the axis of each loop of the ops of a region.
      result: a result of one of them.

    Raises:
      Unsupported: the op has another indexing map.
    """
    op = result.owner.operation
    index_map = ops.indexing_maps(op)[ops.num_inputs(op) + list(op.results).index(result)]
    if index_map is None or None in index_map:
        raise Unsupported(f"an indexing map of {op.name}")
    return tuple(loops[op][loop] for loop in index_map if loop is not None)
