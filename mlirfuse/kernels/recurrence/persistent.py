"""All iterations of a recurrence in one kernel.

Each CTA owns a tile of the states, which stays in its registers. States that other CTAs contract
are written to a workspace at the end of each iteration; the CTAs of the same rows wait for each
other there. They all have to run at a time: `heuristics` bounds their number.

    for step in tl.range(0, 512):
        for k in tl.range(0, 1024, 128): ...            h @ W, a tile for each gate
        h = ...; tl.store(next, h)
        recurrence.meet(counter, arrived)

Of few rows each CTA has one row of states, or some columns of it, and their weights in its
registers: a matrix instruction would compute fifteen rows that there are not, and read its weights
in each iteration. The CTA of all columns waits for none, and keeps its states in registers. Those
that share a row send each other their states in words that say which iteration they are for, and
wait for no counter: a barrier of all takes the time of three accesses to the L2 cache, a word one.

        w0_0 = recurrence.words(...)                          again while one of them is late
        h @ W as sums of h[:, None] * W over K, of all gates together
        recurrence.send(..., h, step + 2, ...)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.demand_writer import Demand
from mlirfuse.kernels.codegen.element_types import HIDING, POINTERS, TYPES, WIDE, Unsupported
from mlirfuse.kernels.codegen.indices import Index, linear
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, Group, Space
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.codegen.tile_writer import Launch, Tiles, attempted
from mlirfuse.kernels.configs.device import VECTOR_BITS, gpu_of
from mlirfuse.kernels.plan import Extent, Plan, Workspace
from mlirfuse.kernels.recurrence.analysis import (
    COLUMN,
    ROW,
    SHARED,
    STEP,
    RecurrenceAnalysis,
    Stack,
    contracted,
    problem_of,
)
from mlirfuse.kernels.recurrence.problem import RecurrenceConfig
from mlirfuse.kernels.recurrence.products import Products
from mlirfuse.kernels.recurrence.step_demand import Findings, Read, Request, StepDemand
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

ENTRY = "recurrence_kernel"

_IMPORTS = """\
import triton
import triton.language as tl

from mlirfuse.kernels.device import library, recurrence


"""

WORD = "i64"
"""Type of what CTAs of one row send: a number of f32, and the iteration that it is for."""

Argument = tuple[str, str]
"""Name and type of an argument of a kernel."""


def plan(analysis: RecurrenceAnalysis, config: RecurrenceConfig, target: Target) -> Plan | NoMatch:
    """Plans the kernel of a loop, or the reason why there is none."""
    return attempted(lambda: _Kernel(analysis, config, target).planned(), SHARED)


class _Kernel:
    """Writes the kernel of a loop."""

    def __init__(
        self, analysis: RecurrenceAnalysis, config: RecurrenceConfig, target: Target
    ) -> None:
        self.analysis = analysis
        self.config = config
        self.target = target
        self.problem = problem_of(analysis)
        self.column_tiles = config.column_tiles(analysis.columns)
        # The one CTA of its rows has their states as a whole.
        whole = self.column_tiles == 1 and config.block_k == config.block_columns
        sent = self.column_tiles > 1 and config.has_one_row
        pitch = 0
        if config.packed and not config.has_one_row:
            least = VECTOR_BITS // self.problem.operand_bits
            pitch = -(-analysis.columns // least) * least
        self.findings = Findings(shares=self.column_tiles > 1, in_rows=whole or sent, pitch=pitch)
        self._before: dict[Read, str] = {}
        self.tiles = self._tiles()
        self.writer = self.tiles.body.writer
        self.products = Products(analysis, config, target, self.findings, self.tiles)

    def _tiles(self) -> Tiles:
        analysis, config = self.analysis, self.config
        read = [v for op in analysis.members for v in op.operands if ops.ranked(v) is not None]
        counts = [ops.num_elements(v) for v in (*read, *analysis.loop.results)]
        if max(counts) >= MAX_INDEX:
            raise Unsupported("a tensor of 2^31 elements")
        row_mask = "row_mask" if self._masks_rows else ""
        column_mask = "column_mask" if analysis.columns % config.block_columns else ""
        groups = [
            Group("step", (analysis.iterations,)),
            Group("row", analysis.row_sizes, row_mask),
            Group("column", (analysis.columns,), column_mask),
        ]
        for number, op in enumerate(analysis.contractions):
            k = contracted(op)
            for name in (f"a{number}", f"b{number}"):
                groups.append(Group(name, (k,), f"{name}_mask" if k % config.block_k else ""))
        short = all(ops.element_type(value) in HIDING for value in analysis.loop.results)
        tiles = Tiles(Space(tuple(groups)), {}, {**WIDE, "index": TYPES["i32"]}, short=short)
        demand, block = Demand(tiles, ()), analysis.loop.regions[0].blocks[0]
        for value in [block.arguments[0], *(v for op in analysis.members for v in op.results)]:
            found = None if ops.ranked(value) is not None else analysis.counter.of(value)
            if found is not None:
                text = demand.text(linear((STEP, 0), found.step, found.start))
                tiles.body.outer[value] = f"({text})"
        return tiles

    def planned(self) -> Plan:
        """The plan."""
        self._collect()
        writer, analysis, config = self.writer, self.analysis, self.config
        row_tiles = -(-self.problem.rows // config.block_rows)
        writer.line("pid = tl.program_id(0)")
        writer.line(f"group = pid // {self.column_tiles}")
        rows, columns = config.block_rows, config.block_columns
        writer.line(f"row = (group * {rows} + tl.arange(0, {rows}))[:, None]")
        if self._masks_rows:
            writer.line(f"row_mask = row < {self.problem.rows}")
        self.products.column_index()
        self._initial()
        header = f"for step in tl.range(0, {analysis.iterations}, num_stages=1):"
        with writer.indented(header):
            self._step()
        for number, state in enumerate(analysis.states):
            if state.result in analysis.results:
                self._store(self._pointer(state.result), state.result, analysis.main, f"s{number}")
        kinds = [WORD if self._sends else ops.element_type(value) for value in self._shared]
        spaces = [Workspace(2 * self._elements, kind, zeroed=self._sends) for kind in kinds]
        shared = [(f"w{n}", POINTERS[kind]) for n, kind in enumerate(kinds)]
        for name, copies in self.products.copies.items():
            spaces.append(copies)
            shared.append((name, POINTERS[copies.element_type]))
        zeroed: list[Argument] = []
        if self._sends:
            zeroed, shared = shared, []
        elif self._meets:
            spaces.append(Workspace(row_tiles, "i32", zeroed=True))
            zeroed.append(("counters", POINTERS["i32"]))
        found = self.tiles.plan(
            ENTRY,
            writer.lines,
            analysis.results,
            f"Tiles of {rows} by {columns} states.",
            launch=Launch(
                grid=(Extent(row_tiles * self.column_tiles), Extent(1), Extent(1)),
                first=(COLUMN, 0),
                num_warps=config.num_warps,
                num_stages=config.num_stages,
            ),
            problem=self.problem,
            text=functools.partial(_text, zeroed, shared),
        )
        arguments = _arguments(zeroed, found.program.arguments, shared)
        program = dataclasses.replace(found.program, arguments=tuple(arguments))
        return dataclasses.replace(found, program=program, workspaces=tuple(spaces))

    def _collect(self) -> None:
        """The first walk over an iteration."""
        demand = StepDemand(self._tiles(), self.analysis, self.findings, collects=True)
        for state in self.analysis.states:
            demand.value(state.new, self.analysis.main)
        for stack in self.analysis.stacks:
            demand.value(stack.source, self._source_index(stack))

    @property
    def _masks_rows(self) -> bool:
        return self.problem.rows % self.config.block_rows > 0

    @property
    def _elements(self) -> int:
        return self.problem.rows * (self.findings.pitch or self.problem.columns)

    @property
    def _shared(self) -> list[ir.Value]:
        """The states, and values of an iteration, that memory holds for contractions."""
        kept = self.findings.in_rows and self.column_tiles == 1
        return [] if kept else list(self.findings.shared)

    @property
    def _sends(self) -> bool:
        """Whether the CTAs of a row send each other words that say which iteration they are of."""
        return self.findings.in_rows and self.column_tiles > 1

    @property
    def _meets(self) -> bool:
        """Whether CTAs wait for each other; those of one tile of columns need not."""
        return bool(self._shared) and self.column_tiles > 1 and not self._sends

    def _levels(self) -> list[list[Request]]:
        """The tiles of contractions, those first that need no other ones."""
        level: dict[ir.Operation, int] = {}
        for op in self.analysis.contractions:
            before = self.analysis.nearest_contractions(list(op.operands)[:2])
            level[op] = max((level[inner] + 1 for inner in before), default=0)
        levels: list[list[Request]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
        for request in self.findings.requests:
            levels[level[request.op]].append(request)
        return levels

    def _initial(self) -> None:
        """Reads the first states, and shares them."""
        demand = Demand(self.tiles, ())
        main = self.analysis.main
        for number, state in enumerate(self.analysis.states):
            kind = WIDE[ops.element_type(state.argument)]
            tile = demand.value(state.initial, main)
            self.writer.line(
                f"s{number} = tl.broadcast_to({tile}, {self.config.tile_shape}).to({kind})"
            )
            self._share(state.argument, f"s{number}", "0", "1")
        self._before = {
            read: demand.value(read.value, read.index)
            for read in self.findings.loads
            if not read.moves
        }
        for op in self.analysis.contractions:
            self.products.hold(op)
            self.products.pack(op)
        self._meet("1")
        self.tiles.forget_loads()

    def _share(self, value: ir.Value, tile: str, half: str, turn: str) -> None:
        """Writes a tile of a state, or of a value of the iteration, for other CTAs or lanes.

        Args:
          value: the value.
          tile: its tile.
          half: the half of its memory.
          turn: the number of the iteration that reads it, from 1.
        """
        if value not in self.findings.shared:
            return
        number = list(self.findings.shared).index(value)
        masked = self.analysis.columns % self.config.block_columns
        base = f"w{number} + {half} * {self._elements}"
        if self._sends:
            mask = "column_mask" if masked else "column >= 0"
            place = f"{base} + row * {self.analysis.columns} + column"
            self.writer.line(f"recurrence.send({place}, {tile}, {turn}, {mask})")
        elif self.findings.in_rows:
            text = f"tl.where(column_mask, {tile}, 0)" if masked else tile
            if len(self.findings.requests) == 1:  # The sums of several have a layout of their own.
                text = f"recurrence.settled({text})"
            self.writer.line(f"w{number}_0 = {text}")
        elif pitch := self.findings.pitch:
            masks = [f"(column < {pitch})", *(["row_mask"] if self._masks_rows else [])]
            kind = TYPES[ops.element_type(value)]
            stored = f"tl.where(column < {self.analysis.columns}, {tile}, 0).to({kind})"
            place = f"{base} + row * {pitch} + column"
            self.writer.line(f"tl.store({place}, {stored}, mask={' & '.join(masks)})")
        else:
            self._store(base, value, self.analysis.main, tile)

    def _receive(self, value: ir.Value, half: str, turn: str) -> None:
        """Waits for the row of a value, in parts of K, that the CTAs of a row send."""
        number, writer = list(self.findings.shared).index(value), self.writer
        depth, columns = self.config.block_k, self.analysis.columns
        # Each word is of one thread: what another thread reads of it may be older.
        size = max(depth, self.config.num_warps * gpu_of(self.target).warp_size)
        starts = range(0, columns, depth)
        base = f"w{number}_now"
        writer.line(
            f"{base} = w{number} + {half} * {self._elements} + group * {columns}"
            f" + tl.arange(0, {size})"
        )
        with writer.captured() as loads:
            for part, start in enumerate(starts):
                rest = min(depth, columns - start)
                guard = f", {turn}, tl.arange(0, {size}) < {rest}" if rest < size else ""
                load = "recurrence.part_of_words" if guard else "recurrence.words"
                writer.line(f"w{number}_{part} = {load}({base} + {start}{guard})")
            late = [f"recurrence.are_late(w{number}_{part}, {turn})" for part in range(len(starts))]
            writer.line(f"late = tl.max(({' | '.join(late)}).to(tl.int32), 0)")
        writer.write(loads)
        with writer.indented("while late > 0:"):
            writer.write(loads)
        for part in range(len(starts)):
            writer.line(
                f"w{number}_{part} = recurrence.numbers(w{number}_{part}, {depth})[None, :]"
            )

    def _meet(self, meetings: str) -> None:
        """Waits until all CTAs of the same rows have written what they share."""
        if self._meets:
            arrived = f"{self.column_tiles} * ({meetings})"
            self.writer.line(f"recurrence.meet(counters + group, {arrived})")
        elif self._shared and not self._sends:
            self.writer.line("tl.debug_barrier()")

    def _step(self) -> None:
        """One iteration."""
        writer, analysis, levels = self.writer, self.analysis, self._levels()
        # How often the CTAs of the same rows wait for each other.
        per_step = max(1, len(levels))
        for number, value in enumerate([] if self._sends else self._shared):
            half = "step % 2" if analysis.state_of(value) is not None else "0"
            writer.line(f"w{number}_now = w{number} + {half} * {self._elements}")
        demand = StepDemand(self.tiles, analysis, self.findings)
        # Before the contractions, which take longer than the loads.
        for read in self.findings.loads:
            if read.moves:
                demand.value(read.value, read.index)
            else:
                demand.define(read.value, read.index, self._before[read])
        for value in self._shared if self._sends else ():
            if analysis.state_of(value) is not None:
                self._receive(value, "(step % 2)", "(step + 1)")
        for level, requests in enumerate(levels):
            if level:
                self._share_operands(requests, demand)
                self._meet(f"step * {per_step} + {level + 1}")
            for op in analysis.contractions:
                own = [request for request in requests if request.op == op]
                if own:
                    self.products.contract(own, demand)
        self.tiles.forget_loads()
        new = [demand.value(state.new, analysis.main) for state in analysis.states]
        for stack in analysis.stacks:
            tile = demand.value(stack.source, self._source_index(stack))
            if stack.result in analysis.results:
                index = list(analysis.main)
                step = linear((STEP, 0), stack.index.step, stack.index.start)
                index.insert(stack.dimension, step)
                self._store(self._pointer(stack.result), stack.result, tuple(index), tile)
        for number, (state, tile) in enumerate(zip(analysis.states, new, strict=True)):
            kind = WIDE[ops.element_type(state.argument)]
            writer.line(f"n{number} = tl.broadcast_to({tile}, {self.config.tile_shape}).to({kind})")
        for number, state in enumerate(analysis.states):
            writer.line(f"s{number} = n{number}")
            self._share(state.argument, f"s{number}", "((step + 1) % 2)", "(step + 2)")
        self._meet(f"(step + 1) * {per_step} + 1")

    def _share_operands(self, requests: Sequence[Request], demand: StepDemand) -> None:
        """Writes the operands of contractions that other contractions computed."""
        for value in dict.fromkeys(demand.operands(request)[0].value for request in requests):
            if self.analysis.state_of(value) is None and value in self.findings.shared:
                tile = demand.value(value, self.analysis.main)
                self._share(value, tile, "0", "(step + 1)")
                if self._sends:
                    self._receive(value, "0", "(step + 1)")

    def _source_index(self, stack: Stack) -> tuple[Index, ...]:
        """The index of a stack's slice, which may have the stack's dimension."""
        index = list(self.analysis.main)
        if len(ops.shape(stack.source)) > len(index):
            index.insert(stack.dimension, None)
        return tuple(index)

    def _pointer(self, result: ir.Value) -> str:
        return f"y{self.analysis.results.index(result)}"

    def _store(self, base: str, value: ir.Value, index: tuple[Index, ...], tile: str) -> None:
        """Writes a tile of a tensor of the states' shape, or of a stack."""
        pointers, _ = Demand(self.tiles, ()).pointers(base, value, index)
        groups = self.tiles.space.groups
        pointers += "".join(f" + {groups[n].flat} * 0" for n in (ROW, COLUMN))
        mask = " & ".join(groups[n].mask for n in (ROW, COLUMN) if groups[n].mask)
        guard = f", mask={mask}" if mask else ""
        kind = TYPES[ops.element_type(value)]
        stored = f"tl.broadcast_to({tile}, {self.config.tile_shape}).to({kind})"
        self.writer.line(f"tl.store({pointers}, {stored}{guard})")


def _arguments(
    zeroed: Sequence[Argument], known: Sequence[Argument], shared: Sequence[Argument]
) -> list[Argument]:
    """Name and type of all arguments: operands, zeroed workspaces, results, other workspaces."""
    read = [argument for argument in known if not argument[0].startswith("y")]
    return [*read, *zeroed, *known[len(read) :], *shared]


def _text(
    zeroed: Sequence[Argument],
    shared: Sequence[Argument],
    entry: str,
    arguments: Sequence[Argument],
    lines: Sequence[str],
    note: str,
) -> str:
    given = _arguments(zeroed, arguments, shared)
    return text_of(entry, given, lines, note, imported=_IMPORTS)
