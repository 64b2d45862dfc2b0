"""Kernels for regions of one convolution, its padding and the elementwise ops around it.

Implicit product of matrices: the rows are the places of the result in all images, the columns the
output channels, the terms the channels of each place of the window, window by window. The image is
read where it lies, in any layout; the zeros around it are what masked loads give. The epilogue runs
on the sums in registers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    Axis,
    Group,
    Space,
    known_product,
    loop_axes,
    power_of_two,
)
from mlirfuse.kernels.codegen.scalar_ops import WIDE, Unsupported
from mlirfuse.kernels.codegen.tile_writer import Tiles, attempted, computing, returned
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.convolution import halo
from mlirfuse.kernels.convolution.problem import ConvolutionConfig, ConvolutionProblem
from mlirfuse.kernels.convolution.taps import FEW_CHANNELS, Terms
from mlirfuse.kernels.matmul import persistent
from mlirfuse.kernels.matmul.tilings import FILLED, PROGRAMS, UNKNOWN_ROWS, placed
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolution_loops
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops
from mlirfuse.targets.base import Target

ENTRY = "conv_kernel"

ROWS, COLUMNS = 0, 1
"""The groups of the iteration space."""

TYPES = frozenset({"f16", "bf16"})
"""Element types of images and filters."""

_ESTIMATES: tuple[ConvolutionConfig, ...] = (
    ConvolutionConfig(128, 128, 64, 8, 3),
    ConvolutionConfig(128, 64, 64, 4, 4),
    ConvolutionConfig(64, 64, 64, 4, 4),
)
"""The first whose tiles fill the device; for sizes far from all measured ones."""

_SHAPES = (
    (128, 128, 64, 8, 3),
    (128, 128, 64, 4, 3),
    (128, 64, 64, 4, 3),
    (128, 64, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (128, 64, 32, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 128, 4, 3),
    (64, 128, 128, 4, 3),
    (64, 128, 128, 4, 4),
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
    (256, 64, 64, 8, 3),
)

_STAYING = (
    # height, width, stages, groups, alternate
    (128, 64, 8, 2, 0),
    (128, 64, 8, 2, 1),
    (128, 128, 6, 2, 0),
)
"""Tiles of workgroups that stay, beside those of products."""

_ONCE = (128, 64, 2)
"""Rows and columns of tiles that load the image once for all places of a window, and their groups
of warps."""

_ONCE_FEW = (256, 3)
"""The least rows of tiles that load lines of few channels, and their groups."""

MOST_PLACES = 31
"""Of a window, for which one number of 32 bits says which are in the image."""

FEWEST = 60
"""Workgroups below which a tile is too large to be worth a measurement: half of a device."""


def candidates(problem: ConvolutionProblem) -> list[ConvolutionConfig]:
    """The tilings that a search measures."""
    rows, columns, channels, taps = problem.sizes
    found = []
    for numbers in _SHAPES:
        height, width, block, *_ = numbers
        small = height * width == 64 * 64
        workgroups = -(-rows // height) * -(-columns // width)
        if (
            width <= max(64, columns)
            and block <= max(64, channels)
            and (small or workgroups >= FEWEST)
        ):
            found.append(ConvolutionConfig(*numbers))
    if problem.k_contiguous:
        staying = persistent.candidates(rows, columns, channels * taps, 1, _STAYING)
        found += [ConvolutionConfig.from_dict(config.to_dict()) for config in staying]
        found += [_once(*_ONCE)] if taps > 1 and channels == persistent.BLOCK else []
    if channels < FEW_CHANNELS:
        height, groups = _ONCE_FEW
        found.append(_once(height, columns, groups))
    return found


def _once(height: int, width: int, groups: int) -> ConvolutionConfig:
    return ConvolutionConfig(
        height, width, persistent.BLOCK, persistent.WARPS, 1, consumer_warpgroups=groups, halo=True
    )


def _tiling(
    target: Target, problem: ConvolutionProblem, allowed: Callable[[ConvolutionConfig], bool]
) -> ConvolutionConfig:
    measured = lookup.nearest(
        target, problem, ConvolutionConfig, lambda entry: allowed(entry.config)
    )
    return default_config(problem, target) if measured is None else measured.config


def default_config(problem: ConvolutionProblem, target: Target) -> ConvolutionConfig:
    """The configuration computed from the problem and the device."""
    rows, columns, _, _ = problem.sizes
    for tiling in _ESTIMATES:
        width = min(tiling.block_n, max(16, power_of_two(columns)))
        found = dataclasses.replace(tiling, block_n=width)
        if -(-rows // tiling.block_m) * -(-columns // width) >= FILLED:
            return found
    return found


def takes(op: ir.Operation) -> bool:
    """Whether an op alone is a convolution of a kernel's types and loops."""
    found = convolution_loops.classify(op)
    if not isinstance(found, ConvolutionLoops) or _refused(op) is not None:
        return False
    sizes = ops.loop_sizes(op)
    return None not in [size for loop, size in enumerate(sizes) if loop != found.m_loops[0]]


@dataclasses.dataclass(frozen=True, slots=True)
class FilterOrder:
    """The loops of a filter in the order in which a kernel reads it best.

    Attributes:
      filter: number of the operand.
      loops: outermost first.
    """

    filter: int
    loops: tuple[int, ...]


def filter_order(op: ir.Operation) -> FilterOrder | None:
    """The best order of the filter of a convolution of images with channels last; None of others.

    Terms side by side, or output channels, where few channels make no aligned blocks of terms.
    """
    found = convolution_loops.classify(op)
    if not isinstance(found, ConvolutionLoops) or found.channel_loop is None:
        return None
    if found.image_dims[-1] != ((found.channel_loop, 1),):
        return None
    terms = (*found.tap_loops, found.channel_loop)
    few = (ops.loop_sizes(op)[found.channel_loop] or 0) < FEW_CHANNELS
    return FilterOrder(found.filter, (*terms, found.n_loop) if few else (found.n_loop, *terms))


def supports(
    region: ir.Operation, target: Target, tiling: ConvolutionConfig | None = None
) -> Plan | NoMatch | None:
    """Plans a kernel for a region around one convolution; None for another kind of region.

    Args:
      region: a group.
      target: what is compiled for.
      tiling: instead of the chosen one.
    """
    group = computing(region)
    found = [(op, s) for op in group if (s := convolution_loops.classify(op)) is not None]
    if not found:
        return None
    if len(found) > 1:
        return NoMatch(Reason.STRUCTURE, f"{len(found)} convolutions in one kernel")
    op, loops = found[0]
    if isinstance(loops, str):
        return NoMatch(Reason.STRUCTURE, f"the kernel cannot compute {loops}")
    pad = ops.defining_op(op.operands[loops.image])
    if pad is not None and (pad.name != "tensor.pad" or pad not in group):
        pad = None
    others = [o for o in group if o not in _core(op, pad) and not ops.is_elementwise(o)]
    if others:
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(others[0])}")
    refusal = _refused(op)
    if refusal is not None:
        return refusal
    return attempted(
        lambda: _Planner(region, group, op, loops, pad).plan(target, tiling), "places and channels"
    )


def _core(op: ir.Operation, pad: ir.Operation | None) -> list[ir.Operation]:
    return [op] if pad is None else [op, pad]


def _refused(op: ir.Operation) -> NoMatch | None:
    """Why an op's element types have no kernel."""
    kinds = {ops.element_type(v) for v in ops.inputs(op)}
    out = ops.element_type(op.results[0])
    if len(kinds) == 1 and kinds <= TYPES and out in (*kinds, "f32"):
        return None
    kind = f"{' times '.join(sorted(kinds))} to {out}"
    return NoMatch(Reason.ELEMENT_TYPE, f"a convolution of {kind}")


class _Planner:
    """Writes the kernel of one region."""

    def __init__(
        self,
        region: ir.Operation,
        group: list[ir.Operation],
        op: ir.Operation,
        loops: ConvolutionLoops,
        pad: ir.Operation | None,
    ) -> None:
        self.op = op
        self.loops = loops
        self.results = returned(region)
        self.sizes = ops.loop_sizes(op)
        after = {op}
        for other in group:
            if any(ops.defining_op(v) in after for v in other.operands):
                after.add(other)
        elementwise = [o for o in group if o not in _core(op, pad)]
        self.before = [o for o in elementwise if o not in after]
        self.after = [o for o in elementwise if o in after]
        self.image = op.operands[loops.image] if pad is None else pad.operands[0]
        self.filter = op.operands[loops.filter]
        if any(ops.in_region(o) for v in (self.image, self.filter) if (o := ops.defining_op(v))):
            raise Unsupported("an image or filter that the group computes")
        self.padded = self._padded(pad)

    def _padded(self, pad: ir.Operation | None) -> list[tuple[int, int]]:
        """The zeros before and after each dimension of the image."""
        if pad is None:
            return [(0, 0)] * len(ops.shape(self.image))
        value, amounts = ops.padding_value(pad), ops.padding_amounts(pad)
        if value is None or ops.constant(value) != 0 or amounts is None:
            raise Unsupported("a padding that is not of zeros, and static")
        for (low, high), size, sums in zip(
            amounts, ops.shape(self.image), self.loops.image_dims, strict=True
        ):
            if low + high and (size is None or sums == ((self.loops.channel_loop, 1),)):
                raise Unsupported("a padding of channels or of a dynamic dimension")
        return list(amounts)

    def plan(self, target: Target, tiling: ConvolutionConfig | None) -> Plan | NoMatch:
        """The plan, with the tiling that is given or chosen."""
        loops, sizes = self.loops, self.sizes
        rows = tuple(sizes[n] for n in loops.m_loops)
        columns = sizes[loops.n_loop]
        windows = [sizes[n] for n in loops.tap_loops]
        channels = 1 if loops.channel_loop is None else sizes[loops.channel_loop]
        if columns is None or channels is None or None in (*rows[1:], *windows):
            return NoMatch(Reason.DYNAMIC_SHAPE, "only the first loop of the rows may be dynamic")
        self.channels = channels
        self.windows = [size for size in windows if size is not None]
        self.terms = Terms(self.op, loops, self.image, self.padded, self.windows, channels)
        dynamic = rows[0] is None
        known = known_product(rows)
        self.problem = self._problem((UNKNOWN_ROWS if dynamic else 1) * known, columns)
        chosen = tiling or _tiling(target, self.problem, lambda t: self._can_have(t, target))
        if not self._can_have(chosen, target):
            return NoMatch(Reason.STRUCTURE, "workgroups cannot stay for this convolution")
        chosen = self.tiling = self._sized(chosen, target)
        exact = not dynamic and known % chosen.block_m == 0
        self.space = Space(
            (
                Group("row", rows, "" if exact else "row_inside"),
                Group("column", (columns,), "column_inside" if columns % chosen.block_n else ""),
            )
        )
        self._spread()
        image = self.tiles.pointer(self.image)
        weight = self.tiles.pointer(self.filter)
        lines = self.tiles.body.lines
        if not chosen.consumer_warpgroups:
            lines += self._start(dynamic)
            lines += self._sums(image, weight)
        self._around()
        for number, value in enumerate(self.results):
            self.tiles.store(f"y{number}", value, self.tiles.written_axes(value))
        if chosen.halo:
            return self._once(image, weight, target)
        if chosen.consumer_warpgroups:
            return self._staying(image, weight, known, columns)
        return self._finished(known, dynamic, columns)

    def _can_have(self, tiling: ConvolutionConfig, target: Target) -> bool:
        """Whether the workgroups of a tiling, if they stay, can compute this."""
        if not tiling.consumer_warpgroups:
            return True
        columns, places = self.problem.out_channels, known_product(self.windows)
        values = (self.image, self.filter, *self.results)
        if (
            not persistent.supports(target)
            or None in self.sizes
            or ops.constant(ops.inits(self.op)[0]) != 0
            or max(map(ops.num_elements, values)) >= MAX_INDEX
        ):
            return False
        if tiling.halo and self.terms.few:
            return self._lines(tiling, target) is not None
        return (
            self.problem.k_contiguous
            and persistent.fits(_narrowed(tiling, columns).block_n, columns, self.channels, 1)
            and places <= MOST_PLACES
            and (not tiling.halo or self._pixels(tiling, target) is not None)
        )

    def _sized(self, tiling: ConvolutionConfig, target: Target) -> ConvolutionConfig:
        """A tiling whose tiles are as large as they will be."""
        found = self._lines(tiling, target) if tiling.halo and self.terms.few else None
        if found is not None:
            return dataclasses.replace(tiling, block_m=found.together * found.width)
        return _narrowed(tiling, self.problem.out_channels)

    def _rows(self) -> list[int]:
        return [self.sizes[loop] or 0 for loop in self.loops.m_loops]

    def _lines(self, tiling: ConvolutionConfig, target: Target) -> halo.Lines | None:
        """How few channels lie in workgroup memory."""
        return halo.lines(
            self.terms, self._rows(), self.problem.out_channels, tiling, target.shared_memory or 0
        )

    def _pixels(self, tiling: ConvolutionConfig, target: Target) -> halo.Windows | None:
        """How the pixels of a tile lie in workgroup memory."""
        columns = self.problem.out_channels
        return halo.windows(
            self.terms, self._rows(), columns, _narrowed(tiling, columns), target.shared_memory or 0
        )

    def _once(self, image: str, weight: str, target: Target) -> Plan:
        """The plan of a kernel whose tiles load the image once, when its epilogue is written."""
        rows, columns, tiling = self._rows(), self.problem.out_channels, self.tiling
        lines = self._lines(tiling, target) if self.terms.few else None
        pixels = None if self.terms.few else self._pixels(tiling, target)
        numbers: tuple[object, ...] = ()
        if lines is not None:
            called, given = ("convolution_stem_sm90", "lines"), "at"
            programs = min(PROGRAMS, lines.tiles)
            functions = {"at(line, element, column)": self.terms.at_element()}
            numbers = (columns, *dataclasses.astuple(lines), programs)
        elif pixels is not None:
            called, given = ("convolution_halo_sm90", "windows"), "begin"
            programs = pixels.programs
            begin, masked = self.terms.begin(self.space, self.axes)
            functions = {"begin(row)": begin}
            count = ops.num_elements(self.image) // self.channels
            sizes = (known_product(rows), columns, count, self.terms.moves())
            numbers = (*sizes, masked, tiling.block_n, *dataclasses.astuple(pixels))
        return persistent.staying(
            self.tiles,
            ENTRY,
            self.results,
            self.problem,
            tiling,
            f"{self._note()}, of which the image is loaded once.",
            called=called,
            functions=functions,
            given=(image, weight, persistent.OTHERS, given, "epilogue"),
            numbers=numbers,
            programs=programs,
            groups=(ROWS, COLUMNS),
        )

    def _staying(self, image: str, weight: str, rows: int, columns: int) -> Plan:
        """The plan of a kernel whose workgroups stay, when its epilogue is written."""
        depth = known_product(self.windows) * self.channels
        begin, masked = self.terms.begin(self.space, self.axes)
        return persistent.planned(
            self.tiles,
            ENTRY,
            self.results,
            self.problem,
            self.tiling,
            (image, [weight]),
            sizes=(rows, columns, depth),
            step=str(depth),
            begin=begin,
            at=self.terms.at(persistent.BLOCK),
            groups=(ROWS, COLUMNS),
            masked=masked,
        )

    def _finished(self, known: int, dynamic: bool, columns: int) -> Plan:
        tiles, chosen = self.tiles, self.tiling
        grid = (
            Extent(known, chosen.block_m, (0,) if dynamic else (), -(-columns // chosen.block_n)),
            Extent(1),
            Extent(1),
        )
        return tiles.plan(
            ENTRY,
            tiles.body.lines,
            self.results,
            f"{self._note()}.",
            grid=grid,
            problem=self.problem,
            first=(ROWS, 0),
            num_warps=chosen.num_warps,
            num_stages=chosen.num_stages,
        )

    def _note(self) -> str:
        """What the kernel computes."""
        window = "x".join(str(size) for size in self.windows) or "1x1"
        size = f"{self.tiling.block_m} by {self.tiling.block_n}"
        return f"Windows of {window} over {self.channels} channels, tiles of {size}"

    def _problem(self, rows: int, columns: int) -> ConvolutionProblem:
        """What the tiling is chosen by."""
        last = self.loops.image_dims[-1]
        inside = self.loops.channel_loop is not None and last == ((self.loops.channel_loop, 1),)
        summed = (*self.loops.tap_loops, self.loops.channel_loop)
        read = ops.indexing_maps(self.op)[self.loops.filter]
        blocks = self.channels % persistent.BLOCK == 0
        return ConvolutionProblem(
            rows,
            columns,
            self.channels,
            known_product(self.windows),
            channels_last=inside,
            k_contiguous=inside and blocks and read == (self.loops.n_loop, *summed),
        )

    def _spread(self) -> None:
        """Names the axes of every loop."""
        loops = self.loops
        axes: dict[int, Axis] = {loop: (ROWS, n) for n, loop in enumerate(loops.m_loops)}
        axes[loops.n_loop] = (COLUMNS, 0)
        self.axes = axes
        out = ops.indexing_maps(self.op)[2] or ()
        main = [axes[d] for d in out if d is not None]
        init, result = ops.inits(self.op)[0], self.op.results[0]
        named: dict[ir.Operation, Sequence[Axis]] = {
            self.op: [axes.get(loop, (ROWS, 0)) for loop in range(len(self.sizes))]
        }
        around = [*self.before, *self.after]
        written = {result: main, init: main}
        named.update(loop_axes(self.space, around, main, written=written))
        short = all(ops.element_type(v) in TYPES for v in self.results)
        layout = persistent.LAYOUT if self.tiling.consumer_warpgroups else ""
        self.tiles = Tiles(self.space, named, WIDE, short=short, layout=layout)
        plain = [axes.get(sums[0][0]) if len(sums) == 1 else None for sums in loops.image_dims]
        self.tiles.axes[self.image] = tuple(plain)
        self.main = tuple(main)

    def _start(self, dynamic: bool) -> list[str]:
        """The lines that place the tile."""
        whole = max(ops.num_elements(v) for v in (self.image, self.filter, *self.results))
        wide = dynamic or whole >= MAX_INDEX
        return placed(self.space, ROWS, COLUMNS, self.tiling, wide=wide)

    def _sums(self, image: str, weight: str) -> list[str]:
        """The lines that compute the sums of the tile."""
        chosen, terms = self.tiling, self.terms
        depth, line = terms.depth, terms.line
        block = min(chosen.block_k, max(16, power_of_two(depth)))
        blocks = -(-depth // block)
        first, checks = terms.places(self.space, self.axes)
        steps = blocks if terms.few else blocks * known_product(self.windows)
        # Where elements are in a line is known when it is compiled, for each step by itself.
        steps_of = "range" if line is None else "tl.static_range"
        position = (ops.indexing_maps(self.op)[self.loops.filter] or ()).index(self.loops.n_loop)
        stride = known_product(ops.shape(self.filter)[position + 1 :])
        lines = [
            *first,
            f"filter_first = column * {stride}",
            f"total0 = tl.zeros([{chosen.block_m}, {chosen.block_n}], tl.float32)",
            f"for step in {steps_of}(0, {steps}):",
        ]
        inner = terms.numbered(block, blocks)
        inside = f"term < {depth}" if depth % block else ""
        left, right = terms.in_image("[None, :]"), terms.in_filter("[:, None]")
        masks = [self.space.groups[ROWS].mask, *checks]
        masks.append(f"({inside})[None, :]" if inside else "")
        inner.append(f"a = tl.load({image} + (image_first + {left}){_guard(masks)})")
        masks = [self.space.groups[COLUMNS].mask, f"({inside})[:, None]" if inside else ""]
        if line is not None and line.size != line.inside:
            # A neighbour that was read with a pair may be no number.
            inner.append("a = tl.where(belongs[None, :], a, 0)")
            masks.append("belongs[:, None]")
        inner.append(f"b = tl.load({weight} + (filter_first + {right}){_guard(masks)})")
        inner.append("total0 = tl.dot(a, b, total0)")
        return [*lines, *(f"    {line}" for line in inner)]

    def _around(self) -> None:
        """Computes what the sums start from and what is done to them."""
        tiles = self.tiles
        for op in self.before:
            tiles.elementwise(op)
        init = ops.inits(self.op)[0]
        if ops.constant(init) != 0:
            tiles.body.lines.append(f"total0 = total0 + {tiles.read(init, self.main)}")
        tiles.define(self.op.results[0], "total0")
        for op in self.after:
            tiles.elementwise(op)


def _narrowed(tiling: ConvolutionConfig, columns: int) -> ConvolutionConfig:
    """A tiling that is not wider than needed."""
    return dataclasses.replace(tiling, block_n=min(tiling.block_n, max(16, power_of_two(columns))))


def _guard(masks: Sequence[str]) -> str:
    """The arguments of a load whose conditions these are; empty ones always hold."""
    found = " & ".join(mask for mask in masks if mask)
    return f", mask={found}, other=0" if found else ""
