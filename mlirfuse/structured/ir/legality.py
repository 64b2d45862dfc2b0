"""Guards that several passes share."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.common_iteration_space import Space
from mlirfuse.targets.base import Target


def legal_float(match: Match, also: Collection[str] = ()) -> NoMatch | None:
    """Refuses a group with tensors that are not f16, bf16, f32 or of a type in `also`."""
    for op in match.ops:
        for value in (*op.operands, *op.results):
            if ops.ranked(value) is None or ops.element_type(value) in also:
                continue
            if not ops.is_float(value):
                return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(value))
    return None


ROWS_AT_ONCE = 8
"""Rows that IREE's CPU code generation keeps in flight in a group of reductions over rows.
Measured with IREE 3.13.0 on AVX-512: a layer norm whose input sum is also a result takes 96 bytes
of stack per column of f32, an RMS norm 64."""

BUFFERS_PER_RESULT = 6
"""Copies of the rows that such a group keeps at most for a result that the group reads too; a layer
norm of dynamic rows takes 190 bytes of stack per column of f32. Same source."""


def resource_refusal(group: Sequence[ir.Operation], target: Target) -> NoMatch | None:
    """Refuses a group of row reductions that a dispatch cannot hold, or that is not generated.

    Rows are kept for every result of the group that the group reads itself, on a GPU in registers,
    which IREE unrolls, on a CPU on the stack; what only the group reads is computed again where it
    is cheap.

    Args:
      group: the ops, in block order.
      target: its limits.
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
    if _is_uneven(space[: len(space) - reduced], columns, results, target.subgroup):
        text = f"sums of rows of {columns} elements beside another result, {target.subgroup} lanes"
        return NoMatch(Reason.TARGET_UNSUPPORTED, text)
    needed = 0
    for value in results:
        kept = len(ops.shape(value)) == len(space) and any(u in members for u in ops.users(value))
        most = _row_limit(columns, len(rows), target)
        if kept and most is not None and columns > most:
            text = f"kept rows of {columns} elements, the limit is {most}"
            return NoMatch(Reason.REGISTER_LIMIT, text)
        if kept:
            width = max(ops.element_bits(value), 32) // 8
            needed += BUFFERS_PER_RESULT * ROWS_AT_ONCE * columns * width
    if limit is None or needed <= limit:
        return None
    return NoMatch(Reason.STACK_LIMIT, f"about {needed} bytes of stack, the limit is {limit}")


def _row_limit(columns: int, sums: int, target: Target) -> int | None:
    most = target.row_limit if columns.bit_count() == 1 else target.uneven_row_limit
    twice = target.twice_row_limit
    if twice is None or sums < 2 or target.kernels:
        return most
    return twice if most is None else min(most, twice)


def _is_uneven(
    rows: Sequence[int | None],
    columns: int,
    results: Sequence[ir.Value],
    subgroup: int | None,
) -> bool:
    """Whether IREE's SPIR-V code generation leaves the vectors of the rows' sums unlowered.

    It does in IREE 3.13.0 where a subgroup divides the rows and not the columns, and a sum is one
    of several results: each lane then computes whole rows.
    """
    if subgroup is None or None in rows or len(results) < 2 or columns % subgroup == 0:
        return False
    sums = any(len(ops.shape(v)) <= len(rows) for v in results)
    return sums and math.prod(size or 1 for size in rows) % subgroup == 0


SCATTERED_ELEMENTS = {"cuda": 1024, "rocm": 256}
"""Elements of a group above which it is refused on a GPU unless they lie together: IREE 3.13.0
unrolls it. With channels last its compilation for sm_80 takes 2 s at 500 elements, 6 s at 1000,
11 s at 4096, more than 90 s at 40960; for gfx942 12 s at 500 and more than 20 s at 1024."""


def unlowered(space: Space, target: Target) -> NoMatch | None:
    """Refuses rows over a common space that are not generated, or only in minutes.

    For Vulkan those of several dimensions: IREE 3.13.0 keeps them in workgroup memory or in vectors
    of any length: 2x32x10x4096 wants 10 MB of it, 2x32x8x256 leaves a constant of 2056 elements
    unlowered, 2x32x16x4096 compiles.
    """
    reduced = sorted(space.reduced())
    if target.name == "vulkan" and len(reduced) > 1:
        return NoMatch(Reason.TARGET_UNSUPPORTED, "more than one channel a group")
    together = reduced == list(range(len(space.sizes)))[-len(reduced) :]
    elements = math.prod(space.sizes[digit] or 1 for digit in reduced)
    if not together and elements > SCATTERED_ELEMENTS.get(target.name, elements):
        return NoMatch(Reason.TARGET_UNSUPPORTED, f"{elements} elements that do not lie together")
    return None
