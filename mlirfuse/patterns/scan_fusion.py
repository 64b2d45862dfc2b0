"""Fuse a cumulative op with its elementwise neighbors, in one dispatch.

    %a = linalg.generic {elementwise} ins(%x)          tensor<MxNxT>
    %s = iree_linalg_ext.scan dimension(1) {addf} ins(%a)
    %y = linalg.generic {elementwise} ins(%s, %z)      tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { all of it }

Root: the scan, along any dimension, inclusive or not, of any combiner. Fused: producers that only
the group uses, gathers too, and the elementwise epilogue, as long as only its last op has users
elsewhere. Numerics: exact. Any element type; the scanned size static, the others too on GPUs.

IREE buffers the values between the ops for whole rows: 8 at a time on a CPU thread's stack, up to
64 in a GPU's workgroup memory (measured with IREE 3.13.0: 128 KiB for rows of 4096 f32, and 1 MiB).
A group whose rows do not fit is refused; for a dynamic number of rows CUDA and ROCm ask for all of
the address space.
Source: producers and consumers of a scan, which IREE leaves in dispatches of their own.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import epilogues, gathers

ROWS_PER_CPU_THREAD = 8
"""Rows that IREE's CPU code generation buffers on a thread's stack around a scan; see above."""

MAX_ROWS_PER_WORKGROUP = 64
"""Upper limit of the rows that IREE buffers in a GPU's workgroup memory; see above."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a scan with elementwise neighbors."""
    chain = epilogues.epilogue(root, ctx.target.max_operands)
    group = [root, *chain]
    producers = gathers.feeding(group, set(group), takes_epilogues=False)
    if not chain and not producers:
        if len([u for u in ops.users(root.results[0]) if ops.is_elementwise(u)]) > 1:
            return NoMatch(Reason.EXTRA_USERS, "the scan has more than one elementwise user")
        return None
    return Match(root, tuple(slices.in_order([*producers, *group])))


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """The buffered rows fit in the stack, or in workgroup memory."""
    root, value = match.root, match.root.results[0]
    columns = ops.shape(value)[root.attributes["dimension"].value]
    if columns is None:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the scanned dimension is dynamic")
    target = ctx.target
    row = columns * max(ops.element_bits(value), 32) // 8
    before = any(op.is_before_in_block(root) for op in match.ops if op != root)
    buffers = int(before) + int(match.ops[-1] != root)
    if target.shared_memory is None:
        needed = buffers * ROWS_PER_CPU_THREAD * row
        if target.stack_limit is not None and needed > target.stack_limit:
            return NoMatch(Reason.STACK_LIMIT, f"about {needed} bytes of stack")
        return None
    if None in ops.shape(value):
        return NoMatch(Reason.TARGET_UNSUPPORTED, "workgroup memory for unknown rows")
    needed = buffers * min(MAX_ROWS_PER_WORKGROUP, ops.num_elements(value) // columns) * row
    if needed > target.shared_memory:
        return NoMatch(Reason.TARGET_UNSUPPORTED, f"about {needed} bytes of workgroup memory")
    return None


PASS = FusionPass(
    name="scan_fusion",
    summary="Cumulative op with its elementwise neighbors in one dispatch",
    roots=("iree_linalg_ext.scan",),
    match=match,
    legal=legal,
    rewrite=fuse,
    source="IREE's linalg_ext.scan",
)
