"""Scatter kernels: a lane for each element of the updates, which changes one element in place.

The indices of a window are computed once for each row of a tile. Windows that are not inside of the
destination are left out, so that no index reaches other memory.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.demand_writer import Demand
from mlirfuse.kernels.codegen.element_types import TYPES, WIDE, literal
from mlirfuse.kernels.codegen.indices import Index, linear
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, Axis, Group, Space, known_product
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.codegen.scalar_ops import Body
from mlirfuse.kernels.codegen.tile_writer import Launch, Tiles, attempted
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.scatter.analysis import ScatterAnalysis, problem_of
from mlirfuse.kernels.scatter.combiners import ATOMIC, ATOMIC_ADD, STORE, SWAP
from mlirfuse.kernels.scatter.problem import ScatterConfig
from mlirfuse.structured.ir import ops
from mlirfuse.targets import cuda
from mlirfuse.targets.base import Target

ENTRY = "scatter_kernel"

SHARED = "the axes of the updates"

VECTOR_ADDS_PTX = 81
"""The PTX that has vectors of atomic adds: CUDA 12.1."""

WINDOWS, ELEMENTS = 0, 1
"""The groups of the iteration space."""

_IMPORTS = """\
import triton
import triton.language as tl

from mlirfuse.kernels.device import library, scatters


"""

_RELAXED = 'sem="relaxed"'
"""No update waits for another one."""


def plan(analysis: ScatterAnalysis, config: ScatterConfig, target: Target) -> Plan | NoMatch:
    """Plans the kernel of a scatter, or the reason why there is none."""
    return attempted(lambda: _Kernel(analysis, config, target).plan(), SHARED)


@dataclasses.dataclass(frozen=True, slots=True)
class _Kernel:
    """The kernel of a scatter.

    Attributes:
      analysis: the region.
      config: tiles.
      target: the machine that is compiled for.
    """

    analysis: ScatterAnalysis
    config: ScatterConfig
    target: Target

    @property
    def windows(self) -> int:
        return known_product(self.analysis.windows)

    @property
    def elements(self) -> int:
        return known_product(self.analysis.window)

    @property
    def flat(self) -> bool:
        """Whether windows have one element: then the columns of a tile are windows."""
        return self.elements == 1

    @property
    def shape(self) -> str:
        return f"[{self.config.block_windows}, {self.config.block_elements}]"

    @property
    def wide(self) -> bool:
        """Whether indices have 64 bits."""
        read = [
            value
            for op in self.analysis.group
            for value, _ in ops.operand_producers(op)
            if ops.ranked(value) is not None
        ]
        return max(map(ops.num_elements, (*read, self.analysis.result))) >= MAX_INDEX

    @property
    def adds_vectors(self) -> bool:
        """Whether a lane adds up to four elements with one instruction.

        On an H100 40000 rows of 96 f32 took 7 us, and 50 with an instruction for each element.
        """
        added = self.analysis.way.function == ATOMIC_ADD
        kind = ops.element_type(self.analysis.result)
        vectors = kind == "f32" and self.target.arch == cuda.HOPPER
        return added and vectors and not self.flat

    def space(self) -> Space:
        """The groups of axes."""
        lanes, each = self.windows, self.config.block_elements
        rows = self.config.block_windows
        if self.flat:
            mask = "column_mask" if lanes % each else ""
            return Space((Group("column", self.analysis.windows, mask), Group("", ())))
        return Space(
            (
                Group("row", self.analysis.windows, "row_mask" if lanes % rows else ""),
                Group(
                    "column", self.analysis.window, "column_mask" if self.elements % each else ""
                ),
            )
        )

    def axes(self, group: int, dimensions: int) -> tuple[Axis | None, ...]:
        """The axes of dimensions that a group has."""
        known = len(self.space().groups[group].sizes)
        return tuple((group, n) if n < known else None for n in range(dimensions))

    def plan(self) -> Plan:
        """The plan."""
        scatter = self.analysis.scatter
        tiles = Tiles(self.space(), {}, {**WIDE, "index": TYPES["i64" if self.wide else "i32"]})
        tiles.body.writer.write(self._positions())
        demand = Demand(tiles, self.analysis.group[:-1])
        windows = self.axes(WINDOWS, scatter.batch)
        update = demand.value(
            scatter.updates, (*windows, *self.axes(ELEMENTS, len(self.analysis.window)))
        )
        pointers, mask = self._pointers(tiles, demand, windows)
        self._write(tiles, update, pointers, mask)
        columns = self.windows if self.flat else self.elements
        tall = Extent(1 if self.flat else self.windows, self.config.block_windows)
        found = tiles.plan(
            ENTRY,
            tiles.body.writer.lines,
            [self.analysis.result],
            f"Tiles of {self.config.block_windows} by {self.config.block_elements}.",
            launch=Launch(
                grid=(
                    dataclasses.replace(tall, repeat=-(-columns // self.config.block_elements)),
                    Extent(1),
                    Extent(1),
                ),
                first=(WINDOWS, 0),
                num_warps=self.config.num_warps,
            ),
            problem=problem_of(self.analysis),
            text=functools.partial(text_of, imported=_IMPORTS),
        )
        program = found.program
        if self.adds_vectors:
            program = dataclasses.replace(program, ptx_version=VECTOR_ADDS_PTX)
        return dataclasses.replace(found, program=program, destination=scatter.destination)

    def _positions(self) -> list[str]:
        """The lines that compute the rows and columns of a tile."""
        config = self.config
        columns = self.windows if self.flat else self.elements
        tiles = -(-columns // config.block_elements)
        across = f"tl.arange(0, {config.block_elements})[None, :]"
        lines = [
            f"pid = tl.program_id(0){'.to(tl.int64)' if self.wide else ''}",
            f"column = pid % {tiles} * {config.block_elements} + {across}",
        ]
        if not self.flat:
            down = f"tl.arange(0, {config.block_windows})[:, None]"
            lines.append(f"row = pid // {tiles} * {config.block_windows} + {down}")
        return [*lines, *self.space().inside(WINDOWS, ELEMENTS)]

    def _pointers(
        self, tiles: Tiles, demand: Demand, windows: Sequence[Axis | None]
    ) -> tuple[str, str]:
        """Pointers to the elements of a tile in the destination, and which of them are written."""
        scatter, body = self.analysis.scatter, tiles.body
        shape = ops.shape(self.analysis.result)
        conditions = [group.mask for group in tiles.space.groups if group.mask]
        terms = []
        for number, dim in enumerate(scatter.dimensions):
            last: tuple[Index, ...] = (linear(None, 0, number),) if scatter.has_coordinates else ()
            index = self._tile(body, demand.value(scatter.indices, (*windows, *last)), "i64")
            conditions.append(body.name(f"({index} >= 0) & ({index} < {shape[dim]})"))
            stride = known_product(shape[dim + 1 :])
            kind = "tl.int64" if self.wide else "tl.int32"
            terms.append(f"{index}.to({kind}) * {stride}")
        if scatter.mask is not None:
            kept = self._tile(body, demand.value(scatter.mask, tuple(windows)), "i32")
            conditions.append(body.name(f"{kept} != 0"))
        offset = " + ".join(terms) if self.flat else " + ".join([*terms, "column"])
        offset = body.name(f"tl.broadcast_to({offset}, {self.shape})")
        if self.analysis.way.kind in (ATOMIC, SWAP) and not self.adds_vectors:
            # Each lane has one element then, and adjacent lanes update one sector together.
            offset = f"tl.max_contiguous({offset}, [1, 1])"
        pointers = body.name(f"y0 + {offset}")
        return pointers, body.name(f"tl.broadcast_to({' & '.join(conditions)}, {self.shape})")

    @staticmethod
    def _tile(body: Body, value: str, kind: str) -> str:
        """A number that may be a scalar, where there is one window, as a tile."""
        return body.name(f"{value}.to({TYPES[kind]}) + tl.full([1, 1], 0, {TYPES[kind]})")

    def _write(self, tiles: Tiles, update: str, pointers: str, mask: str) -> None:
        """Writes the lines that change memory."""
        way, body = self.analysis.way, tiles.body
        kind = ops.element_type(self.analysis.result)
        stored = "tl.int8" if kind == "i1" else TYPES[kind]
        if way.kind == SWAP:
            self._swap(tiles, update, pointers, mask)
            return
        if way.kind in (STORE, ATOMIC):
            value = self._updated(tiles, update, None)
        else:
            load = tiles.loaded(pointers, mask, self.analysis.result, ())
            value = self._updated(tiles, update, body.name(load))
        value = body.name(f"tl.broadcast_to({value}, {self.shape}).to({stored})")
        if way.kind == ATOMIC:
            call = f"{way.function}({pointers}, {value}, mask={mask}, {_RELAXED})"
            body.writer.line(call)
        else:
            body.writer.line(f"tl.store({pointers}, {value}, mask={mask})")

    def _updated(self, tiles: Tiles, update: str, element: str | None) -> str:
        """The new element, or the function of the update that an atomic op combines it with."""
        block = self.analysis.scatter.op.regions[0].blocks[0]
        (yielded,) = list(block.operations)[-1].operation.operands
        wanted, skipped = yielded, []
        if element is None:
            wanted = self.analysis.scatter.update
            skipped = [yielded.owner] if self.analysis.scatter.combiner else []
        known = tiles.body.block(block, [update, element], lambda loop: "", skip=skipped)
        number = ops.constant(wanted)
        if wanted not in known and number is not None:
            kind = str(wanted.type)
            return tiles.body.name(literal(number, kind, tiles.body.types))
        return known[wanted]

    def _swap(self, tiles: Tiles, update: str, pointers: str, mask: str) -> None:
        """Combines elements by compare-and-swap, until no other lane has come in between.

        Lanes that are done compare the first element with zero and, where it is, write zero.
        """
        body, kind = tiles.body, ops.element_type(self.analysis.result)
        bits = f"tl.int{ops.element_bits(self.analysis.result)}"
        pointer = f"tl.pointer_type({bits})"
        body.writer.line(f"places = tl.where({mask}, {pointers}, y0).to({pointer}, bitcast=True)")
        body.writer.line(f"found = tl.load(places).to({bits})")
        body.writer.line(f"pending = {mask}")
        with body.writer.indented("while tl.max(pending.to(tl.int32)) > 0:"):
            element = body.name(f"found.to({TYPES[kind]}, bitcast=True)")
            value = self._updated(tiles, update, element)
            body.writer.write(
                [
                    f"value = tl.broadcast_to({value}, {self.shape}).to({TYPES[kind]})",
                    f"value = tl.where(pending, value.to({bits}, bitcast=True), 0)",
                    "before = tl.where(pending, found, 0)",
                    "found = tl.atomic_cas(places, before, value, " + _RELAXED + ")",
                    "pending = pending & (found != before)",
                ]
            )
