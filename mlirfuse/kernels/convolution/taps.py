"""Where the terms of a convolution lie in its image and filter: the lines that compute it.

The terms are numbered by places of the window, and by channels. Few channels are numbered together
with the places, so that a block of terms spans several of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.iteration_space import Axis, Space, known_product
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops

PAIR = 2
"""Elements of 16 bits that are loaded together at least, if they start at 4 bytes."""

FEW_CHANNELS = 16
"""Below, a block of terms spans several places of the window."""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A row of the window with all its channels, side by side in the image, in pairs.

    Attributes:
      dim: of the image, along which the row lies.
      lead: elements before the row, so that it starts at a pair.
      inside: elements of the row.
    """

    dim: int
    lead: int
    inside: int

    @property
    def size(self) -> int:
        """Elements that are read: whole pairs."""
        return -(-(self.lead + self.inside) // PAIR) * PAIR


class Terms:
    """The terms of one convolution.

    Attributes:
      image: sizes of the image's dimensions.
      few: whether a block of terms spans several places of the window.
      line: the rows of the window, where they are read in pairs.
      depth: terms that are numbered together: all of few channels, else those of a place.
    """

    def __init__(
        self,
        op: ir.Operation,
        loops: ConvolutionLoops,
        image: ir.Value,
        padded: Sequence[tuple[int, int]],
        windows: Sequence[int],
        channels: int,
    ) -> None:
        self.loops = loops
        self.padded = padded
        self.windows = windows
        self.channels = channels
        self.few = channels < FEW_CHANNELS
        self.image, self._filter = ops.shape(image), ops.shape(op.operands[loops.filter])
        self._filter_loops = ops.indexing_maps(op)[loops.filter] or ()
        self.line = self._line()
        self.depth = known_product(windows) * channels if self.few else channels
        if self.line is not None:
            self.depth = known_product(windows[:-1]) * self.line.size

    def _line(self) -> Line | None:
        """The rows of the window, where their channels are odd in number and lie in pairs."""
        loops, channels = self.loops, self.channels
        if channels >= FEW_CHANNELS or channels % PAIR == 0 or len(loops.image_dims) < 2:
            return None
        along, last = loops.image_dims[-2:]
        dim = len(loops.image_dims) - 2
        width = known_product(self.image[dim:])
        if last != ((loops.channel_loop, 1),) or len(along) != 2 or width % PAIR:
            return None
        (_, stride), moved = sorted(along, key=lambda part: part[0] in loops.tap_loops)
        if moved != (loops.tap_loops[-1], 1) or stride * channels % PAIR:
            return None
        low, _ = self.padded[dim]
        return Line(dim, low * channels % PAIR, self.windows[-1] * channels)

    def places(self, space: Space, axes: Mapping[int, Axis]) -> tuple[list[str], list[str]]:
        """Where the image of the tile's rows begins, and the conditions inside the loop.

        Args:
          space: the iteration space.
          axes: those of the loops of the rows.
        """
        shape, lines, checks = self.image, [], []
        whole: list[str] = []
        plain = all(len(sums) == 1 and sums[0][1] == 1 for sums in self.loops.image_dims)
        if plain and not any(low + high for low, high in self.padded):
            read = tuple(axes.get(sums[0][0]) for sums in self.loops.image_dims)
            whole = [space.offset(shape, read)]
        else:
            for dim, (sums, (low, high)) in enumerate(
                zip(self.loops.image_dims, self.padded, strict=True)
            ):
                parts = [(loop, factor) for loop, factor in sums if loop in axes]
                stride = known_product(shape[dim + 1 :])
                if not parts:
                    continue
                line = self.line if self.line is not None and dim == self.line.dim else None
                unit = 1 if line is None else stride
                text = space.walked([(axes[loop], factor * unit) for loop, factor in parts])
                before = low * unit
                if line is not None:
                    before, stride = before + line.lead, 1
                    place = f"(place{dim} + along[None, :]"
                    checks += [f"({place}) >= 0)", f"({place}) < {known_product(shape[dim:])})"]
                    low = high = 0
                shift = f" - {before}" if before else ""
                lines.append(f"place{dim} = {text}{shift}")
                whole.append(f"place{dim}" + (f" * {stride}" if stride != 1 else ""))
                if low + high:
                    checks += self._checks(dim, sums, low, high)
        lines.append(f"image_first = {' + '.join(whole) or '0'}")
        return lines, checks

    def _checks(self, dim: int, sums: Sequence[tuple[int, int]], low: int, high: int) -> list[str]:
        """Where a dimension of the image is not inside the zeros around it."""
        moved = self._moved(sums, "[None, :]" if self.few else "")
        place = f"(place{dim} + {moved})" if moved else f"place{dim}"
        checks = [f"({place} >= 0)"] if low else []
        return [*checks, f"({place} < {self.image[dim]})"] if high else checks

    def _moved(self, sums: Sequence[tuple[int, int]], shaped: str) -> str:
        """What the window adds to a dimension."""
        windows = self.loops.tap_loops
        return " + ".join(
            f"window{windows.index(loop)}{shaped}" + (f" * {factor}" if factor != 1 else "")
            for loop, factor in sums
            if loop in windows
        )

    def numbered(self, block: int, blocks: int) -> list[str]:
        """The lines that number the terms of a step: place in the window, and channels.

        Args:
          block: terms of a step.
          blocks: of the terms that are numbered together.
        """
        arange = f"tl.arange(0, {block})"
        windows, line = self.windows, self.line
        if line is not None:
            lines = [f"term = step * {block} + {arange}", f"along = term % {line.size}"]
            place = f"along - {line.lead}" if line.lead else "along"
            last = len(windows) - 1
            lines.append(f"window{last} = ({place}) // {self.channels}")
            lines.append(f"channel = ({place}) % {self.channels}")
            if line.size != line.inside:
                end = line.lead + line.inside
                lines.append(f"belongs = (along >= {line.lead}) & (along < {end})")
            windows, tap = windows[:-1], f"term // {line.size}"
        elif self.few:
            lines = [f"term = step * {block} + {arange}", f"channel = term % {self.channels}"]
            tap = f"term // {self.channels}" if self.channels != 1 else "term"
        else:
            start = f"step % {blocks} * {block} + " if blocks != 1 else ""
            lines = [f"term = {start}{arange}"]
            tap = f"step // {blocks}" if blocks != 1 else "step"
        return [*lines, *_numbered(tap, windows)]

    def in_image(self, shaped: str) -> str:
        """What a step adds to where the image of a row begins; `shaped` makes tiles of terms."""
        return self._offset(self.loops.image_dims, self.image, shaped)

    def in_filter(self, shaped: str) -> str:
        """The same of the filter of a column."""
        sums = tuple(
            () if loop is None or loop == self.loops.n_loop else ((loop, 1),)
            for loop in self._filter_loops
        )
        return self._offset(sums, self._filter, shaped)

    def begin(self, space: Space, axes: Mapping[int, Axis]) -> tuple[list[str], bool]:
        """The lines of `begin` of `hopper_products.products`, and whether a place may be outside.

        Args:
          space: the iteration space.
          axes: those of the loops of the rows.
        """
        lines, checks = self.places(space, axes)
        if not checks:
            return [*lines, "return image_first, 0"], False
        lines.append("inside = row * 0")
        for n, size in enumerate(self.windows):
            lines.append(f"{'    ' * n}for window{n} in gl.static_range({size}):")
        inner = [known_product(self.windows[n + 1 :]) for n in range(len(self.windows))]
        number = " + ".join(f"window{n} * {size}" for n, size in enumerate(inner))
        held = f"inside |= ({' & '.join(checks)}).to(gl.int32) << ({number})"
        lines.append("    " * len(self.windows) + held)
        return [*lines, "return image_first, inside"], True

    def at(self, block: int) -> list[str]:
        """The lines of its function `at`; blocks of terms are not few channels."""
        blocks = self.channels // block
        place = f"step // {blocks}"
        lines = [f"term = step % {blocks} * {block}", *_numbered(place, self.windows)]
        return [*lines, f"return {self.in_image('')}, {place}"]

    def at_element(self) -> list[str]:
        """The lines of the function `at` of `hopper_lines.lines`."""
        steps = {
            loop: known_product(self._filter[dim + 1 :])
            for dim, loop in enumerate(self._filter_loops)
        }
        one, other = (steps[loop] for loop in self.loops.tap_loops)
        channel = steps[self.loops.channel_loop]
        parts = [f"line * {one}", f"element // {self.channels} * {other}"]
        parts += [f"element % {self.channels} * {channel}", f"column * {steps[self.loops.n_loop]}"]
        return [f"return {' + '.join(parts)}"]

    def moves(self) -> tuple[int, ...]:
        """Pixels from the first place of a window to each of its places; channels lie last."""
        steps = [self._step(loop) for loop in self.loops.tap_loops]
        places = itertools.product(*map(range, self.windows))
        return tuple(sum(map(operator.mul, steps, place)) for place in places)

    def steps(self) -> list[int]:
        """Pixels from one index of each loop of the rows to the next."""
        return [self._step(loop) for loop in self.loops.m_loops]

    def _step(self, loop: int) -> int:
        return sum(
            factor * known_product(self.image[dim + 1 : -1])
            for dim, sums in enumerate(self.loops.image_dims)
            for other, factor in sums
            if other == loop
        )

    def strides(self) -> tuple[int, int] | None:
        """The strides of windows over images of height, width and channels; None of others."""
        loops = self.loops
        if len(loops.m_loops) != 3 or len(loops.tap_loops) != 2 or len(loops.image_dims) != 4:
            return None
        found = [
            factor
            for row, window, sums in zip(
                loops.m_loops[1:], loops.tap_loops, loops.image_dims[1:3], strict=True
            )
            for loop, factor in sums
            if loop == row and {*sums} == {(row, factor), (window, 1)}
        ]
        plain = loops.image_dims[0] == ((loops.m_loops[0], 1),) and self.padded[0] == (0, 0)
        return (found[0], found[1]) if plain and len(found) == 2 else None

    def _offset(
        self, dims: Sequence[Sequence[tuple[int, int]]], shape: Sequence[int | None], shaped: str
    ) -> str:
        """What a step adds to where the image or the filter begins."""
        found = []
        for dim, sums in enumerate(dims):
            stride = known_product(shape[dim + 1 :])
            if dims is self.loops.image_dims and self.line is not None and dim >= self.line.dim:
                found += ["along[None, :]"] if dim == self.line.dim else []
                continue
            for loop, factor in sums:
                if loop in self.loops.tap_loops:
                    name = f"window{self.loops.tap_loops.index(loop)}" + (
                        shaped if self.few else ""
                    )
                elif loop == self.loops.channel_loop:
                    name = ("channel" if self.few else "term") + shaped
                else:
                    continue
                number = stride * factor
                found.append(name if number == 1 else f"{name} * {number}")
        return " + ".join(found) or "0"


def _numbered(place: str, windows: Sequence[int]) -> list[str]:
    """The lines that number the place in the window along each of its dimensions."""
    lines = []
    inner = known_product(windows)
    for number, size in enumerate(windows):
        inner //= size
        text = place if inner == 1 else f"{place} // {inner}"
        lines.append(f"window{number} = {text}" + (f" % {size}" if number else ""))
    return lines
