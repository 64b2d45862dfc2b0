"""Addresses of filter taps in the image and the filter of an implicit GEMM.

K runs over taps and, inside a tap, over input channels. A block of K is part of one tap, so that
its taps are scalars; with few channels it is packed from several taps, which are then tiles. The
source that this module writes uses

    origin1, origin2        coordinates in the image of the first tap of each output pixel
    image_offset            offset of that element
    tap0, tap1              indices of the tap, one for each loop of taps
    step0, step1            their ordinals among the taps of a residue class
    offs_k, channel         elements of K; the input channel of packed ones
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from mlirfuse.kernels.codegen.iteration_space import Axis, Space, known_product
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.convolution.analysis import Analysis
from mlirfuse.kernels.convolution.problem import PACKED_CHANNELS
from mlirfuse.kernels.convolution.residues import Residues
from mlirfuse.structured.ir import ops

PAIR = 2
"""16-bit elements of the narrowest vectorized load, whose address is a multiple of 4 bytes."""


@dataclasses.dataclass(frozen=True, slots=True)
class TapRow:
    """Innermost taps with all their channels, contiguous in the image, that are loaded in pairs.

    Attributes:
      dim: dimension of the image that they extend along.
      skip: elements that are loaded before the first tap, so that it starts with a whole pair.
      elements: elements of all taps.
    """

    dim: int
    skip: int
    elements: int

    @property
    def loaded(self) -> int:
        """Elements that are loaded: whole pairs."""
        return -(-(self.skip + self.elements) // PAIR) * PAIR


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """The taps of one convolution.

    Attributes:
      analysis: the convolution.
      row: its innermost taps, where they are loaded in pairs.
      residues: the residue classes of a transposed convolution.
      apart: whether each channel of each tap is computed on its own, without blocks of K.
    """

    analysis: Analysis
    row: TapRow | None
    residues: Residues
    apart: bool = False

    @classmethod
    def of(cls, analysis: Analysis, *, apart: bool = False) -> Taps:
        """The taps of a convolution."""
        row = None if apart else _tap_row(analysis)
        return cls(analysis, row, Residues.of(analysis), apart)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Taps that are computed, along each loop of taps: of a class only its own."""
        sizes = list(self.analysis.taps)
        for residue in self.residues.dims.values():
            if residue.tap is not None:
                sizes[residue.tap] = residue.steps
        return tuple(sizes)

    @property
    def packed(self) -> bool:
        """Whether a block of K is packed from several taps."""
        return self.analysis.in_channels < PACKED_CHANNELS and not self.apart

    @property
    def k_span(self) -> int:
        """Elements of K that blocks divide: those of one tap, or all where they are packed."""
        if self.row is not None:
            return known_product(self.sizes[:-1]) * self.row.loaded
        channels = self.analysis.in_channels
        return known_product(self.sizes) * channels if self.packed else channels

    @property
    def k_spans(self) -> int:
        """Spans of K that are computed one after the other."""
        return 1 if self.packed else known_product(self.sizes)

    @property
    def class_sizes(self) -> list[str]:
        """Taps along each loop as source: of a class its own, which may be fewer than `sizes`."""
        found = [str(size) for size in self.sizes]
        for dim, residue in self.residues.dims.items():
            if not residue.divides and residue.tap is not None:
                found[residue.tap] = f"taps{dim}"
        return found

    @property
    def class_spans(self) -> str:
        """`k_spans` of the class of a CTA, as source."""
        if self.packed:
            return "1"
        alone = [
            f"taps{d}" for d, r in self.residues.dims.items() if r.tap is None and not r.divides
        ]
        return _product_text([*self.class_sizes, *alone])

    def write_origins(
        self,
        writer: Writer,
        space: Space,
        axes: Mapping[int, Axis],
        places: Mapping[int, str] | None = None,
    ) -> list[str]:
        """Writes `image_offset`, and the origins that it is made of.

        Args:
          writer: gets the lines.
          space: the iteration space.
          axes: loop of output pixels or groups -> its axis.
          places: loop that residue classes divide -> the name of its place in the class.

        Returns:
          The conditions under which a tap is inside the image, not in its padding.
        """
        loops, shape = self.analysis.loops, self.analysis.image_shape
        padded = not all(surround.is_empty for surround in self.analysis.surrounds)
        if not padded and all(len(dim) == 1 and dim[0][1] == 1 for dim in loops.image_dims):
            read = tuple(axes.get(dim[0][0]) for dim in loops.image_dims)
            writer.line(f"image_offset = {space.offset(shape, read)}")
            return []
        masks: list[str] = []
        offsets: list[str] = []
        for dim, (indices, surround) in enumerate(
            zip(loops.image_dims, self.analysis.surrounds, strict=True)
        ):
            low, high = surround.low, surround.high
            parts = [(axes[loop], factor) for loop, factor in indices if loop in axes]
            stride = known_product(shape[dim + 1 :])
            if not parts:
                continue
            if dim in self.residues.dims:
                place = (places or {})[self.residues.dims[dim].loop]
                writer.line(f"origin{dim} = {place} + base{dim}")
                masks += self._bounds(dim, indices, 1, 1)
                offsets.append(f"origin{dim}" + (f" * {stride}" if stride != 1 else ""))
                continue
            if self.row is not None and dim == self.row.dim:
                # The origin counts elements, for the taps and their channels together.
                parts = [(axis, factor * stride) for axis, factor in parts]
                before, stride = low * stride + self.row.skip, 1
                element = f"(origin{dim} + row_element[None, :]"
                masks += [f"({element}) >= 0)", f"({element}) < {known_product(shape[dim:])})"]
            else:
                before = low
                masks += self._bounds(dim, indices, low, high)
            shift = f" - {before}" if before else ""
            writer.line(f"origin{dim} = {space.linear_index(parts)}{shift}")
            offsets.append(f"origin{dim}" + (f" * {stride}" if stride != 1 else ""))
        writer.line(f"image_offset = {' + '.join(offsets) or '0'}")
        return masks

    def _bounds(
        self, dim: int, indices: Sequence[tuple[int, int]], low: int, high: int
    ) -> list[str]:
        """The conditions under which a tap is inside a dimension with such padding."""
        taps, suffix = self.analysis.loops.tap_loops, "[None, :]" if self.packed else ""
        terms = [self._step(taps.index(loop), factor) for loop, factor in indices if loop in taps]
        moved = " + ".join(
            f"{step}{suffix}" + (f" * {factor}" if factor != 1 else "") for step, factor in terms
        )
        coordinate = f"(origin{dim} + {moved})" if moved else f"origin{dim}"
        size = ops.shape(self.analysis.image)[dim]
        return [
            *([f"({coordinate} >= 0)"] if low else []),
            *([f"({coordinate} < {size})"] if high else []),
        ]

    def _step(self, tap: int, factor: int) -> tuple[str, int]:
        """The name of what moves a tap in the image, and its factor in elements of a dimension."""
        dim = self.residues.dim_of_tap(tap)
        if dim is None:
            return f"tap{tap}", factor
        return f"step{tap}", self.residues.dims[dim].move

    def loop_name(self, tap: int) -> str:
        """The name of the index of a loop of taps."""
        return self._step(tap, 1)[0]

    def write_k(self, writer: Writer, block_k: int) -> None:
        """Writes the elements of K of a block, and the taps and channels that they are.

        Args:
          writer: gets the lines, which read `k_block`, the index of the block.
          block_k: elements of a block.
        """
        arange = f"tl.arange(0, {block_k})"
        channels, row = self.analysis.in_channels, self.row
        taps: Sequence[object] = self.sizes if self.packed else self.class_sizes
        if row is not None:
            writer.line(f"offs_k = k_block * {block_k} + {arange}")
            writer.line(f"row_element = offs_k % {row.loaded}")
            element = f"row_element - {row.skip}" if row.skip else "row_element"
            writer.line(f"tap{len(taps) - 1} = ({element}) // {channels}")
            writer.line(f"channel = ({element}) % {channels}")
            if row.loaded != row.elements:
                end = row.skip + row.elements
                mask = f"(row_element >= {row.skip}) & (row_element < {end})"
                writer.line(f"mask_row = {mask}")
            taps, tap = taps[:-1], f"offs_k // {row.loaded}"
        elif self.packed:
            writer.line(f"offs_k = k_block * {block_k} + {arange}")
            writer.line(f"channel = offs_k % {channels}")
            tap = f"offs_k // {channels}" if channels != 1 else "offs_k"
        else:
            blocks = -(-channels // block_k)
            start = f"k_block % {blocks} * {block_k} + " if blocks != 1 else ""
            writer.line(f"offs_k = {start}{arange}")
            tap = f"k_block // {blocks}" if blocks != 1 else "k_block"
        write_tap_indices(writer, tap, taps, [self.loop_name(n) for n in range(len(taps))])
        self.write_class_taps(writer)

    def write_class_taps(self, writer: Writer) -> None:
        """Writes the indices of taps whose ordinals in their class are known."""
        for dim, residue in self.residues.dims.items():
            if residue.tap is not None:
                step = f"step{residue.tap} * {residue.period}"
                writer.line(f"tap{residue.tap} = first{dim} + {step}")

    def tap_masks(self, suffix: str, tile: str) -> list[str]:
        """The conditions under which a class has packed taps; none where only its own are computed.

        Args:
          suffix: makes a tile of their ordinals.
          tile: a tile that gives a condition on scalars its shape.
        """
        every = [True] * len(self.sizes)
        return self.residues.tap_masks(every, suffix, tile) if self.packed else []

    def image_offset(self, suffix: str) -> str:
        """The offset of a block of K from `image_offset`; `suffix` makes a tile of its elements."""
        loops = self.analysis.loops
        return self._offset(loops.image_dims, self.analysis.image_shape, suffix, self.row)

    def filter_offset(self, suffix: str) -> str:
        """The same from the filter of an output channel."""
        loops = self.analysis.loops
        indices = tuple(
            ((loop, 1),) if loop in (*loops.tap_loops, loops.channel_loop) else ()
            for loop in self.analysis.filter_loops
            if loop is not None
        )
        return self._offset(indices, self.analysis.filter_shape, suffix, moves=False)

    def _offset(
        self,
        dims: Sequence[Sequence[tuple[int, int]]],
        shape: Sequence[int | None],
        suffix: str,
        row: TapRow | None = None,
        *,
        moves: bool = True,
    ) -> str:
        """The offset of a block of K in a tensor whose dimensions these loops index.

        Args:
          dims: loops of each dimension, with their factors.
          shape: shape of the tensor.
          suffix: makes a tile of elements of K.
          row: taps that are addressed by their elements.
          moves: whether taps of a class move by their ordinals in it, as in the image.
        """
        loops, found = self.analysis.loops, []
        for dim, indices in enumerate(dims):
            stride = known_product(shape[dim + 1 :])
            if row is not None and dim >= row.dim:
                found += ["row_element[None, :]"] if dim == row.dim else []
                continue
            for loop, factor in indices:
                if loop in loops.tap_loops:
                    name = f"tap{loops.tap_loops.index(loop)}"
                    if moves:
                        name, factor = self._step(loops.tap_loops.index(loop), factor)
                    name += suffix if self.packed else ""
                elif loop == loops.channel_loop:
                    name = ("channel" if self.packed or self.apart else "offs_k") + suffix
                else:
                    continue
                distance = stride * factor
                found.append(name if distance == 1 else f"{name} * {distance}")
        return " + ".join(found) or "0"


def write_tap_indices(
    writer: Writer, tap: str, taps: Sequence[object], names: Sequence[str] = ()
) -> None:
    """Writes the indices of a tap.

    Args:
      writer: gets the lines.
      tap: its ordinal, an expression.
      taps: sizes of the loops of taps, numbers or names.
      names: names of the indices; `tap0` and so on where they are left out.
    """
    for index, size in enumerate(taps):
        inner = _product_text(taps[index + 1 :])
        text = tap if inner == "1" else f"{tap} // ({inner})"
        name = names[index] if names else f"tap{index}"
        writer.line(f"{name} = {text}" + (f" % {size}" if index else ""))


def _product_text(sizes: Sequence[object]) -> str:
    """The product of numbers and names, as source."""
    texts = [str(size) for size in sizes]
    known = math.prod(int(text) for text in texts if text.isdigit())
    named = [text for text in texts if not text.isdigit()]
    return " * ".join(([str(known)] if known != 1 or not named else []) + named)


def _tap_row(analysis: Analysis) -> TapRow | None:
    """The innermost taps, where their channels are odd in number and pairs of them are aligned.

    With an even number of channels each tap starts with a whole pair, which Triton infers itself.
    """
    loops, channels, shape = analysis.loops, analysis.in_channels, ops.shape(analysis.image)
    if channels >= PACKED_CHANNELS or channels % PAIR == 0 or len(loops.image_dims) < 2:
        return None
    if ops.element_bits(analysis.image) != 16:
        return None  # a single element is vectorized already
    dim = len(loops.image_dims) - 2
    indices = loops.image_dims[dim]
    if not analysis.channels_last or len(indices) != 2 or known_product(shape[dim:]) % PAIR:
        return None
    (_, stride), tap = sorted(indices, key=lambda part: part[0] in loops.tap_loops)
    if tap != (loops.tap_loops[-1], 1) or stride * channels % PAIR:
        return None
    surrounds = analysis.surrounds
    if analysis.groups or any(surround.stride != 1 for surround in surrounds):
        return None
    low = surrounds[dim].low
    return TapRow(dim, low * channels % PAIR, analysis.taps[-1] * channels)
