"""Elements of tensors on demand within one iteration of a recurrence.

A state is a tile in registers at the index of the CTA's own tile. At other indices it is loaded
from a workspace, to which all CTAs wrote it in the iteration before. A contraction is requested
before it is written: the first walk over an iteration collects the indices, the second one reads
the accumulators that a loop over K has left for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.alignment import VIEWS
from mlirfuse.kernels.codegen.demand_writer import ALWAYS, Demand, Guard
from mlirfuse.kernels.codegen.element_types import WIDE, Unsupported
from mlirfuse.kernels.codegen.indices import (
    Index,
    Named,
    axis_of,
    linear,
    of_scalar,
)
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.recurrence.analysis import (
    COLUMN,
    OPERAND_TYPES,
    ROW,
    STEP,
    RecurrenceAnalysis,
    offsets_of,
)
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A tile of a contraction.

    Attributes:
      op: the contraction.
      index: the index along each dimension of its result.
    """

    op: ir.Operation
    index: tuple[Index, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """A tensor that is read.

    Attributes:
      value: the tensor.
      index: the index along each of its dimensions.
    """

    value: ir.Value
    index: tuple[Index, ...]

    @property
    def moves(self) -> bool:
        """Whether each iteration reads other elements."""
        return any(axis is not None and axis[0] == STEP for axis in map(axis_of, self.index))


class Findings:
    """The findings of the first walk over an iteration.

    Attributes:
      requests: the tiles of contractions that are needed, each once.
      loads: tensors from outside that elementwise ops read.
      shared: states, and values of the iteration, that are read at other indices than their own.
      shares: whether other CTAs have written parts of these, past the first cache.
      in_rows: whether the CTAs of one row hold these in registers, in parts of K: the one that
        computes them, or those that receive them. It is so as long as they contract whole ones.
      pitch: elements of a row of these in memory, with zeros behind its columns; 0 where it has
        none: where they are contracted as a part, or not as they are.
    """

    def __init__(self, *, shares: bool, in_rows: bool = False, pitch: int = 0) -> None:
        """Begins without findings."""
        self.shares = shares
        self.in_rows = in_rows
        self.pitch = pitch
        self.requests: dict[Request, None] = {}
        self.loads: dict[Read, None] = {}
        self.shared: dict[ir.Value, None] = {}


class StepDemand(Demand):
    """Writes the values of one iteration.

    Attributes:
      findings: where tiles of contractions and reads of workspaces are noted.
    """

    def __init__(
        self,
        tiles: Tiles,
        analysis: RecurrenceAnalysis,
        findings: Findings,
        *,
        collects: bool = False,
        in_operand: bool = False,
        part: int = 0,
    ) -> None:
        """Begins an iteration, or a step of a loop over K.

        Args:
          tiles: the lines of the kernel.
          analysis: the loop.
          findings: those of the first walk, or empty ones for it.
          collects: whether this is the first walk.
          in_operand: whether values are needed for operands of contractions.
          part: the part of K that is needed.
        """
        super().__init__(tiles, analysis.members)
        self.findings = findings
        self._analysis = analysis
        self._collects = collects
        self._in_operand = in_operand
        self._part = part

    def value(self, value: ir.Value, index: tuple[Index, ...], guard: Guard = ALWAYS) -> str:
        """The tile of a value; see `Demand.value`."""
        state = self._analysis.state_of(value)
        if state is not None:
            if index == self._analysis.main:
                return f"s{self._analysis.states.index(state)}"
            return self._shared(value, index, guard)
        if self._in_operand and value in self.findings.shared:
            return self._shared(value, index, guard)
        op = ops.defining_op(value)
        if op in self.members and op is not None:
            if op.name in VIEWS and op.name not in ops.RESHAPES:
                return self.value(op.operands[0], index, guard)
            if ops.is_contraction(op):
                return self._contracted(Request(op, index))
        return super().value(value, index, guard)

    def cut(self, cut: ir.Operation, index: tuple[Index, ...]) -> tuple[Index, ...] | None:
        """The index in the source of a slice; None where the iteration does not decide it."""
        static = super().cut(cut, index)
        if static is not None:
            return static
        offsets = offsets_of(cut, self._analysis.counter)
        if offsets is None or not ops.has_unit_strides(cut):
            return None
        sizes = ops.slice_params(cut).static_sizes
        kept = ops.kept_dimensions(sizes, ops.shape(cut.results[0]))
        found: list[Index] = []
        for dim, offset in enumerate(offsets):
            inner = index[kept.index(dim)] if dim in kept else None
            if offset.step and inner is not None:
                raise Unsupported("a slice of several elements that moves")
            moving = linear((STEP, 0), offset.step, offset.start)
            found.append(moving if offset.step else linear(inner, 1, offset.start))
        return tuple(found)

    def gather(
        self, extract: ir.Operation, names: Sequence[str], loops: Sequence[Index], guard: Guard
    ) -> str:
        """The elements of a tensor at indices that the iteration or the loops decide."""
        tensor, *given = extract.operands
        index: list[Index] = []
        for value in given:
            found = self._analysis.counter.of(value)
            if found is None:
                index.append(of_scalar(value, loops, lambda inner: ""))
            else:
                index.append(linear((STEP, 0), found.step, found.start))
        if any(isinstance(part, Named) for part in index):
            raise Unsupported("elements at indices that an iteration computes")
        return self.value(tensor, tuple(index), guard)

    def load(self, value: ir.Value, index: tuple[Index, ...], guard: Guard) -> str:
        """The elements of a tensor from outside of the loop."""
        if any(isinstance(part, Named) for part in index):
            raise Unsupported("elements at computed indices")
        if isinstance(value.owner, ir.Block) and value.owner == self._block:
            raise Unsupported("a result that an iteration reads")
        if not self._in_operand and not guard.text:
            self.findings.loads.setdefault(Read(value, index))
        return super().load(value, index, guard)

    @property
    def _block(self) -> ir.Block:
        return self._analysis.loop.regions[0].blocks[0]

    def _shared(self, value: ir.Value, index: tuple[Index, ...], guard: Guard) -> str:
        """The elements of a state, or of a value of the iteration, that other CTAs wrote."""
        pairs = zip(index, self._analysis.main, strict=True)
        moved = [part for part, own in pairs if own in self._analysis.row_axes and part != own]
        if moved or any(isinstance(part, Named) for part in index):
            raise Unsupported("a state at other rows than the result's")
        self.findings.shared.setdefault(value)
        if self._collects:
            own = [part for part in index if axis_of(part) is not None]
            whole = all(part == linear(axis_of(part), 1, 0) for part in own)
            whole &= ops.shape(value) == self._analysis.shape
            self.findings.in_rows &= whole
            if not whole or not self._in_operand:
                self.findings.pitch = 0
            return self.tiles.body.name("0")
        known = self._known.get((value, index, guard))
        if known is not None:
            return known
        number = list(self.findings.shared).index(value)
        if self.findings.in_rows:
            kind = ops.element_type(value)
            found = f"w{number}_{self._part}.to({self.tiles.body.types[kind]})"
            self._known[value, index, guard] = found
            return found
        base = f"w{number}_now"
        if self.findings.pitch:
            groups = self.tiles.space.groups
            (along,) = {axis[0] for part in index if (axis := axis_of(part))} - {ROW}
            pointers = f"{base} + row * {self.findings.pitch} + {groups[along].flat}"
            mask = " & ".join(groups[n].mask for n in (ROW, along) if groups[n].mask)
        else:
            pointers, mask = self.pointers(base, value, index, guard)
        guarded = f", mask={mask}, other=0" if mask else ""
        cached = ", cache_modifier='.cg'" if self.findings.shares else ""
        text = f"tl.load({pointers}{guarded}{cached})"
        kind = ops.element_type(value)
        wide = self.tiles.body.types[kind] == WIDE[kind]
        found = self.tiles.body.name(f"{text}.to({WIDE[kind]})" if wide else text)
        self._known[value, index, guard] = found
        return found

    def _contracted(self, request: Request) -> str:
        """The tile of a contraction."""
        if self._in_operand:
            raise Unsupported("a contraction of a contraction's result")
        if not self._collects:
            return super().value(request.op.results[0], request.index)
        if request not in self.findings.requests:
            a, b = self.operands(request)
            self.findings.requests.setdefault(request)
            for operand in (a, b):
                if self._analysis.nearest_contractions([operand.value]):
                    if operand is b or ops.shape(operand.value) != self._analysis.shape:
                        raise Unsupported("a contraction of another one's result")
                    self.findings.shared.setdefault(operand.value)
                    self.value(operand.value, self._analysis.main)
                inner = StepDemand(
                    self.tiles, self._analysis, self.findings, collects=True, in_operand=True
                )
                inner.value(operand.value, operand.index)
            if ops.strip_views(a.value, VIEWS) not in self.findings.shared:
                self.findings.pitch = 0  # Zeros in memory may be other numbers in the operand.
        return self.tiles.body.name("0")

    def operands(self, request: Request) -> tuple[Read, Read]:
        """The operands with the rows and with the columns of a tile.

        Raises:
          Unsupported: they are not one each, or there is not one dimension of K.
        """
        op = request.op
        maps, kinds = ops.indexing_maps(op), ops.iterator_types(op)
        if None in maps or any(loop is None for m in maps for loop in m or ()):
            raise Unsupported(f"the indexing maps of {op.name}")
        loops: list[Index] = [None] * len(kinds)
        for loop, part in zip(maps[2] or (), request.index, strict=True):
            assert loop is not None
            loops[loop] = part
        sizes = ops.loop_sizes(op)
        reduced = [
            loop for loop, kind in enumerate(kinds) if kind == "reduction" and sizes[loop] != 1
        ]
        if len(reduced) != 1:
            raise Unsupported("a contraction over several dimensions")
        kind = ops.element_type(op.operands[0])
        if kind not in OPERAND_TYPES or ops.element_type(op.operands[1]) != kind:
            raise Unsupported(f"a contraction of {kind}")
        group = COLUMN + 1 + 2 * self._analysis.contractions.index(op)
        sides = []
        for value, index_map in zip(list(op.operands)[:2], maps, strict=False):
            at = [loops[loop] for loop in index_map or () if loop is not None]
            found = {axis[0] for part in at if (axis := axis_of(part)) is not None}
            sides.append((value, index_map or (), found))
        sides.sort(key=lambda side: COLUMN in side[2])
        if COLUMN in sides[0][2] or COLUMN not in sides[1][2] or ROW in sides[1][2]:
            raise Unsupported("a contraction of another form than rows by columns")
        result = []
        for side, (value, index_map, _) in enumerate(sides):
            at = [
                (group + side, 0) if loop == reduced[0] else loops[loop]
                for loop in index_map
                if loop is not None
            ]
            result.append(Read(value, tuple(at)))
        return result[0], result[1]
