"""Conditions of rules on the root of a plan: each has a code, a sentence and a test."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from mlirfuse.fusion_plan import ops, windows
from mlirfuse.fusion_plan.codes import Code
from mlirfuse.fusion_plan.description import Description


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the root of a plan.

    Attributes:
      code: the reason where it does not hold.
      detail: the reason as a sentence.
      holds: the test; the root is None for elementwise plans.
    """

    code: Code
    detail: str
    holds: Callable[[Description, ops.Op | None], bool]


FORMS = ("dense", "grouped", "depthwise")
"""Forms of convolutions."""


def form(plan: Description, root: ops.Op | None) -> str:
    """The form of a convolution: `dense`, `grouped` or `depthwise`."""
    if not isinstance(root, ops.ConvForward) or root.groups == 1:
        return "dense"
    return "depthwise" if root.groups == plan.input.channels == root.filters else "grouped"


def is_padded(plan: Description, root: ops.Op | None) -> bool:
    """Whether there are zeros around the image."""
    padding = getattr(root, "padding", 0)
    return any(padding) if isinstance(padding, tuple) else bool(padding)


def window(plan: Description, root: ops.Op | None) -> int:
    """Elements of the filter or window over the image; 1 without one."""
    if not isinstance(root, ops.ConvForward | ops.Pool):
        return 1
    return math.prod(windows.spread(root.kernel, len(plan.input.spatial_axes)))


UNPADDED = Condition(Code.PADDING, "a padded image", lambda plan, root: not is_padded(plan, root))

SEVERAL_FILTERS = Condition(
    Code.SHAPE,
    "one filter in a group of several channels",
    lambda plan, root: (
        not isinstance(root, ops.ConvForward)
        or root.filters // root.groups > 1
        or form(plan, root) == "depthwise"
    ),
)
"""IREE drops the dimension: a convolution without output channels is a reduction."""


def _is_covered(plan: Description, root: ops.Op | None) -> bool:
    if not isinstance(root, ops.ConvForward | ops.Pool):
        return True
    geometry = ops.Geometry.of(root, plan.input)
    return all(
        size > 1 or rest >= 0 for size, rest in zip(geometry.sizes, geometry.high, strict=True)
    )


COVERED = Condition(Code.SHAPE, "elements outside a single window", _is_covered)
"""IREE drops the loop over the one window, and takes the whole image for it."""


def _has_several_windows(plan: Description, root: ops.Op | None) -> bool:
    if not isinstance(root, ops.ConvForward) or not is_padded(plan, root):
        return True
    return min(ops.Geometry.of(root, plan.input).sizes) > 1


SEVERAL_WINDOWS = Condition(Code.SHAPE, "a single window over a padded image", _has_several_windows)
"""IREE drops the loop, and pads the image of the matmul that is left in a kernel of its own."""

WIDE_GROUPED_FILTERS = Condition(
    Code.FILTER_SIZE,
    "a grouped convolution with filters of one element",
    lambda plan, root: form(plan, root) == "dense" or window(plan, root) > 1,
)
"""IREE makes it a batched matmul, of which it transposes an operand in a further kernel."""


SUBGROUP_SIZE = 32
"""Lanes of a subgroup that IREE's SPIR-V code shares sums of whole multiples among."""


def _channels(plan: Description, root: ops.Op | None) -> int:
    """Channels of a group of a convolution; 1 for other ops, which sum over none."""
    return plan.input.channels // root.groups if isinstance(root, ops.ConvForward) else 1


def _is_shared(plan: Description, root: ops.Op | None) -> bool:
    return _channels(plan, root) * window(plan, root) % SUBGROUP_SIZE == 0


UNSHARED_SUMS = Condition(
    Code.SHAPE,
    f"channels and taps of a filter whose product is a multiple of {SUBGROUP_SIZE}",
    lambda plan, root: not _is_shared(plan, root),
)
"""IREE 3.13 does not lower gathers in sums that subgroups share (`memref.alloc` of indices)."""


VECTOR_CHANNELS = 256
"""Channels of whose multiples IREE's SPIR-V code reads vectors from a padded image."""


def _reads_no_vectors(plan: Description, root: ops.Op | None) -> bool:
    last = plan.input.layout.endswith("C")
    dense = isinstance(root, ops.ConvForward) and form(plan, root) == "dense"
    return not (dense and last and is_padded(plan, root)) or bool(
        plan.input.channels % VECTOR_CHANNELS
    )


NO_CHANNEL_VECTORS = Condition(
    Code.SHAPE,
    f"channels, the last dimension of a padded image, that are a multiple of {VECTOR_CHANNELS}",
    _reads_no_vectors,
)
"""IREE 3.13 does not lower these vectors ("'vector.transfer_read' op with rank > 1 should be broken
down")."""


def _are_distributed(plan: Description, root: ops.Op | None, lanes: int) -> bool:
    return _channels(plan, root) % lanes != 0


CUDA_LANES, ROCM_LANES = 64, 128
"""Two elements for each lane of a subgroup of 32 or 64, which IREE distributes an innermost sum of
whole multiples among."""

DISTRIBUTED_1X1 = Condition(
    Code.SHAPE,
    f"channels of a 1x1 filter that are a multiple of {CUDA_LANES}",
    lambda plan, root: window(plan, root) > 1 or _are_distributed(plan, root, CUDA_LANES),
)
"""IREE 3.13 does not lower gathers in such sums ("failed to distribute"), or leaves two kernels."""

DISTRIBUTED_CHANNELS = Condition(
    Code.SHAPE,
    f"channels, the last dimension or those of a 1x1 filter, that are a multiple of {ROCM_LANES}",
    lambda plan, root: (
        (window(plan, root) > 1 and not plan.input.layout.endswith("C"))
        or _are_distributed(plan, root, ROCM_LANES)
    ),
)
"""The same on ROCm, where filters of several elements are no exception."""


def _has_several_sums(plan: Description, root: ops.Op | None) -> bool:
    if not isinstance(root, ops.Reduce) or plan.ops[-1] == root:
        return True
    return math.prod(root.derive(plan.input).output.shape) > 1


SEVERAL_SUMS = Condition(Code.SHAPE, "one result before elementwise ops", _has_several_sums)
"""IREE leaves a reduction of a long row to one number and its users apart, or does not lower it."""


def windows_up_to(limit: int) -> Condition:
    """The condition that a window has no more elements."""
    return Condition(
        Code.FILTER_SIZE,
        f"a window of more than {limit} elements",
        lambda plan, root: window(plan, root) <= limit,
    )
