"""Guards on groups that several passes share: element types, registers, stack, code generation."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.common_iteration_space import Space
from mlirfuse.targets.base import Target


def legal_float(match: Match, also: Collection[str] = ()) -> NoMatch | None:
    """Refuses a group with tensors of types other than f16, bf16, f32 and those in `also`."""
    for op in match.ops:
        for value in (*op.operands, *op.results):
            if ops.ranked(value) is None or ops.element_type(value) in also:
                continue
            if not ops.is_float(value):
                return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(value))
    return None


CPU_ROWS_IN_FLIGHT = 8
"""Rows that IREE's CPU code generation processes at once in a group of row reductions. Measured
with IREE 3.13.0 on AVX-512: a layer norm whose residual sum is also a result takes 96 bytes of
stack per f32 column, an RMS norm 64."""

MAX_BUFFERS_PER_RESULT = 6
"""Row buffers that such a group allocates at most for a result that it also reads; a layer norm of
dynamic rows takes 190 bytes of stack per f32 column. Same source."""


def resource_refusal(group: Sequence[ir.Operation], target: Target) -> NoMatch | None:
    """Refuses a group of row reductions that exceeds registers or stack, or that IREE cannot lower.

    IREE buffers the rows of every result that the group also reads: on a GPU in registers, in
    unrolled code, on a CPU on the stack. Values without outside users are recomputed if cheap.

    Args:
      group: the ops, in block order.
      target: the target, for its limits.
    """
    limit = target.stack_limit
    rows = [op for op in group if ops.is_generic(op) and "reduction" in ops.iterator_types(op)]
    if not rows:
        return None
    space = max((ops.loop_sizes(op) for op in rows), key=len)
    reduced = max(ops.iterator_types(op).count("reduction") for op in rows)
    columns = math.prod(size or 1 for size in space[len(space) - reduced :])
    members = set(group)
    results = slices.results_of(list(group))
    if _is_uneven(space[: len(space) - reduced], columns, results, target.subgroup_size):
        lanes = target.subgroup_size
        text = f"a sum over rows of {columns} elements next to another result, {lanes} lanes"
        return NoMatch(Reason.TARGET_UNSUPPORTED, text)
    needed = 0
    for value in results:
        buffered = len(ops.shape(value)) == len(space) and any(
            u in members for u in ops.users(value)
        )
        max_columns = _max_buffered_columns(columns, len(rows), target)
        if buffered and max_columns is not None and columns > max_columns:
            text = f"buffered rows of {columns} elements, the limit is {max_columns}"
            return NoMatch(Reason.REGISTER_LIMIT, text)
        if buffered:
            width = max(ops.element_bits(value), 32) // 8
            needed += MAX_BUFFERS_PER_RESULT * CPU_ROWS_IN_FLIGHT * columns * width
    if limit is None or needed <= limit:
        return None
    return NoMatch(Reason.STACK_LIMIT, f"about {needed} bytes of stack, the limit is {limit}")


def _max_buffered_columns(columns: int, reductions: int, target: Target) -> int | None:
    """Largest row that a group with so many reductions can buffer; None without a limit."""
    limit = target.row_limit if columns.bit_count() == 1 else target.non_power_of_two_row_limit
    of_several = target.multi_reduction_row_limit
    if of_several is None or reductions < 2 or target.kernels:
        return limit
    return of_several if limit is None else min(limit, of_several)


def _is_uneven(
    rows: Sequence[int | None],
    columns: int,
    results: Sequence[ir.Value],
    subgroup_size: int | None,
) -> bool:
    """Whether IREE's SPIR-V code generation fails to lower the vectors of the row reductions.

    IREE 3.13.0 fails where the subgroup size divides the number of rows but not of columns, and a
    reduction is one of several results: each lane then computes whole rows.
    """
    if subgroup_size is None or None in rows or len(results) < 2 or columns % subgroup_size == 0:
        return False
    reduced = any(len(ops.shape(v)) <= len(rows) for v in results)
    return reduced and math.prod(size or 1 for size in rows) % subgroup_size == 0


MAX_STRIDED_ELEMENTS = {"cuda": 1024, "rocm": 256}
"""Most non-contiguous elements over which a group may reduce on a GPU: IREE 3.13.0 unrolls the
reduction. With channels last its compilation for sm_80 takes 2 s at 500 elements, 6 s at 1000,
11 s at 4096, more than 90 s at 40960; for gfx942 12 s at 500 and more than 20 s at 1024."""


def lowering_refusal(space: Space, target: Target) -> NoMatch | None:
    """Refuses reductions over a common space that IREE cannot lower, or compiles for minutes.

    For Vulkan these are reductions over several digits: IREE 3.13.0 keeps the rows in workgroup
    memory or in vectors of any length. 2x32x10x4096 takes 10 MB of it, 2x32x8x256 leaves a constant
    of 2056 elements unlowered, 2x32x16x4096 compiles.
    """
    reduced = sorted(space.reduced())
    if target.name == "vulkan" and len(reduced) > 1:
        return NoMatch(Reason.TARGET_UNSUPPORTED, "more than one channel per group")
    contiguous = reduced == list(range(len(space.sizes)))[-len(reduced) :]
    elements = math.prod(space.sizes[digit] or 1 for digit in reduced)
    if not contiguous and elements > MAX_STRIDED_ELEMENTS.get(target.name, elements):
        return NoMatch(Reason.TARGET_UNSUPPORTED, f"{elements} elements that are not contiguous")
    return None
