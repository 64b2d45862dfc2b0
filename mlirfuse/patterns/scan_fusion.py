"""Fuse a cumulative op with its elementwise neighbours, in one dispatch.

    %a = linalg.generic {elementwise} ins(%x)          tensor<MxNxT>
    %s = iree_linalg_ext.scan dimension(1) {addf} ins(%a)
    %y = linalg.generic {elementwise} ins(%s, %z)      tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { all of it }

Root: the scan, along any dimension, inclusive or not, of any combiner. What only the group reads
comes along, gathers too; so do the elementwise readers, as long as only the last of them is read
elsewhere. Numerics: exact. Any element type; the scanned size static, the others too on GPUs.

IREE keeps what passes between the ops for whole rows: 8 at a time on a CPU thread's stack, up to 64
in a GPU's workgroup memory (measured with IREE 3.13.0: 128 KiB for rows of 4096 f32, and 1 MiB). A
group whose rows do not fit is refused; for a dynamic number of rows CUDA and ROCm ask for all of
the address space.
Source: producers and consumers of a scan, which IREE leaves in dispatches of their own.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import epilogues, gathers

CPU_ROWS = 8
"""Rows that IREE's CPU code generation keeps in flight around a scan; see above."""

GPU_ROWS = 64
"""Most rows that a GPU's workgroup keeps; see above."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a scan with elementwise neighbours."""
    chain = epilogues.epilogue(root, ctx.target.max_operands)
    group = [root, *chain]
    beside = gathers.feeding(group, set(group), takes_epilogues=False)
    if not chain and not beside:
        if len([u for u in ops.users(root.results[0]) if ops.is_elementwise(u)]) > 1:
            return NoMatch(Reason.EXTRA_USERS, "the scan is read in more than one place")
        return None
    return Match(root, tuple(slices.in_order([*beside, *group])))


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """The rows that are kept between the ops fit."""
    root, value = match.root, match.root.results[0]
    columns = ops.shape(value)[root.attributes["dimension"].value]
    if columns is None:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the scanned dimension is dynamic")
    target = ctx.target
    row = columns * max(ops.element_bits(value), 32) // 8
    before = any(op.is_before_in_block(root) for op in match.ops if op != root)
    buffers = int(before) + int(match.ops[-1] != root)
    if target.shared_memory is None:
        needed = buffers * CPU_ROWS * row
        if target.stack_limit is not None and needed > target.stack_limit:
            return NoMatch(Reason.STACK_LIMIT, f"about {needed} bytes of stack")
        return None
    if None in ops.shape(value):
        return NoMatch(Reason.TARGET_UNSUPPORTED, "workgroup memory for unknown rows")
    needed = buffers * min(GPU_ROWS, ops.num_elements(value) // columns) * row
    if needed > target.shared_memory:
        return NoMatch(Reason.TARGET_UNSUPPORTED, f"about {needed} bytes of workgroup memory")
    return None


PASS = FusionPass(
    name="scan_fusion",
    summary="Cumulative op with its elementwise neighbours in one dispatch",
    roots=("iree_linalg_ext.scan",),
    match=match,
    legal=legal,
    rewrite=fuse,
    source="IREE's linalg_ext.scan",
)
