"""Kernels for regions of one contraction and the elementwise ops around it.

The operands are read as they lie in memory, transposed or not; the epilogue runs on the sums while
they are in registers. A contraction of several results, which share the left operand, is computed
in one workgroup where an op reads sums of two of them; else each has its own workgroups.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    Axis,
    Group,
    Space,
    known_product,
    loop_axes,
)
from mlirfuse.kernels.codegen.scalar_ops import HIDING, TYPES, WIDE, Unsupported
from mlirfuse.kernels.codegen.tile_writer import Tiles, attempted, computing, returned, text_of
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul import persistent_sm90, tilings, weight_only
from mlirfuse.kernels.matmul.heuristics import DEFAULT_DYNAMIC_M, persistent_configs
from mlirfuse.kernels.matmul.placement import tile_placement
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem
from mlirfuse.kernels.matmul.tilings import FEW_ROWS, LOWEST
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

ENTRY = "matmul_kernel"

BATCH, ROWS, COLUMNS, TERMS, RUNS = 0, 1, 2, 3, 4
"""The groups of the iteration space; with runs of terms, TERMS are those of a run."""

_ONE_EACH = "a contraction without one dimension each of rows, columns and terms"

LEAST_BLOCK = 16
"""Terms of a matrix instruction."""

MOST_STAGES = 8
"""Of blocks of short runs."""

_SUMS = {
    ("f16", "f32"): "f32",
    ("bf16", "f32"): "f32",
    ("f16", "f16"): "f32",
    ("bf16", "bf16"): "f32",
    ("i8", "i32"): "i32",
}
"""Element types of the operands and of the result -> that of the sums."""


def candidates(problem: MatmulProblem, target: Target) -> list[MatmulConfig]:
    """The tilings that a search measures."""
    found = tilings.candidates(problem)
    if problem.operand_bits == 16 and problem.a_k_contiguous and problem.b_k_contiguous:
        sums = 2 if problem.accumulators == 2 else 1
        found += persistent_configs(problem.m, problem.n, problem.k, sums, target)
    return found


def supports(
    region: ir.Operation, target: Target, tiling: MatmulConfig | None = None
) -> Plan | NoMatch | None:
    """Plans a kernel for a region around one contraction; None for another kind of region.

    Args:
      region: a group.
      target: what is compiled for.
      tiling: instead of the chosen one.
    """
    group = computing(region)
    contractions = [op for op in group if _is_product(op)]
    if not contractions:
        return None
    if len(contractions) > 1:
        return NoMatch(Reason.STRUCTURE, f"{len(contractions)} contractions in one kernel")
    others = [op for op in group if op != contractions[0] and not ops.is_elementwise(op)]
    if others:
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(others[0])}")
    return attempted(
        lambda: _Planner(region, group, contractions[0]).plan(target, tiling), "rows and columns"
    )


def takes(contraction: ir.Operation) -> bool:
    """Whether a contraction alone has the types and loops of a kernel."""
    try:
        products = _products(contraction)
        loops = _loops(contraction, products[0])
    except Unsupported:
        return False
    sizes = ops.loop_sizes(contraction)
    static = [sizes[n] for n in (*loops.batch, loops.column, *loops.terms)]
    return (
        len(loops.terms) == 1
        and _sum_type(contraction, products) is not None
        and not _is_unsigned(contraction)
        and None not in static
        and ops.constant(ops.inits(contraction)[0]) == 0
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Loops:
    """The loops of a contraction by what they count.

    Attributes:
      batch: those of both operands and the result.
      row: None for a vector.
      column: one.
      terms: one, or those of runs and of the terms in each.
    """

    batch: tuple[int, ...]
    row: int | None
    column: int
    terms: tuple[int, ...]

    @property
    def term(self) -> int:
        """The loop of terms that lie side by side."""
        return self.terms[-1]


@dataclasses.dataclass(frozen=True, slots=True)
class _Product:
    """One result of a contraction: numbers of the operands, and the sums."""

    left: int
    right: int
    result: ir.Value


def _is_product(op: ir.Operation) -> bool:
    return ops.is_contraction(op) or (
        ops.is_generic(op)
        and "reduction" in ops.iterator_types(op)
        and None not in ops.indexing_maps(op)
        and bool(_several(op))
    )


def _several(op: ir.Operation) -> list[_Product]:
    """The products of a generic with several results `out + a * b`; none when it is another."""
    block = ops.body(op)
    arguments = list(block.arguments)
    inputs = ops.num_inputs(op)
    yielded = list(list(block.operations)[-1].operation.operands)
    found = []
    for number, value in enumerate(yielded):
        add = ops.defining_op(value)
        if add is None or add.name not in ("arith.addf", "arith.addi"):
            return []
        terms = [v for v in add.operands if v != arguments[inputs + number]]
        multiply = ops.defining_op(terms[0]) if len(terms) == 1 else None
        if multiply is None or multiply.name not in ("arith.mulf", "arith.muli"):
            return []
        factors = [_argument(v) for v in multiply.operands]
        if any(f is None or f.arg_number >= inputs for f in factors):
            return []
        left, right = (f.arg_number for f in factors if f is not None)
        found.append(_Product(left, right, op.results[number]))
    return found


def _argument(value: ir.Value) -> ir.BlockArgument | None:
    """The block argument that a value is, or is an extension of."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name not in ("arith.extf", "arith.extsi"):
            return None
        value = op.operands[0]
    return ir.BlockArgument(value)


def _sum_type(contraction: ir.Operation, products: list[_Product]) -> str | None:
    """The element type of the sums; None for types without a kernel."""
    inputs = ops.inputs(contraction)
    kinds = {ops.element_type(inputs[n]) for p in products for n in (p.left, p.right)}
    return (
        _SUMS.get((min(kinds), ops.element_type(contraction.results[0])))
        if len(kinds) == 1
        else None
    )


def _is_unsigned(contraction: ir.Operation) -> bool:
    """Whether the contraction extends its operands without sign."""
    names = [o.operation.name for o in ops.body(contraction).operations]
    return "arith.extui" in names


def _products(contraction: ir.Operation) -> list[_Product]:
    if len(contraction.results) == 1:
        maps = ops.indexing_maps(contraction)
        if len(maps) != 3 or None in maps:
            raise Unsupported(f"the operands of {contraction.name}")
        # A vector on the right of a matrix is the row of its transpose's product.
        left, right, out = ({*m} for m in maps if m is not None)
        swapped = not (right & out - left)
        return [_Product(*((1, 0) if swapped else (0, 1)), contraction.results[0])]
    products = _several(contraction)
    maps = ops.indexing_maps(contraction)
    first = products[0]
    for product in products[1:]:
        if product.left != first.left or maps[product.right] != maps[first.right]:
            raise Unsupported("products that share no left operand")
    return products


def _loops(contraction: ir.Operation, product: _Product) -> _Loops:
    """Sorts the loops of a contraction with one loop of rows, columns and terms each."""
    maps = ops.indexing_maps(contraction)
    if any(m is None or None in m for m in maps):
        raise Unsupported(f"an indexing map of {contraction.name}")
    chosen = (maps[product.left], maps[product.right], maps[ops.num_inputs(contraction)])
    left, right, out = ({d for d in m or () if d is not None} for m in chosen)
    batch = tuple(sorted(left & right & out))
    rows, columns, terms = (
        sorted(left & out - right),
        sorted(right & out - left),
        [d for d in chosen[1] or () if d is not None and d in left - out],
    )
    every = len(ops.iterator_types(contraction))
    if len(rows) > 1 or len(columns) != 1 or len(terms) not in (1, 2):
        raise Unsupported(_ONE_EACH)
    if every != len(batch) + len(rows) + 1 + len(terms):
        raise Unsupported(_ONE_EACH)
    return _Loops(batch, rows[0] if rows else None, columns[0], tuple(terms))


def _of_runs(tiling: MatmulConfig, run: int) -> MatmulConfig:
    """The tiling with blocks that divide runs of so many terms.

    Raises:
      Unsupported: the runs are shorter than what matrix units multiply at once.
    """
    block = min(tiling.block_k, run & -run)
    if block < LEAST_BLOCK:
        raise Unsupported(f"runs of {run} terms")
    stages = min(tiling.num_stages * tiling.block_k // block, MOST_STAGES)
    return dataclasses.replace(tiling, block_k=block, num_stages=stages, split_k=1)


class _Planner:
    """Writes the kernel of one region."""

    def __init__(
        self, region: ir.Operation, group: list[ir.Operation], contraction: ir.Operation
    ) -> None:
        self.contraction = contraction
        self.results = returned(region)
        self.products = _products(contraction)
        self.loops = _loops(contraction, self.products[0])
        self.sizes = ops.loop_sizes(contraction)
        after = {contraction}
        for op in group:
            if any(ops.defining_op(v) in after for v in op.operands):
                after.add(op)
        self.prologue = [op for op in group if op not in after]
        self.epilogue = [op for op in group if op in after and op != contraction]
        hidden = {result for op in self.prologue for result in op.results}
        readers = [v for op in self.epilogue for v in op.operands] + self.results
        if any(v in hidden for v in readers):
            raise Unsupported("a value that is read before and after the sums")
        if len(self.loops.terms) > 1 and not self.prologue:
            raise Unsupported(_ONE_EACH)

    def plan(self, target: Target, tiling: MatmulConfig | None) -> Plan | NoMatch:
        """The plan, with the tiling that is given or chosen."""
        self.sum_type = _sum_type(self.contraction, self.products)
        if self.sum_type is None:
            kinds = {ops.element_type(v) for v in ops.inputs(self.contraction)}
            out = ops.element_type(self.contraction.results[0])
            kind = f"{' times '.join(sorted(kinds))} to {out}"
            return NoMatch(Reason.ELEMENT_TYPE, f"a product of {kind}")
        if self.sum_type == "i32" and _is_unsigned(self.contraction):
            return NoMatch(Reason.ELEMENT_TYPE, "a product of unsigned numbers")
        if any(ops.constant(v) != 0 for v in ops.inits(self.contraction)):
            return NoMatch(Reason.CONSTANT_UNVERIFIED, "what the contraction adds to is not zero")
        loops, sizes = self.loops, self.sizes
        batch = tuple(sizes[n] for n in loops.batch)
        rows = 1 if loops.row is None else sizes[loops.row]
        columns, terms = sizes[loops.column], [sizes[n] for n in loops.terms]
        if columns is None or None in (*terms, *batch):
            return NoMatch(Reason.DYNAMIC_SHAPE, "only the rows of a product may be dynamic")
        depth = known_product(terms)
        count = known_product(batch)
        parts = self._parts()
        problem = self._problem(rows, columns, depth, count * len(parts), len(parts[0]))
        self.weights = self._weights()
        chosen = tiling or self._chosen(target, problem, len(parts[0]))
        if chosen.weight_streaming and not self._is_straight(target):
            chosen = self._chosen(target, problem, len(parts[0]))
        if chosen.weight_streaming:
            chosen = tilings.lowered(chosen, rows or 1)
        elif self.prologue or len(parts[0]) > 1 or self.sum_type != "f32":
            chosen = dataclasses.replace(chosen, split_k=1)
        if chosen.consumer_warpgroups and not self._can_stay(target, chosen, len(parts[0])):
            chosen = tilings.passing(chosen, len(parts[0]))
        if len(terms) > 1 and not chosen.weight_streaming:
            chosen = _of_runs(chosen, terms[-1] or 1)
        self._spread(chosen, batch, rows, columns, depth)
        tiles = self.tiles
        which = "part" if chosen.consumer_warpgroups else "tl.program_id(2)"
        for number, part in enumerate(parts):
            tiles.forget_loads()
            before = len(tiles.body.lines)
            self._part(part, chosen, depth)
            if len(parts) > 1:
                lines = tiles.body.lines[before:]
                del tiles.body.lines[before:]
                tiles.body.lines.append(f"if {which} == {number}:")
                tiles.body.lines.extend(f"    {line}" for line in lines)
        if chosen.consumer_warpgroups:
            return self._staying(chosen, parts, problem, target)
        tile_columns = -(-columns // chosen.block_n)
        grid = (
            Extent(rows or 1, chosen.block_m, () if rows else (0,), tile_columns),
            Extent(count),
            Extent(len(parts)),
        )
        text = None
        if chosen.weight_streaming:
            text = functools.partial(
                text_of, gluon=True, imported=weight_only.IMPORTED, functions=self.called
            )
        lines = [*self._start(chosen), *tiles.body.lines]
        note = f"Products over {depth} terms, tiles of {chosen.block_m} by {chosen.block_n}."
        return tiles.plan(
            ENTRY,
            lines,
            self.results,
            note,
            grid=grid,
            problem=problem,
            first=(ROWS, 0),
            num_warps=chosen.num_warps,
            num_stages=chosen.num_stages,
            text=text,
        )

    def _chosen(self, target: Target, problem: MatmulProblem, together: int) -> MatmulConfig:
        """The tiling among those that compute this."""
        straight = self._is_straight(target)
        return tilings.tiling(
            target,
            problem,
            together,
            lambda t: (
                (straight or not t.weight_streaming)
                and (not t.consumer_warpgroups or self._can_stay(target, t, together))
            ),
        )

    def _weights(self) -> weight_only.Weights | None:
        """How the right operand is dequantized, where it may come straight from memory."""
        loops, product = self.loops, self.products[0]
        if len(self.products) > 1 or loops.row is None or loops.batch or self.sum_type != "f32":
            return None
        inside = {*self.prologue}
        left, right = (self.contraction.operands[n] for n in (product.left, product.right))
        maps = ops.plain_maps(self.contraction)
        maker = ops.defining_op(left)
        if maker in inside or (maker is not None and maker.name == "tensor.extract_slice"):
            return None
        if maps[product.left] != (loops.row, *loops.terms):
            return None
        return weight_only.weights_of(
            right, maps[product.right], inside, (loops.column, *loops.terms)
        )

    def _run(self) -> int:
        """Terms that share a scale or a zero point; 0 where all of a column do."""
        found = self.weights
        parts = [] if found is None else [found.zero, found.scale]
        loops = {n for part in parts if part is not None for n in part.loops}
        return (self.sizes[self.loops.term] or 0) if self.loops.terms[0] in loops else 0

    def _is_straight(self, target: Target) -> bool:
        """Whether a kernel of weights that come straight from memory computes this."""
        left = self.contraction.operands[self.products[0].left]
        depth = known_product([self.sizes[n] for n in self.loops.terms])
        rows = 0 if self.loops.row is None else self.sizes[self.loops.row]
        return (
            self.weights is not None
            and rows is not None
            and rows <= tilings.MOST_STRAIGHT
            and weight_only.supports(target)
            and weight_only.fits(self.weights, ops.element_type(left), depth, self._run())
        )

    def _can_stay(self, target: Target, tiling: MatmulConfig, sums: int) -> bool:
        """Whether a kernel whose workgroups stay computes this."""
        loops, sizes, maps = self.loops, self.sizes, ops.plain_maps(self.contraction)
        numbers = {n for product in self.products for n in (product.left, product.right)}
        operands = [(self.contraction.operands[n], maps[n]) for n in numbers]
        tensors = [*(value for value, _ in operands), *self.contraction.results]
        columns, depth = sizes[loops.column] or 1, sizes[loops.term] or 1
        return (
            persistent_sm90.has_persistent(target)
            and self.sum_type == "f32"
            and not self.prologue
            and loops.row is not None
            and sizes[loops.row] is not None
            and all(sizes[n] == 1 for n in loops.batch)
            and persistent_sm90.tiles_divide(tiling.block_n, columns, depth, sums)
            and all(
                persistent_sm90.can_load(value, index_map, loops.term)
                for value, index_map in operands
            )
            and max(map(ops.num_elements, tensors)) < MAX_INDEX
        )

    def _staying(
        self,
        tiling: MatmulConfig,
        parts: list[list[_Product]],
        problem: MatmulProblem,
        target: Target,
    ) -> Plan:
        """The plan of a kernel whose workgroups stay, when its epilogue is written."""
        tiles, maps = self.tiles, ops.plain_maps(self.contraction)
        products = [product for part in parts for product in part]
        operands = [products[0].left, *(product.right for product in products)]
        values = [self.contraction.operands[n] for n in operands]
        names = [tiles.place(value, tuple(None for _ in ops.shape(value))) for value in values]
        steps = [
            tiles.stride(values[n], maps[operands[n]].index(loop))
            for n, loop in enumerate((self.loops.row, self.loops.column))
        ]
        loops = (self.loops.row or 0, self.loops.column, self.loops.term)
        rows, columns, depth = (self.sizes[n] or 1 for n in loops)
        matmul = persistent_sm90.PersistentMatmul(
            names[0],
            names[1:],
            rows,
            columns,
            depth,
            b_stride=steps[1],
            row_start=[f"return row * {steps[0]}, 0"],
            block_start=[f"return step * {persistent_sm90.BLOCK_K}, 0"],
            num_ctas=gpu_of(target).num_sms,
            parts=len(parts),
            accumulators=len(parts[0]),
            long_epilogue=any(
                name in persistent_sm90.LONG_FUNCTIONS
                for op in self.epilogue
                for name in ops.scalar_names(op)
            ),
        )
        outline = persistent_sm90.KernelOutline(ENTRY, self.results, problem, tiling, ROWS, COLUMNS)
        return persistent_sm90.plan_persistent(tiles, outline, matmul)

    def _problem(
        self, rows: int | None, columns: int, depth: int, batch: int, together: int
    ) -> MatmulProblem:
        """What the tiling is chosen by.

        A dynamic M counts as `DEFAULT_DYNAMIC_M`; few rows, but more than one, as `FEW_ROWS`,
        or as `LOWEST` where there are tiles for so few; some more as the next power of two.
        """
        maps, term = ops.plain_maps(self.contraction), self.loops.term
        first = self.products[0]
        bits = [ops.element_bits(v) for op in self.prologue for v in ops.inputs(op)]
        narrow = min(bits) if bits and min(bits) < 16 else 0
        found = MatmulProblem(
            rows or DEFAULT_DYNAMIC_M,
            columns,
            depth,
            batch,
            operand_bits=8 if self.sum_type == "i32" else 16,
            a_k_contiguous=maps[first.left][-1] == term,
            b_k_contiguous=maps[first.right][-1] == term,
            accumulators=together,
            prologue=bool(self.prologue),
            weight_bits=narrow,
            grouped=len(self.loops.terms) > 1,
        )
        counted, streamed = found.m, tilings.narrow_bits(found)
        if 1 < counted < FEW_ROWS:
            counted = LOWEST if streamed and counted <= LOWEST else FEW_ROWS
        elif not streamed:
            counted = tilings.counted(counted)
        return dataclasses.replace(found, m=counted)

    def _parts(self) -> list[list[_Product]]:
        """The products, those together whose sums one op reads."""
        reads: dict[ir.Value, set[int]] = {
            product.result: {n} for n, product in enumerate(self.products)
        }
        for op in self.epilogue:
            found = set().union(*(reads.get(v, set()) for v in op.operands))
            reads.update((result, found) for result in op.results)
        if all(len(found) == 1 for found in reads.values()):
            return [[product] for product in self.products]
        return [self.products]

    def _spread(
        self,
        tiling: MatmulConfig,
        batch: tuple[int | None, ...],
        rows: int | None,
        columns: int,
        depth: int,
    ) -> None:
        """Names the axes of every loop."""
        exact = rows is not None and rows % tiling.block_m == 0
        self.space = Space(
            (
                Group("batch", batch),
                Group("row", (rows,), "" if exact else "row_inside"),
                Group("column", (columns,), "column_inside" if columns % tiling.block_n else ""),
                *self._terms(tiling.block_k),
            )
        )
        loops = self.loops
        axes: list[Axis] = [(TERMS, 0)] * len(self.sizes)
        for position, loop in enumerate(loops.batch):
            axes[loop] = (BATCH, position)
        if loops.row is not None:
            axes[loops.row] = (ROWS, 0)
        axes[loops.column] = (COLUMNS, 0)
        if len(loops.terms) > 1:
            axes[loops.terms[0]] = (RUNS, 0)
        self.axes = axes
        maps = ops.plain_maps(self.contraction)
        operands = dict(zip(self.contraction.operands, maps, strict=True))
        inside = {v for op in self.prologue for v in op.results}
        read = {
            v: [axes[d] for d in m if d is not None] for v, m in operands.items() if v in inside
        }
        main = [axes[d] for d in maps[-1] if d is not None]
        sums = {product.result: main for product in self.products}
        named: dict[ir.Operation, Sequence[Axis]] = {self.contraction: axes}
        named.update(loop_axes(self.space, self.prologue, main, written=read))
        named.update(loop_axes(self.space, self.epilogue, main, written=sums))
        short = all(ops.element_type(v) in HIDING for v in self.results)
        layout = (
            persistent_sm90.LAYOUT if tiling.consumer_warpgroups or tiling.weight_streaming else ""
        )
        self.tiles = Tiles(self.space, named, WIDE, short=short, layout=layout)
        whole = max(ops.num_elements(v) for v in self.contraction.operands)
        self.wide = rows is None or whole >= MAX_INDEX

    def _terms(self, block: int) -> list[Group]:
        """The groups of the terms."""
        *runs, run = (self.sizes[n] for n in self.loops.terms)
        mask = "term_inside" if (run or 1) % block else ""
        return [Group("term", (run,), mask), *(Group("run", (size,)) for size in runs)]

    def _start(self, tiling: MatmulConfig) -> list[str]:
        """The lines that place the tile."""
        if tiling.weight_streaming:
            return weight_only.placed(self.space, ROWS, COLUMNS, tiling)
        batch = f"batch = tl.program_id(1){'.to(tl.int64)' if self.wide else ''}"
        return [batch, *tile_placement(self.space, ROWS, COLUMNS, tiling, wide=self.wide)]

    def _part(self, part: list[_Product], tiling: MatmulConfig, depth: int) -> None:
        """Computes the sums of a part, its epilogue, and its results."""
        if tiling.weight_streaming:
            if tiling.block_m <= FEW_ROWS:
                self._load_early(part)
            self._straight(part[0], tiling, depth)
        elif not tiling.consumer_warpgroups and (self.prologue or len(part) > 1):
            self._loop(part, tiling, depth)
        elif not tiling.consumer_warpgroups:
            if tiling.block_m <= FEW_ROWS:
                self._load_early(part)
            self._product(part[0], tiling, depth)
        tiles = self.tiles
        known = {product.result for product in part}
        for number, product in enumerate(part):
            total = f"accumulator{number}"
            if self.loops.row is None and tiling.block_m > 1:
                first = f"tl.where(row == 0, {total}, 0)"
                tiles.body.lines.append(f"{total} = tl.sum({first}, 0, keep_dims=True)")
            tiles.define(product.result, total)
        for op in self.epilogue:
            if any(v in known for v in op.operands):
                tiles.elementwise(op)
                known.update(op.results)
        for number, value in enumerate(self.results):
            if value in known:
                tiles.store(f"y{number}", value, tiles.written_axes(value))

    def _load_early(self, part: list[_Product]) -> None:
        """Loads what the epilogue reads, while nothing else is there to wait for."""
        known = {product.result for product in part}
        later = {product.result for product in self.products}
        later.update(result for op in self.epilogue for result in op.results)
        read = [v for op in self.epilogue for v in op.operands]
        later.update(v for v in read if ops.constant(v) is not None)
        for op in self.epilogue:
            if any(v in known for v in op.operands):
                known.update(op.results)
                self.tiles.arguments(op, later=later)

    def _product(self, product: _Product, tiling: MatmulConfig, depth: int) -> None:
        """Sums of operands that lie in memory."""
        tiles, term = self.tiles, self.loops.term
        maps = ops.plain_maps(self.contraction)
        places, steps = [], []
        for number in (product.left, product.right):
            value, index_map = self.contraction.operands[number], maps[number]
            known = tuple(None if n is None or n == term else self.axes[n] for n in index_map)
            # A vector is the first row of a tile.
            vector = number == product.left and self.loops.row is None
            places.append(tiles.place(value, known) + (" + row * 0" if vector else ""))
            steps.append(tiles.stride(value, index_map.index(term)))
        row, column = (self.space.groups[g].mask or "None" for g in (ROWS, COLUMNS))
        operands = f"{places[0]}, {places[1]}, {steps[0]}, {steps[1]}"
        size, kind = f"{depth}, {tiling.block_k}", TYPES[self.sum_type or "f32"]
        masks, tile = f"{row}, {column}", f"{tiling.block_m}, {tiling.block_n}"
        called = f"product({operands}, {masks}, {size}, {tile}, {kind})"
        if tiling.block_m == 1:
            numbers = f"{size}, {tiling.block_n}, {tiling.num_stages}"
            called = f"row_product({operands}, {column}, {numbers}, {kind})"
        elif tiling.split_k > 1:
            called = f"shared_product({operands}, {masks}, {size}, {tile}, {tiling.split_k})"
        tiles.body.lines.append(f"accumulator0 = library.{called}")

    def _straight(self, product: _Product, tiling: MatmulConfig, depth: int) -> None:
        """Sums with weights that come straight from memory."""
        found, tiles, loops = self.weights, self.tiles, self.loops
        assert found is not None
        assert loops.row is not None
        left = self.contraction.operands[product.left]
        x, w = tiles.pointer(left), tiles.pointer(found.value)
        tiles.axes[left] = tuple(self.axes[n] for n in (loops.row, *loops.terms))
        numbers = dict(enumerate(self.sizes))
        self.called, given = weight_only.functions(tiles, found, numbers, loops.column)
        run, columns = self._run(), self.sizes[loops.column]
        inside = bool(run) and found.scale is not None
        sizes = self.sizes[loops.row] or 1, columns or 1, depth, run
        tiles.body.lines.extend(weight_only.lines(tiling, (x, w, given), sizes, found, inside))
        if found.scale is not None and found.scale.value is not None and not inside:
            axes = tuple(None if n is None else self.axes[n] for n in found.scale.loops)
            factor = tiles.read(found.scale.value, axes)
            tiles.body.lines.append(f"accumulator0 = accumulator0 * {factor}")

    def _loop(self, part: list[_Product], tiling: MatmulConfig, depth: int) -> None:
        """Sums of operands that are computed on the way, or share the left one."""
        tiles, block, kind = self.tiles, tiling.block_k, TYPES[self.sum_type or "f32"]
        one = tiling.block_m == 1
        zeros = f"tl.zeros([{block if one else tiling.block_m}, {tiling.block_n}], {kind})"
        lines = tiles.body.lines
        lines += [f"accumulator{number} = {zeros}" for number in range(len(part))]
        if self._has_halves():
            columns, width = self.sizes[self.loops.column], tiling.block_n // 2
            lines.append(f"column_pair = (column_tile * {width} + tl.arange(0, {width}))[None, :]")
            lines.append(f"column_pair_inside = column_pair * 2 < {columns}")
        several = f", num_stages={tiling.num_stages}" if one else ""
        lines.append(f"for start in tl.range(0, {depth}, {block}{several}):")
        before = len(lines)
        # What matrix units do not multiply is not rounded to what they take.
        taken = kind if one else TYPES[ops.element_type(self.contraction.operands[part[0].left])]
        self._operand(part[0].left, "a", (tiling.block_m, block), depth, taken)
        for number, product in enumerate(part):
            self._operand(product.right, "b", (block, tiling.block_n), depth, taken)
            total = f"accumulator{number}"
            sums = f"{total} + tl.trans(a) * b"
            lines.append(f"{total} = {sums if one else f'tl.dot(a, b, {total})'}")
        lines[before:] = [f"    {line}" for line in lines[before:]]
        if one:
            lines += [
                f"accumulator{n} = tl.sum(accumulator{n}, 0, keep_dims=True)"
                for n in range(len(part))
            ]
        tiles.forget_loads()

    def _operand(
        self, number: int, name: str, shape: tuple[int, int], depth: int, kind: str
    ) -> None:
        """The tile of an operand, computed in the loop over the terms."""
        tiles = self.tiles
        shaped, block = ("[None, :]", shape[1]) if name == "a" else ("[:, None]", shape[0])
        lines = tiles.body.lines
        tiles.forget_loads()
        inside = self._numbers(shaped, block, depth)
        value = self.contraction.operands[number]
        for op in self._before(value):
            tiles.elementwise(op)
        index_map = ops.plain_maps(self.contraction)[number]
        tile = tiles.read(value, tuple(None if n is None else self.axes[n] for n in index_map))
        tile = f"tl.broadcast_to({tile}, {list(shape)}).to({kind})"
        lines.append(f"{name} = tl.where({inside}, {tile}, 0)" if inside else f"{name} = {tile}")

    def _numbers(self, shaped: str, block: int, depth: int) -> str:
        """Writes the numbers of the terms of a block, and of their pairs; gives their mask."""
        lines, (run, *_) = self.tiles.body.lines, self.space.groups[TERMS].sizes
        first = "start"
        if len(self.loops.terms) > 1:
            first = f"start % {run}"
            lines.append(f"run = start // {run}")
        lines.append(f"term = ({first} + tl.arange(0, {block})){shaped}")
        inside = self.space.groups[TERMS].mask
        if inside:
            lines.append(f"{inside} = term < {depth}")
        if self._has_halves():
            half = f"{first} // 2 + tl.arange(0, {block // 2})"
            lines.append(f"term_pair = ({half}){shaped}")
            lines.append(f"term_pair_inside = term_pair * 2 < {run}")
            groups = list(self.space.groups)
            groups[TERMS] = dataclasses.replace(groups[TERMS], pairs=int(shaped == "[None, :]"))
            groups[COLUMNS] = dataclasses.replace(groups[COLUMNS], pairs=1)
            self.tiles.space = Space(tuple(groups))
        return inside

    def _has_halves(self) -> bool:
        """Whether the prologue reads elements of four bits."""
        read = [v for op in self.prologue for v in ops.inputs(op)]
        return any(ops.element_type(v) == "i4" for v in read)

    def _before(self, value: ir.Value) -> list[ir.Operation]:
        """The ops of the prologue that a value is computed by, in order."""
        needed = {value}
        found = []
        for op in reversed(self.prologue):
            if any(result in needed for result in op.results):
                found.append(op)
                needed.update(op.operands)
        return found[::-1]
