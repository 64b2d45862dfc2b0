"""Analysis of regions around one convolution: operands, roles of its loops, padding, epilogue.

    analysis = analyze(region)            Analysis, or the refusal; None without a convolution
    problem = problem_of(analysis)        sizes and traits that a configuration is chosen by

Loops of a convolution as an implicit GEMM: M are the output pixels, N the output channels, K the
filter taps and the input channels. The image of a transposed convolution is spread: it has zeros
between its elements, too, which no kernel reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.iteration_space import known_product
from mlirfuse.kernels.codegen.tile_writer import computing, padding_and_elementwise, returned
from mlirfuse.kernels.convolution.problem import PACKED_CHANNELS, ConvolutionProblem
from mlirfuse.kernels.matmul.aligned_copies import AlignedCopy, is_copyable
from mlirfuse.kernels.matmul.cost_model import vector_bytes
from mlirfuse.kernels.matmul.persistent_sm90 import BLOCK_K
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolution_loops, spread_images
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops
from mlirfuse.structured.recognize.spread_images import Surround

ELEMENT_TYPES = frozenset({"f16", "bf16", "f32"})
"""Element types of images and filters."""

_PADDINGS = ("tensor.pad", "tensor.insert_slice")
"""Names of ops that put zeros around an image, or between its elements."""

Classify = Callable[[ir.Operation], ConvolutionLoops | str | None]
"""Classifies the loops of an op; a text says why they cannot be, None that it is another op."""

UNKNOWN_IMAGES = 512
"""The number that dynamic images count as, where a configuration is chosen."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """A region around one convolution.

    Attributes:
      op: the convolution.
      loops: roles of its loops: M are output pixels, N output channels.
      filter_loops: dimension of the filter -> its loop.
      image: the images, before padding.
      filter: the filter.
      surrounds: zeros around and between the elements of the image, by dimension.
      pixels: sizes of the loops of output pixels; the first may be dynamic.
      groups: sizes of the loops over groups of channels.
      out_channels: output channels of a group.
      in_channels: input channels of a group.
      taps: sizes of the loops of taps.
      channel_ops: elementwise ops of the region that do not depend on the convolution, such as the
        scales of a batch norm.
      epilogue: elementwise ops that depend on it; both in block order.
      results: values of the region that are its results.
      filter_copy: the copy of the filter that the kernel reads in its place; None for none.
      image_copy: the same of the image, whose pixels have zeros behind their channels.
    """

    op: ir.Operation
    loops: ConvolutionLoops
    filter_loops: tuple[int | None, ...]
    image: ir.Value
    filter: ir.Value
    surrounds: tuple[Surround, ...]
    pixels: tuple[int | None, ...]
    groups: tuple[int, ...]
    out_channels: int
    in_channels: int
    taps: tuple[int, ...]
    channel_ops: tuple[ir.Operation, ...]
    epilogue: tuple[ir.Operation, ...]
    results: tuple[ir.Value, ...]
    filter_copy: AlignedCopy | None = None
    image_copy: AlignedCopy | None = None

    @property
    def image_shape(self) -> tuple[int | None, ...]:
        """Shape of the image as the kernel reads it."""
        return self.image_copy.shape if self.image_copy else tuple(ops.shape(self.image))

    @property
    def filter_shape(self) -> tuple[int | None, ...]:
        """Shape of the filter as the kernel reads it."""
        return self.filter_copy.shape if self.filter_copy else tuple(ops.shape(self.filter))

    @property
    def filter_has_channel_rows(self) -> bool:
        """Whether the input channels are the innermost dimension of the filter."""
        channel = self.loops.channel_loop
        return channel is not None and self.filter_loops[-1] == channel

    @property
    def init(self) -> ir.Value:
        """The tensor that the accumulators start from."""
        return ops.inits(self.op)[0]

    @property
    def channels_last(self) -> bool:
        """Whether the input channels are the innermost dimension of the image."""
        channel = self.loops.channel_loop
        return channel is not None and self.loops.image_dims[-1] == ((channel, 1),)

    @property
    def slides(self) -> bool:
        """Whether taps move along the innermost dimension of the image."""
        return not {loop for loop, _ in self.loops.image_dims[-1]}.isdisjoint(self.loops.tap_loops)

    @property
    def is_of_single_outputs(self) -> bool:
        """Whether each group has one output channel, or all channels have one and are not last."""
        return self.out_channels == 1 and not (self.channels_last and not self.groups)

    @property
    def overlap(self) -> Overlap | None:
        """Where taps of adjacent outputs of groups of one output channel overlap.

        The innermost dimension of the image is left out, whose elements other threads load.
        """
        m_loops, tap_loops = self.loops.m_loops, self.loops.tap_loops
        if not self.is_of_single_outputs or self.is_dynamic:
            return None
        if any(surround.stride != 1 for surround in self.surrounds):
            return None
        for dim, indices in enumerate(self.loops.image_dims[:-1]):
            outputs = [(loop, factor) for loop, factor in indices if loop in m_loops]
            taps = [(tap_loops.index(loop), f) for loop, f in indices if loop in tap_loops]
            if len(outputs) != 1 or len(taps) != 1:
                continue
            (loop, stride), (tap, dilation) = outputs[0], taps[0]
            if stride % dilation == 0 and stride // dilation < self.taps[tap]:
                return Overlap(dim, loop, tap, stride // dilation, dilation)
        return None

    @property
    def is_dynamic(self) -> bool:
        """Whether the number of images is dynamic."""
        return self.pixels[:1] == (None,)

    @property
    def max_elements(self) -> int:
        """Elements of the largest tensor, dynamic dimensions left out."""
        return max(ops.num_elements(v) for v in (self.image, self.filter, *self.results))


@dataclasses.dataclass(frozen=True, slots=True)
class Overlap:
    """A dimension of the image along which taps of adjacent outputs read the same elements.

    Attributes:
      dim: the dimension.
      loop: loop of the outputs along it.
      tap: index of the loop of the taps along it.
      move: taps from one output to the next.
      dilation: elements from one tap to the next.
    """

    dim: int
    loop: int
    tap: int
    move: int
    dilation: int


Takes = Callable[[ir.Operation], bool]
"""Whether a convolution has element types that kernels have beyond those of `ELEMENT_TYPES`."""


def _no_others(op: ir.Operation) -> bool:
    return False


def is_supported(
    op: ir.Operation, classify: Classify = convolution_loops.classify, takes: Takes = _no_others
) -> bool:
    """Whether an op alone is a convolution with element types and loops that kernels have."""
    found = classify(op)
    if not isinstance(found, ConvolutionLoops):
        return False
    if _element_type_refusal(op) is not None and not takes(op):
        return False
    sizes = ops.loop_sizes(op)
    return None not in [size for loop, size in enumerate(sizes) if loop not in found.m_loops[:1]]


def analyze(
    region: ir.Operation, classify: Classify = convolution_loops.classify, takes: Takes = _no_others
) -> Analysis | NoMatch | None:
    """Analyzes a region around one convolution; None for another kind of region.

    Args:
      region: a `flow.dispatch.region`.
      classify: classifies the loops of an op.
      takes: whether a convolution has further element types that kernels have.
    """
    group = computing(region)
    found = [(op, s) for op in group if (s := classify(op)) is not None]
    if not found:
        return None
    if len(found) > 1:
        return NoMatch(Reason.STRUCTURE, f"{len(found)} convolutions in one kernel")
    op, loops = found[0]
    if isinstance(loops, str):
        return _cannot_compute(loops)
    found_ops = padding_and_elementwise(group, op, op.operands[loops.image], _PADDINGS)
    if isinstance(found_ops, NoMatch):
        return found_ops
    pad, elementwise = found_ops
    refusal = _element_type_refusal(op)
    if refusal is not None and not takes(op):
        return refusal
    image = op.operands[loops.image] if pad is None else pad.operands[0]
    weight = op.operands[loops.filter]
    if any(ops.in_region(o) for v in (image, weight) if (o := ops.defining_op(v))):
        return _cannot_compute("an image or filter that the group computes")
    surrounds = _surrounds(pad, image, loops)
    if isinstance(surrounds, NoMatch):
        return surrounds
    sizes = ops.loop_sizes(op)
    pixels = tuple(sizes[loop] for loop in loops.m_loops)
    groups = tuple(size for loop in loops.group_loops if (size := sizes[loop]) is not None)
    out_channels = 1 if loops.n_loop is None else sizes[loops.n_loop]
    in_channels = 1 if loops.channel_loop is None else sizes[loops.channel_loop]
    taps = tuple(size for loop in loops.tap_loops if (size := sizes[loop]) is not None)
    if (
        out_channels is None
        or in_channels is None
        or None in pixels[1:]
        or len(taps) != len(loops.tap_loops)
        or len(groups) != len(loops.group_loops)
    ):
        return NoMatch(Reason.DYNAMIC_SHAPE, "only the number of images may be dynamic")
    dependent = _dependent(group, op)
    return Analysis(
        op=op,
        loops=loops,
        filter_loops=tuple(ops.indexing_maps(op)[loops.filter] or ()),
        image=image,
        filter=weight,
        surrounds=surrounds,
        pixels=pixels,
        groups=groups,
        out_channels=out_channels,
        in_channels=in_channels,
        taps=taps,
        channel_ops=tuple(o for o in elementwise if o not in dependent),
        epilogue=tuple(o for o in elementwise if o in dependent),
        results=tuple(returned(region)),
    )


def problem_of(analysis: Analysis) -> ConvolutionProblem:
    """Sizes and traits that the configuration of a convolution is chosen by."""
    loops = analysis.loops
    images = UNKNOWN_IMAGES if analysis.is_dynamic else 1
    in_order = analysis.filter_loops == (loops.n_loop, *loops.tap_loops, loops.channel_loop)
    spread = any(surround.stride != 1 for surround in analysis.surrounds)
    return ConvolutionProblem(
        images * known_product(analysis.pixels),
        analysis.out_channels,
        analysis.in_channels,
        known_product(analysis.taps),
        channels_last=analysis.channels_last,
        k_contiguous=analysis.channels_last
        and in_order
        and not spread
        and analysis.in_channels % BLOCK_K == 0,
        operand_bits=ops.element_bits(analysis.image),
        groups=known_product(analysis.groups),
        narrow_filter=analysis.filter_has_channel_rows and _is_narrow(analysis, analysis.filter),
        narrow_image=analysis.channels_last
        and not analysis.groups
        and _is_narrow(analysis, analysis.image),
        slides=(bool(analysis.groups) or analysis.is_of_single_outputs) and analysis.slides,
        overlapping_taps=_overlapping_taps(analysis),
    )


def _overlapping_taps(analysis: Analysis) -> int:
    """Outputs along that dimension that read an element; 1 where there is no such dimension."""
    overlap = analysis.overlap
    return 1 if overlap is None else analysis.taps[overlap.tap] // overlap.move


def problem_alone(
    op: ir.Operation, loops: ConvolutionLoops, surrounds: Sequence[Surround] = ()
) -> ConvolutionProblem | None:
    """The problem of a convolution without what may be fused with it; None for dynamic sizes.

    Args:
      op: the convolution.
      loops: its loops.
      surrounds: zeros around and between the elements of its image, by dimension.
    """
    sizes = [size for size in ops.loop_sizes(op) if size is not None]
    if len(sizes) != len(ops.loop_sizes(op)):
        return None
    channels, taps = loops.channel_loop, known_product([sizes[n] for n in loops.tap_loops])
    return ConvolutionProblem(
        known_product([sizes[n] for n in loops.m_loops]),
        1 if loops.n_loop is None else sizes[loops.n_loop],
        1 if channels is None else sizes[channels],
        # An output of a transposed convolution reads the taps of one residue class of its strides.
        -(-taps // known_product([surround.stride for surround in surrounds])),
        channels_last=channels is not None and loops.image_dims[-1] == ((channels, 1),),
        k_contiguous=False,
        operand_bits=ops.element_bits(op.operands[loops.image]),
        groups=known_product([sizes[n] for n in loops.group_loops]),
    )


def _is_narrow(analysis: Analysis, value: ir.Value) -> bool:
    """Whether an operand, whose rows are input channels, has rows that a copy would align."""
    return (
        analysis.in_channels >= PACKED_CHANNELS
        and vector_bytes(analysis.in_channels, ops.element_bits(value)) < VECTOR_BYTES
        and is_copyable(value)
    )


def _surrounds(
    pad: ir.Operation | None, image: ir.Value, loops: ConvolutionLoops
) -> tuple[Surround, ...] | NoMatch:
    """The zeros around an image and between its elements, or the refusal of others."""
    shape = ops.shape(image)
    if pad is None:
        return (Surround(),) * len(shape)
    found = spread_images.surrounds(pad)
    if found is None:
        return _cannot_compute("a padding that is not of zeros, and static")
    return refused_surround(found, shape, loops) or found


def refused_surround(
    found: Sequence[Surround], shape: Sequence[int | None], loops: ConvolutionLoops
) -> NoMatch | None:
    """The refusal of zeros around an image that kernels cannot leave out; None where they can.

    Args:
      found: the zeros, by dimension.
      shape: shape of the image without them.
      loops: the loops of the convolution.
    """
    for surround, size, indices in zip(found, shape, loops.image_dims, strict=True):
        if surround.is_empty:
            continue
        alone = len(indices) == 1 and indices[0][0] in (loops.channel_loop, *loops.group_loops)
        if size is None or alone:
            return _cannot_compute("a padding of channels or of a dynamic dimension")
        positions = [factor for loop, factor in indices if loop in loops.m_loops]
        if surround.stride != 1 and positions != [1]:
            return _cannot_compute("zeros between the elements of an image with strides")
    return None


def _dependent(group: Sequence[ir.Operation], op: ir.Operation) -> set[ir.Operation]:
    """The ops of a group that depend on one of them, and the op itself."""
    found = {op}
    for other in group:
        if any(ops.defining_op(v) in found for v in other.operands):
            found.add(other)
    return found


def _element_type_refusal(op: ir.Operation) -> NoMatch | None:
    """The refusal of element types that have no kernel."""
    kinds = {ops.element_type(v) for v in ops.inputs(op)}
    out = ops.element_type(op.results[0])
    if len(kinds) == 1 and kinds <= ELEMENT_TYPES and out in (*kinds, "f32"):
        return None
    kind = f"{' times '.join(sorted(kinds))} to {out}"
    return NoMatch(Reason.ELEMENT_TYPE, f"a convolution of {kind}")


def _cannot_compute(obstacle: str) -> NoMatch:
    return NoMatch(Reason.STRUCTURE, f"the kernel cannot compute {obstacle}")
