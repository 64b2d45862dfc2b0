"""The contractions of an iteration: matrix instructions, or the sums of products of one row.

Weights that registers hold are loaded before the iterations. Those whose rows vectors do not divide
are copied then, tile by tile in the order in which CTAs read them: by each CTA, which so waits for
no other. Those with the same columns write the same numbers to the same place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.dot_precision import dot_precision, precision_argument
from mlirfuse.kernels.codegen.element_types import TYPES
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.plan import Workspace
from mlirfuse.kernels.recurrence.analysis import RecurrenceAnalysis, contracted
from mlirfuse.kernels.recurrence.heuristics import FLOAT_BITS, most_held
from mlirfuse.kernels.recurrence.problem import RecurrenceConfig
from mlirfuse.kernels.recurrence.step_demand import Findings, Request, StepDemand
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

SUMS = 4
"""Sums over K that the warps of a CTA of one row exchange at a time."""

MAX_HELD_BYTES = 256
"""Bytes of weights in the registers of a thread at most: 64 of its 255 registers."""

_DEPENDS = re.compile(r"\b(step|s\d+|w\d+_(now|\d+))\b")
"""Names that an iteration sets."""


class Products:
    """Writes the contractions of a kernel.

    Attributes:
      copies: the memory of copied weights, by its name.

    Args:
      analysis: the loop.
      config: the configuration.
      target: the target.
      findings: those of the first walk over an iteration.
      tiles: the lines of the kernel.
    """

    def __init__(
        self,
        analysis: RecurrenceAnalysis,
        config: RecurrenceConfig,
        target: Target,
        findings: Findings,
        tiles: Tiles,
    ) -> None:
        self._analysis, self._config, self._target = analysis, config, target
        self._findings, self._tiles, self._writer = findings, tiles, tiles.body.writer
        self._column_tiles = config.column_tiles(analysis.columns)
        self._held: dict[tuple[Request, int], str] = {}
        self._packed: dict[Request, str] = {}
        self.copies: dict[str, Workspace] = {}

    def hold(self, op: ir.Operation) -> None:
        """Loads the weights of a contraction once, where registers hold them all."""
        requests = self._requests(op)
        config, threads = self._config, self._config.num_warps * gpu_of(self._target).warp_size
        starts = range(0, contracted(op), config.block_k)
        elements = len(requests) * len(starts) * config.block_k * config.block_columns
        bits = FLOAT_BITS if self._config.has_one_row else ops.element_bits(op.operands[0])
        most = MAX_HELD_BYTES * threads
        if self._config.has_one_row:
            most = most_held(config.num_warps, self._target)
        if (len(starts) > 1 and not self._config.has_one_row) or elements * bits // 8 > most:
            return
        found = {}
        with self._writer.captured() as lines:
            for start in starts:
                if self._config.has_one_row:
                    self._weight_index(op, start)
                else:
                    self._k_index(op, "b", str(start))
                inner = self._of_operands()
                for request in requests:
                    weights = inner.operands(request)[1]
                    tile = inner.value(weights.value, weights.index)
                    if self._config.has_one_row:
                        shape = f"[{config.block_k}, {config.block_columns}]"
                        count = config.block_k * config.block_columns
                        tile = f"tl.broadcast_to({tile}, [1, {count}]).to(tl.float32)"
                        tile = self._tiles.body.name(f"tl.reshape({tile}, {shape})")
                    found[request, start] = tile
            if self._config.has_one_row:
                self.column_index()
        if self._are_invariant(lines):
            self._writer.write(lines)
            self._held |= found

    def pack(self, op: ir.Operation) -> None:
        """Copies the weights of a contraction tile by tile, where the configuration says so."""
        requests, config = self._requests(op), self._config
        if not config.packed or config.has_one_row or not requests:
            return
        if (requests[0], 0) in self._held:
            return
        number, k = self._analysis.contractions.index(op), contracted(op)
        tile = config.block_k * config.block_columns
        size = -(-k // config.block_k) * len(requests) * tile
        found = {}
        with self._writer.captured() as lines:
            tile_of_columns = f"tl.cast(pid % {self._column_tiles}, tl.int64)"
            self._writer.line(f"q{number} = p{number} + {tile_of_columns} * {size}")
            self._writer.line(
                f"q{number} += tl.arange(0, {config.block_columns})[None, :] * {config.block_k}"
                f" + tl.arange(0, {config.block_k})[:, None]"
            )
            with self._writer.indented(f"for k in tl.range(0, {k}, {config.block_k}):"):
                self._k_index(op, "b", "k")
                inner = self._of_operands()
                for n, request in enumerate(requests):
                    weights = inner.operands(request)[1]
                    value = inner.value(weights.value, weights.index)
                    place = f"q{number} + k * {len(requests) * config.block_columns}"
                    place += f" + {n * tile}" if n else ""
                    shape = f"[{config.block_k}, {config.block_columns}]"
                    self._writer.line(f"tl.store({place}, tl.broadcast_to({value}, {shape}))")
                    found[request] = f"tl.load({place})"
            self._writer.line("tl.debug_barrier()")
        if self._are_invariant(lines):
            self._writer.write(lines)
            self._packed |= found
            kind = ops.element_type(op.operands[0])
            self.copies[f"p{number}"] = Workspace(self._column_tiles * size, kind)

    def _requests(self, op: ir.Operation) -> list[Request]:
        return [request for request in self._findings.requests if request.op == op]

    @staticmethod
    def _are_invariant(lines: Sequence[str]) -> bool:
        return not any(_DEPENDS.search(line) for line in lines)

    def column_index(self, within: str = "") -> None:
        """Writes the index of the columns, and whether they are in bounds.

        Args:
          within: the index in the tile; else there is one of each column.
        """
        columns = self._config.block_columns
        within = within or f"tl.arange(0, {columns})[None, :]"
        self._writer.line(f"column = pid % {self._column_tiles} * {columns} + {within}")
        if self._analysis.columns % columns:
            self._writer.line(f"column_mask = column < {self._analysis.columns}")

    def _weight_index(self, op: ir.Operation, start: int) -> None:
        """Writes the indices of weights for one row: a flat tile, column by column.

        The lanes of a warp have neighboring columns then, whatever the order in memory is: of
        neighbors along K, the sum over lanes would take more instructions than the products.
        """
        config = self._config
        count = config.block_k * config.block_columns
        self._writer.line(f"flat = tl.arange(0, {count})[None, :]")
        self._place_along_k(op, "b", f"{start} + flat // {config.block_columns}")
        self.column_index(f"flat % {config.block_columns}")

    def _of_operands(self, part: int = 0) -> StepDemand:
        """The values of operands of contractions, in their own types."""
        return StepDemand(
            self._narrow(), self._analysis, self._findings, in_operand=True, part=part
        )

    def _k_index(self, op: ir.Operation, side: str, start: str) -> None:
        """Writes the indices along K of one operand, and whether they are in bounds."""
        at = "[None, :]" if side == "a" else "[:, None]"
        self._place_along_k(op, side, f"({start} + tl.arange(0, {self._config.block_k})){at}")

    def _place_along_k(self, op: ir.Operation, side: str, text: str) -> None:
        """Writes a tile of indices along K, and whether they are in bounds."""
        name, k = f"{side}{self._analysis.contractions.index(op)}", contracted(op)
        self._writer.line(f"{name} = {text}")
        if k % self._config.block_k:
            size = (self._findings.pitch or k) if side == "a" else k
            self._writer.line(f"{name}_mask = {name} < {size}")

    def contract(self, requests: Sequence[Request], demand: StepDemand) -> None:
        """A contraction, for all of its tiles."""
        op = requests[0].op
        number = self._analysis.contractions.index(op)
        names = [f"c{number}_{n}" for n in range(len(requests))]
        if self._config.has_one_row:
            self._sum_products(requests, names, demand)
        else:
            self._multiply(requests, names, demand)
        self._tiles.forget_loads()
        for request, name in zip(requests, names, strict=True):
            init = op.operands[2]
            if ops.constant(init) != 0:
                name = self._tiles.body.name(f"{name} + {demand.value(init, request.index)}")
            demand.define(op.results[0], request.index, name)

    def _multiply(
        self, requests: Sequence[Request], names: Sequence[str], demand: StepDemand
    ) -> None:
        """The loop over K of matrix instructions."""
        writer, config, op = self._writer, self._config, requests[0].op
        k, kind = contracted(op), ops.element_type(op.operands[0])
        argument = precision_argument(dot_precision(kind, self._target))
        for name in names:
            writer.line(f"{name} = tl.zeros({self._config.tile_shape}, tl.float32)")
        header = f"for k in tl.range(0, {k}, {config.block_k}, num_stages={config.num_stages}):"
        with writer.indented(header):
            for side in ("a", "b"):
                self._k_index(op, side, "k")
            inner = self._of_operands()
            rows, columns, depth = config.block_rows, config.block_columns, config.block_k
            for request, name in zip(requests, names, strict=True):
                a, b = demand.operands(request)
                left = inner.value(a.value, a.index)
                right = self._held.get((request, 0)) or self._packed.get(request)
                right = right or inner.value(b.value, b.index)
                left = f"tl.broadcast_to({left}, [{rows}, {depth}])"
                right = f"tl.broadcast_to({right}, [{depth}, {columns}])"
                writer.line(f"{name} = tl.dot({left}, {right}, {name}{argument})")

    def _sum_products(
        self, requests: Sequence[Request], names: Sequence[str], demand: StepDemand
    ) -> None:
        """The products of the one row of a CTA and their sums, of parts of K."""
        writer, config, op = self._writer, self._config, requests[0].op
        for part, start in enumerate(range(0, contracted(op), config.block_k)):
            self._k_index(op, "a", str(start))
            if (requests[0], start) not in self._held:
                self._k_index(op, "b", str(start))
            inner = self._of_operands(part)
            columns: dict[str, str] = {}
            for request, name in zip(requests, names, strict=True):
                a, b = demand.operands(request)
                left = inner.value(a.value, a.index)
                if left not in columns:
                    text = f"tl.reshape(({left}).to(tl.float32), [{config.block_k}])[:, None]"
                    columns[left] = self._tiles.body.name(text)
                right = self._held.get((request, start))
                if right is None:
                    right = f"({inner.value(b.value, b.index)}).to(tl.float32)"
                sign = "+=" if start else "="
                writer.line(f"{name} {sign} {columns[left]} * {right}")
        threads = config.num_warps * gpu_of(self._target).warp_size
        for first in range(0, len(names), SUMS):
            together = list(names[first : first + SUMS])
            if len(together) == 1:
                writer.line(f"{together[0]} = tl.sum({together[0]}, 0, keep_dims=True)")
                continue
            given = ", ".join(together + together[:1] * (SUMS - len(together)))
            sums = ", ".join(together + ["_"] * (SUMS - len(together)))
            writer.line(f"{sums} = recurrence.sums_of_columns({given}, {threads})")

    def _narrow(self) -> Tiles:
        """The same lines, with element types as they are in memory, for operands of `tl.dot`."""
        found = Tiles(self._tiles.space, {}, {**TYPES, "index": TYPES["i32"]})
        found.body.writer = self._writer
        found.body.outer = self._tiles.body.outer
        found.operands = self._tiles.operands
        return found
