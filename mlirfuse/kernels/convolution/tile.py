"""A tile of the implicit GEMM: iteration space, axes of all ops, epilogue on the accumulator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import HIDING, WIDE
from mlirfuse.kernels.codegen.iteration_space import Axis, Group, Space, loop_axes
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.convolution.analysis import Analysis
from mlirfuse.kernels.convolution.positions import is_exact
from mlirfuse.kernels.convolution.problem import ConvolutionConfig
from mlirfuse.kernels.convolution.residues import Residues
from mlirfuse.structured.ir import ops

ENTRY = "conv_kernel"

M, N, GROUPS = 0, 1, 2
"""Groups of the iteration space: output pixels, output channels, groups of channels."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """The tile of a CTA and the lines that compute it.

    Attributes:
      analysis: the convolution.
      config: its configuration.
      tiles: writes the lines.
      axes: loop of an output pixel or channel -> its axis.
      image: name of the pointer to the image.
      filter: the same of the filter.
    """

    analysis: Analysis
    config: ConvolutionConfig
    tiles: Tiles
    axes: Mapping[int, Axis]
    image: str
    filter: str

    @property
    def space(self) -> Space:
        """The iteration space."""
        return self.tiles.space

    @property
    def note(self) -> str:
        """The kernel's docstring."""
        taps = "x".join(str(size) for size in self.analysis.taps) or "1x1"
        size = f"{self.config.block_m} by {self.config.block_n}"
        return f"Convolution of {taps} over {self.analysis.in_channels} channels, tiles of {size}."

    def write_outputs(self) -> None:
        """Writes the epilogue of a GEMM; without output channels `accumulator0` is one column."""
        if self.analysis.loops.n_loop is None:
            # The other columns are products with zeros: NaN where the image is infinite.
            first = f"tl.where({self.space.groups[N].mask}, accumulator0, 0.0)"
            self.tiles.body.writer.line(f"accumulator0 = tl.sum({first}, 1, keep_dims=True)")
        self.write_epilogue()

    def write_epilogue(self) -> None:
        """Writes the ops around `accumulator0`, and the stores of the results."""
        analysis, tiles = self.analysis, self.tiles
        for op in analysis.channel_ops:
            tiles.elementwise(op)
        if ops.constant(analysis.init) != 0:
            start = tiles.read(analysis.init, _result_axes(analysis, self.axes))
            tiles.body.writer.line(f"accumulator0 = accumulator0 + {start}")
        tiles.define(analysis.op.results[0], "accumulator0")
        for op in analysis.epilogue:
            tiles.elementwise(op)
        for index, value in enumerate(analysis.results):
            tiles.store(f"y{index}", value, tiles.written_axes(value))


def tile_of(analysis: Analysis, config: ConvolutionConfig, layout: str = "") -> Tile:
    """The tile of a convolution, of which nothing is written yet.

    Args:
      analysis: the convolution.
      config: its configuration.
      layout: name of the layout of tiles, in Gluon.

    Raises:
      Conflict: the ops of the region do not share the loops of the convolution.
    """
    loops = analysis.loops
    exact = is_exact(analysis.pixels, position_strides(analysis), config.block_m)
    space = Space(
        (
            Group("offs_m", analysis.pixels, "" if exact else "mask_m"),
            Group(
                "offs_n",
                (analysis.out_channels,),
                "mask_n" if analysis.out_channels % config.block_n else "",
            ),
            Group("group" if analysis.groups else "", analysis.groups),
        )
    )
    axes: dict[int, Axis] = {loop: (M, index) for index, loop in enumerate(loops.m_loops)}
    axes |= {loop: (GROUPS, index) for index, loop in enumerate(loops.group_loops)}
    if loops.n_loop is not None:
        axes[loops.n_loop] = (N, 0)
    return tile_in(analysis, config, space, axes, layout)


def tile_in(
    analysis: Analysis,
    config: ConvolutionConfig,
    space: Space,
    axes: Mapping[int, Axis],
    layout: str = "",
) -> Tile:
    """The tile of a convolution in an iteration space, of which nothing is written yet.

    Args:
      analysis: the convolution.
      config: its configuration.
      space: the iteration space.
      axes: loop of an output pixel, channel or group -> its axis.
      layout: name of the layout of tiles, in Gluon.

    Raises:
      Conflict: the ops of the region do not share the loops of the convolution.
    """
    loops = analysis.loops
    main = _result_axes(analysis, axes)
    named: dict[ir.Operation, Sequence[Axis]] = {
        # Loops of K have no axis: none of the ops that are written reads them.
        analysis.op: [axes.get(loop, (M, 0)) for loop in range(len(ops.loop_sizes(analysis.op)))]
    }
    around = [*analysis.channel_ops, *analysis.epilogue]
    written = {analysis.op.results[0]: main, analysis.init: main}
    named.update(loop_axes(space, around, main, written=written))
    short = all(ops.element_type(v) in HIDING for v in analysis.results)
    tiles = Tiles(space, named, WIDE, short=short, layout=layout)
    tiles.body.large = True
    tiles.axes[analysis.image] = tuple(
        axes.get(indices[0][0]) if len(indices) == 1 else None for indices in loops.image_dims
    )
    image, weight = (
        tiles.pointer(value) if copy is None else copy.name
        for value, copy in (
            (analysis.image, analysis.image_copy),
            (analysis.filter, analysis.filter_copy),
        )
    )
    return Tile(analysis, config, tiles, axes, image, weight)


def position_strides(analysis: Analysis) -> dict[int, tuple[int, str]]:
    """Axis of the output pixels -> the stride of a residue class, and the name of its residue."""
    m_loops = analysis.loops.m_loops
    return {m_loops.index(loop): s for loop, s in Residues.of(analysis).strides().items()}


def _result_axes(analysis: Analysis, axes: Mapping[int, Axis]) -> tuple[Axis, ...]:
    """The axes of the dimensions of the convolution's result."""
    out = ops.indexing_maps(analysis.op)[2] or ()
    return tuple(axes[loop] for loop in out if loop is not None)
