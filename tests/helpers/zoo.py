"""Models of tests/helpers/models on the four targets, and what has to hold of their boundaries."""

import math

import mlirfuse
from helpers.models import records
from mlirfuse.boundaries import BoundaryReason
from mlirfuse.core import CompileFailedError, MustFuseError, Reason
from mlirfuse.final_kernels import IREE

GPUS_WITH_KERNELS = ("cuda", "rocm")
"""Targets whose kernels take minutes to build: they are off unless a test asks for them."""

NEVER = frozenset(
    {
        BoundaryReason.NOT_TAKEN_TOGETHER,  # no reason: somebody should have considered the two
        Reason.SINGLE_OP,  # says nothing about a second op
        Reason.LEFT_TO_PRODUCER,  # says that IREE fuses the two
        *(Reason.NEVER_FUSE, Reason.MUST_FUSE, Reason.SKIPPED_OP_KIND),  # nobody asked for it
        Reason.FUSION_LIMIT,
    }
)
"""Reasons that a program compiled without switches must not have."""

FORCED = frozenset(
    {
        *(Reason.NOT_PROFITABLE, BoundaryReason.TWO_CONTRACTIONS),
        *(BoundaryReason.KERNEL_CODE, BoundaryReason.GROUP_ENDS),
    }
)
"""Reasons whose hint is `--must-fuse`."""


def program(name, target, *, kernels=False, **switches):
    """The program of a model with random weights; with kernels of ours on a GPU if asked for."""
    off = () if kernels or target not in GPUS_WITH_KERNELS else ("kernels",)
    return mlirfuse.compile(
        records.imported(name)[0],
        target=records.TARGETS[target],
        disable_feature=off,
        **switches,
    )


def untrue(report):
    """A line for each boundary whose reason does not hold for its two kernels."""
    return [
        f"#{b.source} {b.source_name} -> #{b.target} {b.target_name}: {b.reason.code} ({b.detail})"
        for b in report.boundaries
        if not _holds(b, report)
    ]


def _holds(boundary, report):
    if boundary.reason in NEVER or not boundary.hint:
        return False
    one, other = report.kernels[boundary.source], report.kernels[boundary.target]
    written = {(o.shape, o.dtype) for o in one.operands if o.is_result}
    if (boundary.shape, boundary.dtype) not in written:
        return False
    claim = _CLAIMS.get(boundary.reason)
    return claim is None or claim(boundary, one, other, report)


def _several_users(boundary, one, other, report):
    return len({b.target for b in report.boundaries if b.source == boundary.source}) > 1


def _other_path(boundary, one, other, report):
    """Whether a kernel that reads the first one's result comes before the second one."""
    after, fresh = set(), {boundary.source}
    direct = (boundary.source, boundary.target)
    while fresh:
        fresh = {
            b.target
            for b in report.boundaries
            if b.source in fresh and (b.source, b.target) != direct
        } - after
        after |= fresh
    return boundary.target in after


def _repeated(boundary, one, other, report):
    """Whether the second kernel has more elements to compute than the tensor has."""
    size = math.prod(boundary.shape)
    return any(math.prod(o.shape) > size for o in other.operands if o.is_result)


def _next_reduction(boundary, one, other, report):
    """Whether the first kernel reads more elements than the tensor has."""
    size = math.prod(boundary.shape)
    return any(math.prod(o.shape) > size for o in one.operands if not o.is_result)


def _kernel_code(boundary, one, other, report):
    return {one.code, other.code} != {IREE}


def _reshaped(boundary, one, other, report):
    """Whether the second kernel reads as many bytes in a shape that cuts them at other places."""
    read = [o.shape for o in other.operands if not o.is_result and o.bytes == boundary.bytes]
    return (
        bool(read)
        and not any(_cuts(boundary.shape) <= _cuts(s) for s in read)
        and not any(_cuts(s) <= _cuts(boundary.shape) for s in read)
    )


def _cuts(shape):
    """The numbers of trailing elements at which a dimension begins."""
    return {math.prod(shape[i:]) for i in range(len(shape))}


def _different_spaces(boundary, one, other, report):
    spaces = [{o.shape for o in k.operands if o.is_result} for k in (one, other)]
    return spaces[0].isdisjoint(spaces[1])


def _data_movement(boundary, one, other, report):
    """Whether one of the two kernels does not compute."""
    return any(not kernel.flops for kernel in (one, other))


def _two_contractions(boundary, one, other, report):
    """Whether both kernels have more operations than elements, by far more than elementwise ops."""
    return all(kernel.flops is None or kernel.flops > 0 for kernel in (one, other))


def _disabled(boundary, one, other, report):
    """Whether the detail names the feature that is off."""
    return any(f"--enable-feature={name}" in boundary.detail for name in _off(report))


def _off(report):
    return report.options["disable_feature"]


def _group_ends(boundary, one, other, report):
    return boundary.detail in {one.pass_name, other.pass_name}


_CLAIMS = {
    Reason.DISABLED: _disabled,
    BoundaryReason.GROUP_ENDS: _group_ends,
    BoundaryReason.OTHER_PATH: _other_path,
    BoundaryReason.REPEATED_ELEMENTS: _repeated,
    BoundaryReason.REDUCTION_FIRST: _repeated,
    BoundaryReason.NEXT_REDUCTION: _next_reduction,
    BoundaryReason.SEVERAL_USERS: _several_users,
    BoundaryReason.KERNEL_CODE: _kernel_code,
    BoundaryReason.RESHAPED: _reshaped,
    BoundaryReason.DIFFERENT_SPACES: _different_spaces,
    BoundaryReason.DATA_MOVEMENT: _data_movement,
    BoundaryReason.TWO_CONTRACTIONS: _two_contractions,
}


def pairs(report):
    """A boundary and the ops of each side, where none has its location in another kernel."""
    holders = {}
    for index, kernel in enumerate(report.kernels):
        for place in kernel.ops:
            holders.setdefault(place, set()).add(index)
    for boundary in report.boundaries:
        sides = (boundary.source, boundary.source_ops), (boundary.target, boundary.target_ops)
        if all(holders.get(place) == {i} and place != "-" for i, ops in sides for place in ops):
            yield boundary, boundary.source_ops, boundary.target_ops


def disproved(name, target, places):
    """Whether `--must-fuse` puts all ops of two kernels into one."""
    try:
        program(name, target, must_fuse=[places], cache=False)
    except (MustFuseError, CompileFailedError):
        return False
    return True
