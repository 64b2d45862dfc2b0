"""Make one dispatch of kernels for CPUs that can start at the same time.

    %q = flow.dispatch @vector_kernel_1::@matmul(%x, %wq)
    %k = flow.dispatch @vector_kernel_1::@matmul(%x, %wk)
    %v = flow.dispatch @vector_kernel_2::@matmul(%x, %wv)
  becomes
    %q, %k, %v = flow.dispatch @vector_kernel_3::@joint(%x, %wq, %wk, %wv)

Root: the first of the calls. The others are in its block, in front of the first dispatch that has
to wait for one of them. Its workgroups are those of the kernels; a kernel that is called several
times is compiled once. A contraction whose epilogue reads the result of another one in place, as
that of a gated unit does, goes on in the same workgroup, if both have the same tiles. Any kernels,
element types and static shapes. Numerics: exact.
A block of a transformer has fewer dispatches so (BERT 7 in place of 9, Llama 8 in place of 12); on
two cores of a Zen 4 both take the same time within 1 %.
Source: horizontal fusion in XLA.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext
from mlirfuse.kernels.vector import joint
from mlirfuse.structured.ir import marks, ops, slices

_DISPATCHES = (ops.REGION, *marks.KERNEL_CALLS)

MAX_CALLS, MAX_STACK = 8, 28 << 10
"""Calls that become one, and bytes of their buffers on the stack, of which IREE allows 32 KiB."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the calls of kernels that can start when the root does, or go on where one ends."""
    if ctx.target.cpu is None or not joint.is_call(root):
        return None
    chains, late = [[root]], {root}
    for op in _behind(root):
        inner = (op, *ops.nested_ops(op))
        awaited = {ops.defining_op(value) for each in inner for value in each.operands} & late
        calls = itertools.chain(*chains, [op])
        fits = joint.is_call(op) and _fits([*calls], ctx.target.max_operands)
        before = next((chain for chain in chains if awaited == {chain[-1]}), None)
        if fits and not awaited:
            chains.append([op])
        elif fits and before is not None and joint.continues(op, before[-1]):
            before.append(op)
        elif awaited and op.name in _DISPATCHES:
            break
        if awaited or op.name in _DISPATCHES:
            late.add(op)
    if len(chains) == len(chains[0]) == 1:
        return None
    group = slices.in_order(itertools.chain(*chains))
    return Match(root, tuple(group), [tuple(chain) for chain in chains])


def _behind(root: ir.Operation) -> Iterator[ir.Operation]:
    """The ops of the block behind one of them."""
    following = itertools.dropwhile(lambda view: view.operation != root, root.block.operations)
    return (view.operation for view in itertools.islice(following, 1, None))


def _fits(calls: list[ir.Operation], most: int) -> bool:
    """Whether calls are not too many, nor the tensors that they read and write, nor their stack."""
    buffers = {value for call in calls for value in (*call.operands, *call.results)}
    stack = sum(map(joint.stack_bytes, calls))
    return len(calls) <= MAX_CALLS and len(buffers) <= most and stack <= MAX_STACK


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Replaces the calls."""
    assert ctx.target.cpu is not None
    return joint.join(match.data, builders.make_room(list(match.ops)), ctx.target.cpu)


PASS = FusionPass(
    name="sibling_kernel_fusion",
    summary="Kernels for CPUs that can start at the same time become one dispatch",
    roots=("flow.dispatch",),
    match=match,
    rewrite=rewrite,
    kind=Kind.SIBLING,
    forms_group=False,
    feature="kernels",
    targets=frozenset({"cpu"}),
    source="Horizontal fusion in XLA",
)
