"""Kernels for regions of one pooling, its padding and the elementwise ops behind it.

The rows of a tile are places of the result in all images, its columns the result's last dimension.
A tile is read once for each place of the window; what is outside of the image is what the padding
has there. Neighbouring windows overlap, and the caches hold what they share.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    UNKNOWN_ROWS,
    Axis,
    Group,
    Space,
    known_product,
    loop_axes,
    power_of_two,
)
from mlirfuse.kernels.codegen.loop_nest import tile_width
from mlirfuse.kernels.codegen.scalar_ops import TYPES, WIDE, Unsupported, literal
from mlirfuse.kernels.codegen.tile_writer import Tiles, attempted, computing, returned
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.pooling.problem import PoolingConfig, PoolingProblem
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import poolings
from mlirfuse.structured.recognize.poolings import Pooling
from mlirfuse.targets.base import Target

ENTRY = "pool_kernel"

ROWS, COLUMNS = 0, 1
"""The groups of the iteration space."""

KINDS = frozenset({"f16", "bf16", "f32"})
"""Element types of images."""

_ESTIMATE = PoolingConfig(tile_elements=2048, max_columns=128, num_warps=4)
"""16 bytes of f16, twice, for each thread."""

MOST_PLACES = 81
"""Of a window: all of them are loads of their own in the kernel's text."""

_COMBINED = {
    "arith.maximumf": "library.larger({0}, {1})",
    "arith.maxnumf": "tl.maximum({0}, {1})",
    "arith.minnumf": "tl.minimum({0}, {1})",
    "arith.addf": "{0} + {1}",
}
"""Op of the body -> how two tiles are combined."""


def refusal(op: ir.Operation, found: Pooling) -> NoMatch | None:
    """Why a pooling that is alone would get no kernel; None if it would."""
    kinds = {ops.element_type(op.operands[0]), ops.element_type(op.results[0])}
    if not kinds <= KINDS:
        return NoMatch(Reason.ELEMENT_TYPE, f"a pooling of {' to '.join(sorted(kinds))}")
    if found.combine.name not in _COMBINED:
        return NoMatch(Reason.STRUCTURE, f"a pooling by {found.combine.name}")
    if ops.constant(ops.inits(op)[0]) is None:
        return NoMatch(Reason.STRUCTURE, "a pooling that starts from no constant")
    sizes = ops.loop_sizes(op)
    first = (ops.indexing_maps(op)[2] or ())[0]
    if None in [size for loop, size in enumerate(sizes) if loop != first]:
        return NoMatch(Reason.DYNAMIC_SHAPE, "only the first dimension may be dynamic")
    places = known_product([sizes[loop] for loop in found.window_loops])
    if places > MOST_PLACES:
        return NoMatch(
            Reason.NOT_PROFITABLE, f"a window of {places} places, more than {MOST_PLACES}"
        )
    return None


def default_config(problem: PoolingProblem, target: Target) -> PoolingConfig:
    """The configuration computed from the problem and the device."""
    return _ESTIMATE


def candidates(problem: PoolingProblem) -> list[PoolingConfig]:
    """The tilings that a search measures."""
    return [PoolingConfig(tile, 128, warps) for tile in (1024, 2048, 4096) for warps in (4, 8)]


def supports(
    region: ir.Operation, target: Target, tiling: PoolingConfig | None = None
) -> Plan | NoMatch | None:
    """Plans a kernel for a region around one pooling; None for another kind of region.

    Args:
      region: a group.
      target: what is compiled for.
      tiling: instead of the chosen one.
    """
    group = computing(region)
    found = [(op, p) for op in group if (p := poolings.pooling(op)) is not None]
    if not found:
        return None
    if len(found) > 1:
        return NoMatch(Reason.STRUCTURE, f"{len(found)} poolings in one kernel")
    op, loops = found[0]
    pad = ops.defining_op(op.operands[0])
    if pad is not None and (pad.name != "tensor.pad" or pad not in group):
        pad = None
    core = [op] if pad is None else [op, pad]
    rest = [o for o in group if o not in core]
    others = [o for o in rest if not ops.is_elementwise(o)]
    if others:
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(others[0])}")
    refused = refusal(op, loops)
    if refused is not None:
        return refused
    chosen = tiling or _ESTIMATE
    return attempted(
        lambda: _Planner(region, op, loops, pad, rest).plan(chosen), "places and channels"
    )


class _Planner:
    """Writes the kernel of one region."""

    def __init__(
        self,
        region: ir.Operation,
        op: ir.Operation,
        loops: Pooling,
        pad: ir.Operation | None,
        rest: list[ir.Operation],
    ) -> None:
        self.op = op
        self.loops = loops
        self.rest = rest
        self.results = returned(region)
        self.image = op.operands[0] if pad is None else pad.operands[0]
        owner = ops.defining_op(self.image)
        if owner is not None and ops.in_region(owner):
            raise Unsupported("an image that the group computes")
        self.sizes = ops.loop_sizes(op)
        self.low, self.outside = self._padded(pad)

    def _padded(self, pad: ir.Operation | None) -> tuple[list[int], float | None]:
        """How much is padded before each dimension, and with what; None where nothing is."""
        rank = len(ops.shape(self.image))
        if pad is None:
            return [0] * rank, None
        value, amounts = ops.padding_value(pad), ops.padding_amounts(pad)
        number = None if value is None else ops.constant(value)
        if number is None or amounts is None:
            raise Unsupported("a padding that is not of one constant, and static")
        self.moved = [low + high != 0 for low, high in amounts]
        if any(
            moved and n is None for moved, n in zip(self.moved, ops.shape(self.image), strict=True)
        ):
            raise Unsupported("a padding of a dynamic dimension")
        return [low for low, _ in amounts], float(number)

    def plan(self, config: PoolingConfig) -> Plan:
        """The plan."""
        out = [d for d in ops.indexing_maps(self.op)[2] or () if d is not None]
        shape = [self.sizes[d] for d in out]
        rows, columns = shape[:-1] or [1], shape[-1]
        assert columns is not None
        width = tile_width(columns, config.max_columns)
        dynamic = rows[0] is None
        known = known_product(rows)
        height = max(1, config.tile_elements // width)
        if not dynamic:
            height = min(height, power_of_two(known))
        exact = not dynamic and known % height == 0
        self.space = Space(
            (
                Group("row", tuple(rows), "" if exact else "row_inside"),
                Group("column", (columns,), "column_inside" if columns % width else ""),
            )
        )
        self._spread(out)
        tiles = self.tiles
        tile_columns = -(-columns // width)
        most = max(known_product(ops.shape(v)) for v in (self.image, *self.results))
        wide = ".to(tl.int64)" if dynamic or most >= MAX_INDEX else ""
        lines = [
            f"row = (tl.program_id(0) // {tile_columns}){wide} * {height}"
            f" + tl.arange(0, {height})[:, None]",
            f"column = tl.program_id(0) % {tile_columns} * {width}"
            f" + tl.arange(0, {width})[None, :]",
            *self.space.inside(ROWS, COLUMNS),
            *self._places(),
        ]
        self._combine(height, width)
        for op in self.rest:
            tiles.elementwise(op)
        for number, value in enumerate(self.results):
            tiles.store(f"y{number}", value, tiles.written_axes(value))
        window = "x".join(str(self.sizes[loop]) for loop in self.loops.window_loops)
        count = UNKNOWN_ROWS * known if dynamic else known
        return tiles.plan(
            ENTRY,
            [*lines, *tiles.body.lines],
            self.results,
            f"Windows of {window}, tiles of {height} by {width}.",
            grid=(
                Extent(known, height, (0,) if dynamic else (), tile_columns),
                Extent(1),
                Extent(1),
            ),
            problem=PoolingProblem(count, columns, window),
            first=(ROWS, 0),
            num_warps=config.num_warps,
        )

    def _spread(self, out: list[int]) -> None:
        """Names the axes of every loop."""
        main: list[Axis] = [(ROWS, n) for n in range(len(out) - 1)] + [(COLUMNS, 0)]
        self.axes = dict(zip(out, main, strict=True))
        init, result = ops.inits(self.op)[0], self.op.results[0]
        named = loop_axes(self.space, self.rest, main, written={result: main, init: main})
        # The window has no axis: its places are numbers in the text.
        named[self.op] = [self.axes.get(loop, (ROWS, 0)) for loop in range(len(self.sizes))]
        self.tiles = Tiles(self.space, named, WIDE)
        plain = [
            self.axes.get(sums[0][0]) if len(sums) == 1 else None for sums in self.loops.image_dims
        ]
        self.tiles.axes[self.image] = tuple(plain)
        self.main = tuple(main)

    def _combine(self, height: int, width: int) -> None:
        """The lines that combine all places of the window."""
        tiles, body = self.tiles, self.tiles.body
        result = self.op.results[0]
        start = ops.constant(ops.inits(self.op)[0])
        first = literal(float(start or 0), ops.element_type(result), body.types)
        body.lines.append(f"total = tl.broadcast_to({first}, [{height}, {width}])")
        places: list[tuple[int, ...]] = [()]
        for loop in self.loops.window_loops:
            places = [(*p, n) for p in places for n in range(self.sizes[loop] or 0)]
        for place in places:
            tile = body.name(self._load(dict(zip(self.loops.window_loops, place, strict=True))))
            known = body.block(
                ops.body(self.op), [tile, None, None], lambda loop: "0", self.loops.combine
            )
            text = _COMBINED[self.loops.combine.name].format("total", known[self.loops.term])
            body.lines.append(f"total = {text}")
        tiles.define(result, "total")

    def _places(self) -> list[str]:
        """The lines that say where the windows begin, along each dimension of the image."""
        lines = []
        for dim, sums in enumerate(self.loops.image_dims):
            walked = [(self.axes[loop], factor) for loop, factor in sums if loop in self.axes]
            shift = f" - {self.low[dim]}" if self.low[dim] else ""
            lines.append(f"place{dim} = {self.space.walked(walked) or '0'}{shift}")
        return lines

    def _load(self, place: dict[int, int]) -> str:
        """The tile that one place of the window sees."""
        shape, terms, masks = ops.shape(self.image), [], [self.space.mask(self.main)]
        for dim, sums in enumerate(self.loops.image_dims):
            moved = sum(factor * place[loop] for loop, factor in sums if loop in place)
            at = f"(place{dim} + {moved})" if moved else f"place{dim}"
            stride = known_product(shape[dim + 1 :])
            terms.append(at if stride == 1 else f"{at} * {stride}")
            if self.outside is not None and self.moved[dim]:
                masks.append(f"({at} >= 0) & ({at} < {shape[dim]})")
        pointer, kind = self.tiles.pointer(self.image), ops.element_type(self.image)
        mask = " & ".join(mask for mask in masks if mask)
        other = literal(0.0 if self.outside is None else self.outside, kind)
        guard = f", mask={mask}, other={other}" if mask else ""
        text = f"tl.load({pointer} + ({' + '.join(terms)}){guard})"
        wide = self.tiles.body.types[kind] != TYPES[kind]
        return f"{text}.to(tl.float32)" if wide else text
