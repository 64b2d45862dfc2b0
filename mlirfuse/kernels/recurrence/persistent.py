"""All iterations of a recurrence in one kernel.

Each CTA owns a tile of the states, which stays in its registers. States that other CTAs contract
are written to a workspace at the end of each iteration; the CTAs of the same rows wait for each
other there. They all have to run at a time: `heuristics` bounds their number.

    for step in tl.range(0, 512):
        for k in tl.range(0, 1024, 128): ...            h @ W, a tile for each gate
        h = ...; tl.store(next, h)
        library.meet(counter, arrived)

Of few rows each CTA has one row of states, or some columns of it, and their weights in its
registers: a matrix instruction would compute fifteen rows that there are not, and read its weights
in each iteration. The CTA of all columns waits for none, and keeps its states in registers.

        h @ W as sums of h[:, None] * W over K, of all gates together
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.demand_writer import Demand
from mlirfuse.kernels.codegen.dot_precision import dot_precision, precision_argument
from mlirfuse.kernels.codegen.element_types import HIDING, POINTERS, TYPES, WIDE, Unsupported
from mlirfuse.kernels.codegen.indices import Index, linear
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, Group, Space
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.codegen.tile_writer import Launch, Tiles, attempted
from mlirfuse.kernels.configs.device import gpu_of
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
from mlirfuse.kernels.recurrence.heuristics import FLOAT_BITS, most_held
from mlirfuse.kernels.recurrence.problem import RecurrenceConfig
from mlirfuse.kernels.recurrence.step_demand import Findings, Read, Request, StepDemand
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

ENTRY = "recurrence_kernel"

SUMS = 4
"""Sums over K that the warps of a CTA of one row exchange at a time: `library.sums_of_columns`."""

MAX_HELD_BYTES = 256
"""Bytes of weights in the registers of a thread at most: 64 of its 255 registers."""

_DEPENDS = re.compile(r"\b(step|s\d+|w\d+_now)\b")
"""Names that an iteration sets."""

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
        self.column_tiles = -(-analysis.columns // config.block_columns)
        self.findings = Findings(
            shares=self.column_tiles > 1,
            in_registers=self._one_row
            and self.column_tiles == 1
            and config.block_k == config.block_columns,
        )
        self._before: dict[Read, str] = {}
        self._held: dict[tuple[Request, int], str] = {}
        self.tiles = self._tiles()
        self.writer = self.tiles.body.writer

    def _tiles(self) -> Tiles:
        analysis, config = self.analysis, self.config
        read = [v for op in analysis.members for v in op.operands if ops.ranked(v) is not None]
        counts = [ops.num_elements(v) for v in (*read, *analysis.loop.results)]
        if max(counts) >= MAX_INDEX:
            raise Unsupported("a tensor of 2^31 elements")
        row_mask = "row_mask" if self.problem.rows % config.block_rows else ""
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

    @property
    def _one_row(self) -> bool:
        """Whether contractions are sums of products for the one row of a CTA."""
        return self.config.block_rows == 1

    @property
    def shape(self) -> str:
        """The shape of a tile of the states."""
        return f"[{self.config.block_rows}, {self.config.block_columns}]"

    def planned(self) -> Plan:
        """The plan."""
        self._collect()
        writer, analysis, config = self.writer, self.analysis, self.config
        row_tiles = -(-self.problem.rows // config.block_rows)
        writer.line("pid = tl.program_id(0)")
        writer.line(f"group = pid // {self.column_tiles}")
        rows, columns = config.block_rows, config.block_columns
        writer.line(f"row = (group * {rows} + tl.arange(0, {rows}))[:, None]")
        if self.problem.rows % rows:
            writer.line(f"row_mask = row < {self.problem.rows}")
        self._column_index()
        self._initial()
        header = f"for step in tl.range(0, {analysis.iterations}, num_stages=1):"
        with writer.indented(header):
            self._step()
        for number, state in enumerate(analysis.states):
            if state.result in analysis.results:
                self._store(self._pointer(state.result), state.result, analysis.main, f"s{number}")
        kinds = [ops.element_type(value) for value in self._shared]
        spaces = [Workspace(2 * self._elements, kind) for kind in kinds]
        shared = [(f"w{n}", POINTERS[kind]) for n, kind in enumerate(kinds)]
        counters = []
        if self._meets:
            spaces.append(Workspace(row_tiles, "i32", zeroed=True))
            counters.append(("counters", POINTERS["i32"]))
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
            text=functools.partial(_text, counters, shared),
        )
        arguments = _arguments(counters, found.program.arguments, shared)
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
    def _elements(self) -> int:
        return self.problem.rows * self.problem.columns

    @property
    def _shared(self) -> list[ir.Value]:
        """The states, and values of an iteration, that memory holds for contractions."""
        return [] if self.findings.in_registers else list(self.findings.shared)

    @property
    def _meets(self) -> bool:
        """Whether CTAs wait for each other; those of one tile of columns need not."""
        return bool(self._shared) and self.column_tiles > 1

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
            self.writer.line(f"s{number} = tl.broadcast_to({tile}, {self.shape}).to({kind})")
            self._share(state.argument, f"s{number}", "0")
        self._before = {
            read: demand.value(read.value, read.index)
            for read in self.findings.loads
            if not read.moves
        }
        for op in self.analysis.contractions:
            self._hold(op)
        self._meet("1")
        self.tiles.forget_loads()

    def _hold(self, op: ir.Operation) -> None:
        """Loads the weights of a contraction once, where registers hold them all."""
        requests = [request for request in self.findings.requests if request.op == op]
        config, threads = self.config, self.config.num_warps * gpu_of(self.target).warp_size
        starts = range(0, contracted(op), config.block_k)
        elements = len(requests) * len(starts) * config.block_k * config.block_columns
        bits = FLOAT_BITS if self._one_row else ops.element_bits(op.operands[0])
        most = MAX_HELD_BYTES * threads
        if self._one_row:
            most = most_held(config.num_warps, self.target)
        if (len(starts) > 1 and not self._one_row) or elements * bits // 8 > most:
            return
        found = {}
        with self.writer.captured() as lines:
            for start in starts:
                if self._one_row:
                    self._weight_index(op, start)
                else:
                    self._k_index(op, "b", str(start))
                inner = self._of_operands()
                for request in requests:
                    weights = inner.operands(request)[1]
                    tile = inner.value(weights.value, weights.index)
                    if self._one_row:
                        shape = f"[{config.block_k}, {config.block_columns}]"
                        count = config.block_k * config.block_columns
                        tile = f"tl.broadcast_to({tile}, [1, {count}]).to(tl.float32)"
                        tile = self.tiles.body.name(f"tl.reshape({tile}, {shape})")
                    found[request, start] = tile
            if self._one_row:
                self._column_index()
        if not any(_DEPENDS.search(line) for line in lines):
            self.writer.write(lines)
            self._held |= found

    def _column_index(self, within: str = "") -> None:
        """Writes the index of the columns, and whether they are in bounds.

        Args:
          within: the index in the tile; else there is one of each column.
        """
        columns = self.config.block_columns
        within = within or f"tl.arange(0, {columns})[None, :]"
        self.writer.line(f"column = pid % {self.column_tiles} * {columns} + {within}")
        if self.analysis.columns % columns:
            self.writer.line(f"column_mask = column < {self.analysis.columns}")

    def _weight_index(self, op: ir.Operation, start: int) -> None:
        """Writes the indices of weights for one row: a flat tile, column by column.

        The lanes of a warp have neighboring columns then, whatever the order in memory is: of
        neighbors along K, the sum over lanes would take more instructions than the products.
        """
        config, k = self.config, contracted(op)
        name = f"b{self.analysis.contractions.index(op)}"
        count = config.block_k * config.block_columns
        self.writer.line(f"flat = tl.arange(0, {count})[None, :]")
        self.writer.line(f"{name} = {start} + flat // {config.block_columns}")
        if k % config.block_k:
            self.writer.line(f"{name}_mask = {name} < {k}")
        self._column_index(f"flat % {config.block_columns}")

    def _of_operands(self) -> StepDemand:
        """The values of operands of contractions, in their own types."""
        return StepDemand(self._narrow(), self.analysis, self.findings, in_operand=True)

    def _k_index(self, op: ir.Operation, side: str, start: str) -> None:
        """Writes the indices along K of one operand, and whether they are in bounds."""
        config, k = self.config, contracted(op)
        name = f"{side}{self.analysis.contractions.index(op)}"
        at = "[None, :]" if side == "a" else "[:, None]"
        self.writer.line(f"{name} = ({start} + tl.arange(0, {config.block_k})){at}")
        if k % config.block_k:
            self.writer.line(f"{name}_mask = {name} < {k}")

    def _share(self, value: ir.Value, tile: str, half: str) -> None:
        """Writes a tile of a state, or of a value of the iteration, for other CTAs or lanes."""
        if value not in self.findings.shared:
            return
        number = list(self.findings.shared).index(value)
        if self.findings.in_registers:
            masked = self.analysis.columns % self.config.block_columns
            text = f"tl.where(column_mask, {tile}, 0)" if masked else tile
            self.writer.line(f"w{number}_now = {text}")
        else:
            base = f"w{number} + {half} * {self._elements}"
            self._store(base, value, self.analysis.main, tile)

    def _meet(self, meetings: str) -> None:
        """Waits until all CTAs of the same rows have written what they share."""
        if self._meets:
            arrived = f"{self.column_tiles} * ({meetings})"
            self.writer.line(f"library.meet(counters + group, {arrived})")
        elif self._shared:
            self.writer.line("tl.debug_barrier()")

    def _step(self) -> None:
        """One iteration."""
        writer, analysis, levels = self.writer, self.analysis, self._levels()
        # How often the CTAs of the same rows wait for each other.
        per_step = max(1, len(levels))
        for number, value in enumerate(self._shared):
            half = "step % 2" if analysis.state_of(value) is not None else "0"
            writer.line(f"w{number}_now = w{number} + {half} * {self._elements}")
        demand = StepDemand(self.tiles, analysis, self.findings)
        # Before the contractions, which take longer than the loads.
        for read in self.findings.loads:
            if read.moves:
                demand.value(read.value, read.index)
            else:
                demand.define(read.value, read.index, self._before[read])
        for level, requests in enumerate(levels):
            if level:
                self._share_operands(requests, demand)
                self._meet(f"step * {per_step} + {level + 1}")
            for op in analysis.contractions:
                own = [request for request in requests if request.op == op]
                if own:
                    self._contract(own, demand)
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
            writer.line(f"n{number} = tl.broadcast_to({tile}, {self.shape}).to({kind})")
        for number, state in enumerate(analysis.states):
            writer.line(f"s{number} = n{number}")
            self._share(state.argument, f"s{number}", "((step + 1) % 2)")
        self._meet(f"(step + 1) * {per_step} + 1")

    def _share_operands(self, requests: Sequence[Request], demand: StepDemand) -> None:
        """Writes the operands of contractions that other contractions computed."""
        for value in dict.fromkeys(demand.operands(request)[0].value for request in requests):
            if self.analysis.state_of(value) is None and value in self.findings.shared:
                self._share(value, demand.value(value, self.analysis.main), "0")

    def _contract(self, requests: Sequence[Request], demand: StepDemand) -> None:
        """A contraction, for all of its tiles."""
        op = requests[0].op
        number = self.analysis.contractions.index(op)
        names = [f"c{number}_{n}" for n in range(len(requests))]
        if self._one_row:
            self._sum_products(requests, names, demand)
        else:
            self._multiply(requests, names, demand)
        self.tiles.forget_loads()
        for request, name in zip(requests, names, strict=True):
            init = op.operands[2]
            if ops.constant(init) != 0:
                name = self.tiles.body.name(f"{name} + {demand.value(init, request.index)}")
            demand.define(op.results[0], request.index, name)

    def _multiply(
        self, requests: Sequence[Request], names: Sequence[str], demand: StepDemand
    ) -> None:
        """The loop over K of matrix instructions."""
        writer, config, op = self.writer, self.config, requests[0].op
        k, kind = contracted(op), ops.element_type(op.operands[0])
        argument = precision_argument(dot_precision(kind, self.target))
        for name in names:
            writer.line(f"{name} = tl.zeros({self.shape}, tl.float32)")
        header = f"for k in tl.range(0, {k}, {config.block_k}, num_stages={config.num_stages}):"
        with writer.indented(header):
            for side in ("a", "b"):
                self._k_index(op, side, "k")
            inner = self._of_operands()
            rows, columns, depth = config.block_rows, config.block_columns, config.block_k
            for request, name in zip(requests, names, strict=True):
                a, b = demand.operands(request)
                left = inner.value(a.value, a.index)
                right = self._held.get((request, 0)) or inner.value(b.value, b.index)
                left = f"tl.broadcast_to({left}, [{rows}, {depth}])"
                right = f"tl.broadcast_to({right}, [{depth}, {columns}])"
                writer.line(f"{name} = tl.dot({left}, {right}, {name}{argument})")

    def _sum_products(
        self, requests: Sequence[Request], names: Sequence[str], demand: StepDemand
    ) -> None:
        """The products of the one row of a CTA and their sums, of parts of K."""
        writer, config, op = self.writer, self.config, requests[0].op
        for start in range(0, contracted(op), config.block_k):
            self._k_index(op, "a", str(start))
            if (requests[0], start) not in self._held:
                self._k_index(op, "b", str(start))
            inner = self._of_operands()
            columns: dict[str, str] = {}
            for request, name in zip(requests, names, strict=True):
                a, b = demand.operands(request)
                left = inner.value(a.value, a.index)
                if left not in columns:
                    text = f"tl.reshape(({left}).to(tl.float32), [{config.block_k}])[:, None]"
                    columns[left] = self.tiles.body.name(text)
                right = self._held.get((request, start))
                if right is None:
                    right = f"({inner.value(b.value, b.index)}).to(tl.float32)"
                sign = "+=" if start else "="
                writer.line(f"{name} {sign} {columns[left]} * {right}")
        threads = config.num_warps * gpu_of(self.target).warp_size
        for first in range(0, len(names), SUMS):
            part = list(names[first : first + SUMS])
            if len(part) == 1:
                writer.line(f"{part[0]} = tl.sum({part[0]}, 0, keep_dims=True)")
                continue
            given = ", ".join(part + part[:1] * (SUMS - len(part)))
            sums = ", ".join(part + ["_"] * (SUMS - len(part)))
            writer.line(f"{sums} = library.sums_of_columns({given}, {threads})")

    def _narrow(self) -> Tiles:
        """The same lines, with element types as they are in memory, for operands of `tl.dot`."""
        found = Tiles(self.tiles.space, {}, {**TYPES, "index": TYPES["i32"]})
        found.body.writer = self.writer
        found.body.outer = self.tiles.body.outer
        found.operands = self.tiles.operands
        return found

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
        stored = f"tl.broadcast_to({tile}, {self.shape}).to({kind})"
        self.writer.line(f"tl.store({pointers}, {stored}{guard})")


def _arguments(
    counters: Sequence[Argument], known: Sequence[Argument], shared: Sequence[Argument]
) -> list[Argument]:
    """Name and type of all arguments: the operands, the counters, the results, the workspaces."""
    read = [argument for argument in known if not argument[0].startswith("y")]
    return [*read, *counters, *known[len(read) :], *shared]


def _text(
    counters: Sequence[Argument],
    shared: Sequence[Argument],
    entry: str,
    arguments: Sequence[Argument],
    lines: Sequence[str],
    note: str,
) -> str:
    return text_of(entry, _arguments(counters, arguments, shared), lines, note)
