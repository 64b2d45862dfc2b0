"""Convolutions: what follows them elementwise, what scales their channels, how they slide."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops, slices, strided_access
from mlirfuse.structured.recognize import channels, epilogues

NAMED = (
    "linalg.conv_1d_ncw_fcw",
    "linalg.conv_1d_nwc_wcf",
    "linalg.conv_2d_nchw_fchw",
    "linalg.conv_2d_ngchw_fgchw",
    "linalg.conv_2d_ngchw_gfchw",
    "linalg.conv_2d_nhwc_fhwc",
    "linalg.conv_2d_nhwc_hwcf",
    "linalg.conv_3d_ncdhw_fcdhw",
    "linalg.conv_3d_ndhwc_dhwcf",
    "linalg.depthwise_conv_1d_ncw_cw",
    "linalg.depthwise_conv_1d_nwc_wc",
    "linalg.depthwise_conv_2d_nchw_chw",
    "linalg.depthwise_conv_2d_nhwc_hwc",
)
"""Convolutions as linalg names them; IREE's global optimization makes generics of them."""

ROOTS = ("linalg.generic", *NAMED)
"""Names of the ops at which passes look for a convolution."""


def is_convolution(op: ir.Operation) -> bool:
    """Whether the op slides a filter over an input: products summed over a window.

    Any layout, stride, dilation and grouping; one of the inputs is read at sums of loops.
    """
    if op.name in NAMED:
        return True
    if not ops.is_generic(op) or ops.num_inputs(op) != 2 or len(op.results) != 1:
        return False
    if "reduction" not in ops.iterator_types(op) or not ops.multiplies_and_adds(op):
        return False
    windows = [m is None for m in ops.indexing_maps(op)]
    return windows == [True, False, False]


@dataclasses.dataclass(frozen=True, slots=True)
class Epilogue:
    """What is around a convolution and can be generated with it.

    Attributes:
      start: the broadcast that the sums start from; before it the reshape that splits its groups.
      convolution: the convolution.
      merged: the reshape that merges groups and their channels behind it, or None.
      chain: the elementwise ops behind, with the broadcasts that they read, in block order.
    """

    start: tuple[ir.Operation, ...]
    convolution: ir.Operation
    merged: ir.Operation | None
    chain: tuple[ir.Operation, ...]

    @property
    def ops(self) -> list[ir.Operation]:
        """All of it, in block order."""
        merged = [] if self.merged is None else [self.merged]
        return slices.in_order({*self.start, self.convolution, *merged, *self.chain})

    def unmerges(self) -> bool:
        """Whether the chain can be computed before the reshape: every op is on its own loops."""
        return self.merged is None or epilogues.reads_in_place(
            list(self.chain), set(self.merged.results), len(ops.shape(self.merged.results[0]))
        )


def with_epilogue(convolution: ir.Operation, max_operands: int) -> Epilogue | None:
    """The convolution and the elementwise ops behind it that can be generated with it.

    None when no elementwise op is, or when the values in between are read elsewhere.
    """
    merged = _merged(convolution)
    chain = epilogues.epilogue(merged or convolution, max_operands)
    if not chain:
        return None
    ordered = slices.in_order({*_broadcasts(chain), *chain})
    return Epilogue(tuple(_start(convolution)), convolution, merged, tuple(ordered))


def is_read_elementwise(convolution: ir.Operation) -> bool:
    """Whether some reader of the convolution is elementwise."""
    merged = _merged(convolution)
    value = (merged or convolution).results[0]
    return any(ops.is_elementwise(user) for user in ops.users(value))


def _merged(convolution: ir.Operation) -> ir.Operation | None:
    """The reshape that merges groups and their channels and is all that reads the convolution."""
    users = ops.users(convolution.results[0])
    merges = len(users) == 1 and users[0].name == "tensor.collapse_shape"
    return users[0] if merges and users[0].block == convolution.block else None


def _start(convolution: ir.Operation) -> list[ir.Operation]:
    """The broadcast that the sums start from, behind the reshape that splits its channels."""
    op = ops.defining_op(convolution.operands[2])
    splits: list[ir.Operation] = []
    if op is not None and op.block == convolution.block and op.name == "tensor.expand_shape":
        if ops.users(op.results[0]) != [convolution]:
            return []
        splits, op = [op], ops.defining_op(op.operands[0])
    if op is None or not _is_broadcast(op, convolution):
        return []
    return [*splits, op]


def _broadcasts(chain: list[ir.Operation]) -> list[ir.Operation]:
    return [
        op
        for reader in chain
        for value in ops.inputs(reader)
        if (op := ops.defining_op(value)) is not None and _is_broadcast(op, reader)
    ]


def _is_broadcast(op: ir.Operation, reader: ir.Operation) -> bool:
    if not ops.is_projection(op) or op.block != reader.block or ops.in_region(op):
        return False
    if None in ops.indexing_maps(op) or ops.indexing_maps(op)[1] != tuple(
        range(len(ops.shape(op.results[0])))
    ):
        return False
    return len(ops.shape(op.operands[0])) < len(ops.shape(op.results[0]))


def with_channels(group: list[ir.Operation], max_operands: int) -> list[ir.Operation]:
    """The group and the ops on one number per channel that only it reads, in block order.

    As long as the dispatch takes no more than `max_operands` operands and results.
    """
    found = True
    while found:
        found = False
        for value in slices.operands_of(group):
            op = ops.defining_op(value)
            if op is None or not _is_per_channel(op, group):
                continue
            larger = slices.in_order([op, *group])
            if slices.check(larger, max_operands) is None:
                group, found = larger, True
                break
    return group


def _is_per_channel(op: ir.Operation, group: list[ir.Operation]) -> bool:
    if op.block != group[0].block or not ops.is_elementwise(op) or len(op.results) != 1:
        return False
    return len(ops.shape(op.results[0])) == 1 and all(
        user in group for user in ops.users(op.results[0])
    )


# --- scaled channels ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Scaled:
    """A convolution or contraction whose channels are scaled and shifted by constants.

    Attributes:
      root: the convolution or contraction.
      filter: number of the operand that is its filter.
      loops: those of the root that the channels are, outermost first.
      merged: the reshape that merges several of them behind the root, or None.
      axis: the channels' dimension in what the steps read.
      steps: what is done to the channels, in order; nothing else reads what is in between.
    """

    root: ir.Operation
    filter: int
    loops: tuple[int, ...]
    merged: ir.Operation | None
    axis: int
    steps: tuple[channels.Step, ...]


def scaled(root: ir.Operation) -> Scaled | NoMatch | None:
    """Finds the constant scales and shifts of the channels behind a convolution or contraction."""
    if not is_convolution(root) and not (ops.is_contraction(root) and ops.is_generic(root)):
        return None
    merged = _merged(root)
    value = (merged or root).results[0]
    axis: int | None = None
    steps: list[channels.Step] = []
    outside = False
    while True:
        readers = ops.users(value)
        found = next((f for r in readers if (f := channels.step(r, value, axis)) is not None), None)
        if found is None or not ops.is_constant_data(found[1].vector):
            break
        if len(readers) > 1 or readers[0].block != root.block:
            outside = True
            break
        axis = found[0]
        steps.append(found[1])
        value = found[1].op.results[0]
    if outside and not any(step.scales for step in steps):
        return NoMatch(Reason.EXTRA_USERS, "the unscaled channels are read elsewhere too")
    if axis is None or not any(step.scales for step in steps):
        return None
    out = ops.indexing_maps(root)[2] or tuple(range(len(ops.shape(root.results[0]))))
    groups = [(d,) for d in range(len(out))] if merged is None else ops.reassociation(merged)
    loops = tuple(loop for d in groups[axis] if (loop := out[d]) is not None)
    number = _filter(root, loops)
    if isinstance(number, NoMatch):
        return number
    return Scaled(root, number, loops, merged, axis, tuple(steps))


def _filter(root: ir.Operation, loops: tuple[int, ...]) -> int | NoMatch:
    """Which constant operand has all the channels' loops and no other of the result."""
    maps = ops.indexing_maps(root)
    kinds = ops.iterator_types(root)
    for number in (1,) if is_convolution(root) else (1, 0):
        index_map = maps[number] if number < len(maps) else None
        if index_map is None or constant_root(root.operands[number]) is None:
            continue
        own = {d for d in index_map if d is not None and kinds[d] == "parallel"}
        if own == set(loops):
            return number
    return NoMatch(Reason.CONSTANT_UNVERIFIED, "no constant filter has the scaled channels")


def constant_root(value: ir.Value) -> ir.Value | None:
    """The constant data that the value is, or is a reshape of; None for anything else."""
    root = ops.strip_views(value, ops.RESHAPES)
    return root if ops.is_constant_data(root) else None


# --- windows --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Sliding:
    """What the loops of a convolution, or of a product of an image and a filter, are.

    Attributes:
      image: number of the operand that is the image.
      filter: number of the operand that is the filter.
      rows: the loops of the image and the result, in the result's order: batch, places.
      column: the loop of the filter and the result: output channels.
      windows: the loops of the filter and the image's sums, in the filter's order.
      channel: the loop of both that is summed; None where there is but one channel.
      terms: for each dimension of the image the loops that it adds up, with their factors.
    """

    image: int
    filter: int
    rows: tuple[int, ...]
    column: int
    windows: tuple[int, ...]
    channel: int | None
    terms: tuple[tuple[tuple[int, int], ...], ...]


def sliding(op: ir.Operation) -> Sliding | str | None:
    """Sorts the loops of an image times a filter; what is in the way, or None for another op.

    A contraction counts where its image has several loops of its own: a 1x1 convolution.
    """
    if is_convolution(op):
        image = 0
    elif ops.is_contraction(op) and ops.is_generic(op):
        own = [_own(op, number) for number in range(2)]
        image = 0 if len(own[0]) >= len(own[1]) else 1
        if len(own[image]) < 2 or len(own[1 - image]) != 1:
            return None
    else:
        return None
    number = 1 - image
    terms = strided_access.strided_loops(op, image)
    out, weight = (ops.indexing_maps(op)[n] for n in (2, number))
    if terms is None or out is None or weight is None or None in (*out, *weight):
        return f"an indexing map of {op.name}"
    kinds = ops.iterator_types(op)
    read = {loop for sums in terms for loop, _ in sums}
    loops = [d for d in out if d is not None]
    columns = [d for d in loops if d in weight and d not in read]
    summed = [d for d in weight if d is not None and kinds[d] == "reduction"]
    alone = [sums[0][0] for sums in terms if len(sums) == 1]
    channels = [d for d in summed if d in alone]
    if any(d in weight and d in read for d in loops):
        return "a grouped convolution"
    if len(columns) != 1 or any(d not in read for d in summed) or len(channels) > 1:
        return "a convolution without one loop each of output channels and channels"
    if any(d not in (*loops, *summed) for d in read):
        return "a sum over what the filter has no loop of"
    return Sliding(
        image,
        number,
        tuple(d for d in loops if d in read),
        columns[0],
        tuple(d for d in summed if d not in channels),
        channels[0] if channels else None,
        terms,
    )


def _own(op: ir.Operation, number: int) -> set[int | None]:
    """The loops of an operand that only the result has too."""
    maps = ops.plain_maps(op)
    return set(maps[number]) & set(maps[2]) - set(maps[1 - number])
