"""Convolutions: their epilogues, and constant scales and shifts of their channels."""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops, slices
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
    "linalg.depthwise_conv_3d_ncdhw_cdhw",
    "linalg.depthwise_conv_3d_ndhwc_dhwc",
)
"""Named convolutions of linalg; IREE's global optimization turns them into `linalg.generic`."""

ROOTS = ("linalg.generic", *NAMED)
"""Names of the ops at which passes look for a convolution."""


def is_convolution(op: ir.Operation) -> bool:
    """Whether the op is a convolution of any layout, stride, dilation and grouping.

    A generic is one if it multiplies and accumulates, and reads its first input at sums of loops.
    """
    if op.name in NAMED:
        return True
    if not ops.is_generic(op) or ops.num_inputs(op) != 2 or len(op.results) != 1:
        return False
    if "reduction" not in ops.iterator_types(op) or not ops.multiplies_and_adds(op):
        return False
    return [m is None for m in ops.indexing_maps(op)] == [True, False, False]


def name_convolutions(module: ir.Module) -> bool:
    """Names the locations of f32 convolutions, which IREE may make contractions.

    Returns:
      Whether there are any.
    """
    found = [
        op
        for function in ops.functions(module)
        for block in ops.blocks(function)
        for view in block.operations
        if (op := view.operation).name in NAMED and ops.element_type(op.operands[0]) == "f32"
    ]
    for op in found:
        op.location = ir.Location.name(ops.CONVOLUTION_NAME, op.location)
    return bool(found)


UNKNOWN_SIZE = 512
"""The size of a dynamic dimension, where operations are counted."""


def operations(op: ir.Operation) -> int:
    """Twice the multiply-adds of a convolution or contraction."""
    return 2 * math.prod(size or UNKNOWN_SIZE for size in ops.loop_sizes(op))


def is_from_convolution(op: ir.Operation) -> bool:
    """Whether the op is a convolution, or a contraction that `name_convolutions` saw as one."""
    return is_convolution(op) or ops.is_named(op.location, ops.CONVOLUTION_NAME)


@dataclasses.dataclass(frozen=True, slots=True)
class Epilogue:
    """A convolution and the ops that can be fused with it.

    Attributes:
      init: the broadcast that initializes the accumulators, with the expand of its channels to
        groups if there is one.
      convolution: the convolution.
      merged: the collapse of groups and their channels after it, or None.
      chain: the elementwise epilogue with the broadcasts that it reads, in block order.
    """

    init: tuple[ir.Operation, ...]
    convolution: ir.Operation
    merged: ir.Operation | None
    chain: tuple[ir.Operation, ...]

    @property
    def ops(self) -> list[ir.Operation]:
        """All of it, in block order."""
        merged = [] if self.merged is None else [self.merged]
        return slices.in_order({*self.init, self.convolution, *merged, *self.chain})

    def unmerges(self) -> bool:
        """Whether the epilogue can be computed before the collapse: ops read at their own loops."""
        return self.merged is None or epilogues.reads_in_place(
            list(self.chain), set(self.merged.results), len(ops.shape(self.merged.results[0]))
        )


def with_epilogue(
    convolution: ir.Operation, max_operands: int, *, permutes: bool = False
) -> Epilogue | None:
    """The convolution with the elementwise epilogue that can be fused with it.

    None without an elementwise user, or when an intermediate value has outside users. `permutes` is
    that of `epilogues.epilogue`.
    """
    merged = _merged(convolution)
    chain = epilogues.epilogue(merged or convolution, max_operands, permutes=permutes)
    if not chain:
        return None
    ordered = slices.in_order({*_broadcasts(chain), *chain})
    if merged is None:
        ordered = epilogues.with_producers([convolution, *ordered], max_operands)
        ordered.remove(convolution)
    return Epilogue(tuple(initial_broadcast(convolution)), convolution, merged, tuple(ordered))


def has_elementwise_user(convolution: ir.Operation) -> bool:
    """Whether the convolution has an elementwise user."""
    merged = _merged(convolution)
    value = (merged or convolution).results[0]
    return any(ops.is_elementwise(user) for user in ops.users(value))


def _merged(convolution: ir.Operation) -> ir.Operation | None:
    """The collapse of groups and their channels, if it is the convolution's only user."""
    users = ops.users(convolution.results[0])
    merges = len(users) == 1 and users[0].name == "tensor.collapse_shape"
    return users[0] if merges and users[0].block == convolution.block else None


def initial_broadcast(convolution: ir.Operation) -> list[ir.Operation]:
    """The broadcast that initializes the accumulators, after the expand of its channels."""
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
        for user in chain
        for value in ops.inputs(user)
        if (op := ops.defining_op(value)) is not None and _is_broadcast(op, user)
    ]


def _is_broadcast(op: ir.Operation, user: ir.Operation) -> bool:
    if not ops.is_projection(op) or op.block != user.block or ops.in_region(op):
        return False
    if None in ops.indexing_maps(op) or ops.indexing_maps(op)[1] != tuple(
        range(len(ops.shape(op.results[0])))
    ):
        return False
    return len(ops.shape(op.operands[0])) < len(ops.shape(op.results[0]))


def with_channel_producers(group: list[ir.Operation], max_operands: int) -> list[ir.Operation]:
    """The group and the ops on vectors over channels that only it uses, in block order.

    It grows while the dispatch has no more than `max_operands` operands and results.
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
    # The values of a single channel are scalars.
    return len(ops.shape(op.results[0])) <= 1 and all(
        user in group for user in ops.users(op.results[0])
    )


# --- scaled channels ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class ScaledChannels:
    """A convolution or contraction whose channels are scaled and shifted by constants.

    Attributes:
      root: the convolution or contraction.
      filter: index of its filter operand.
      loops: loops of the root over channels, outermost first.
      merged: the collapse of several channel loops after the root, or None.
      axis: channel dimension of the operand of the channel ops.
      channel_ops: scales and shifts of the channels, in order, without users in between.
    """

    root: ir.Operation
    filter: int
    loops: tuple[int, ...]
    merged: ir.Operation | None
    axis: int
    channel_ops: tuple[channels.ChannelOp, ...]


def scaled_channels(root: ir.Operation) -> ScaledChannels | NoMatch | None:
    """Finds the constant scales and shifts of the channels of a convolution or contraction."""
    if not is_convolution(root) and not (ops.is_contraction(root) and ops.is_generic(root)):
        return None
    merged = _merged(root)
    value = (merged or root).results[0]
    axis: int | None = None
    found: list[channels.ChannelOp] = []
    has_other_users = False
    while True:
        users = ops.users(value)
        following = next(
            (f for u in users if (f := channels.channel_op(u, value, axis)) is not None), None
        )
        if following is None or not ops.is_constant_data(following[1].vector):
            break
        if len(users) > 1 or users[0].block != root.block:
            has_other_users = True
            break
        axis = following[0]
        found.append(following[1])
        value = following[1].op.results[0]
    if has_other_users and not any(op.scales for op in found):
        return NoMatch(Reason.EXTRA_USERS, "the unscaled channels have other users")
    if axis is None or not any(op.scales for op in found):
        return None
    out = ops.indexing_maps(root)[2] or tuple(range(len(ops.shape(root.results[0]))))
    groups = [(d,) for d in range(len(out))] if merged is None else ops.reassociation(merged)
    loops = tuple(loop for d in groups[axis] if (loop := out[d]) is not None)
    operand = _filter(root, loops)
    if isinstance(operand, NoMatch):
        return operand
    return ScaledChannels(root, operand, loops, merged, axis, tuple(found))


def _filter(root: ir.Operation, loops: tuple[int, ...]) -> int | NoMatch:
    """Index of the constant operand whose parallel loops are the channel loops."""
    maps = ops.indexing_maps(root)
    kinds = ops.iterator_types(root)
    for operand in (1,) if is_convolution(root) else (1, 0):
        index_map = maps[operand] if operand < len(maps) else None
        if index_map is None or constant_root(root.operands[operand]) is None:
            continue
        own = {d for d in index_map if d is not None and kinds[d] == "parallel"}
        if own == set(loops):
            return operand
    return NoMatch(Reason.CONSTANT_UNVERIFIED, "no constant filter varies over the scaled channels")


def constant_root(value: ir.Value) -> ir.Value | None:
    """The constant data of which the value is a reshape, or itself; None if it is not constant."""
    root = ops.strip_views(value, ops.RESHAPES)
    return root if ops.is_constant_data(root) else None
