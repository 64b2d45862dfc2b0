"""Matches of the attention passes: the group of ops, legality, profitability."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize.attention import Attention, NearAttention, find_attention
from mlirfuse.targets.base import Target

MAX_KERNEL_HEAD_SIZE = {"f16": 256, "bf16": 256, "f32": 128}
"""Element type -> largest head size of a kernel: q and the accumulators fit registers, two blocks
of k and v fit shared memory. Attention with larger heads is two contractions and a softmax."""


def match_attention(root: ir.Operation, *, masked: bool) -> Match | NoMatch | None:
    """The match of one of the attention passes at the contraction with v.

    Args:
      root: the contraction.
      masked: whether the pass takes attention with a mask or without one.
    """
    if len(root.results) != 1 or not ops.is_contraction(root):
        return None
    found = find_attention(root)
    if isinstance(found, NearAttention):
        return found.refusal if found.masked == masked else None
    if found is None or (found.mask is not None) != masked:
        return None
    core = _between(found.qk, found.final)
    for op in slices.in_order(core - {found.final}):
        for user in (u for result in op.results for u in ops.users(result)):
            if ops.ancestor_in(root.block, user) not in core:
                return NoMatch(Reason.EXTRA_USERS, f"{op.name} is also used by {user.name}")
    read = [o.value for o in (found.q, found.k, found.v)] + [e.value for e in found.mask_tensors]
    read += [] if found.nonzero is None else [found.nonzero.value]
    if any(ops.defining_op(value) in core for value in read):
        return NoMatch(Reason.STRUCTURE, "the mask depends on the scores")
    return Match(found.final, tuple(slices.in_order(core)), found)


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """The options of the attention passes.

    Attributes:
      dynamic_keys: whether to take a dynamic number of keys without a kernel for it, which IREE
        compiles slowly to slow code.
      any_size: whether to take sizes for which the target is faster with the separate ops.
    """

    dynamic_keys: bool = False
    any_size: bool = False


def legal_attention(match: Match, ctx: PassContext) -> NoMatch | None:
    """The `legal` of the attention passes: element types, head sizes, operands."""
    found: Attention = match.data
    for operand in (found.q, found.k, found.v, found.result):
        if not ops.is_float(operand.value):
            return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(operand.value))
    for d in found.head_dims:
        if found.domain.dims[d].size is None:
            return NoMatch(Reason.DYNAMIC_SHAPE, "the head size")
    has_kernel = (ctx.target.kernels and ctx.target.gpu) or ctx.target.vector_kernels
    if found.single_query is not None and not has_kernel:
        return NoMatch(Reason.TARGET_UNSUPPORTED, "no kernel for a single query")
    if found.cap is not None and not ctx.target.kernels:
        return NoMatch(Reason.TARGET_UNSUPPORTED, "no kernel computes a soft cap of the scores")
    bound = 4 + len({e.value for e in found.mask_tensors})
    bound += (found.masked is not None) + (found.nonzero is not None)
    limit = ctx.target.max_operands
    if bound > limit:
        return NoMatch(
            Reason.TOO_MANY_OPERANDS, f"{bound} operands and results, the limit is {limit}"
        )
    return None


def profitable_attention(match: Match, ctx: PassContext) -> NoMatch | None:
    """The `profitable` of the attention passes: refuses sizes that are slow on the target.

    IREE 3.13.0 tiles the loop over keys with whole tiles only. For a dynamic number of keys, f16
    and heads of 64, it generates 20000 lines of LLVM IR without matrix instructions, which take 9 s
    to compile for sm_80 and 66 to 111 s for gfx942, against 0.5 s for a static number.
    """
    found: Attention = match.data
    target, allowed = ctx.target, ctx.options
    if found.dynamic_keys and not allowed.dynamic_keys and not _may_get_kernel(found, target):
        return NoMatch(Reason.NOT_PROFITABLE, "the number of keys is dynamic; see dynamic_keys")
    largest = MAX_KERNEL_HEAD_SIZE.get(ops.element_type(found.q.value), 0)
    if target.kernels and not allowed.any_size and _head_size(found) > largest:
        detail = f"heads larger than {largest} are kernels of two contractions and a softmax"
        return NoMatch(Reason.NOT_PROFITABLE, f"{detail}; see any_size")
    multiple, max_head = target.attention_size_multiple, target.max_attention_head_size
    if allowed.any_size or target.kernels or multiple is None or max_head is None:
        return None
    sizes = [dim.size for dim in found.domain.dims]
    heads = [sizes[d] or 0 for d in found.head_dims]
    queries = max((sizes[d] or multiple for d in found.query_dims), default=1)
    if queries < multiple:
        return None
    if max(heads) > max_head:
        detail = f"heads larger than {max_head} are faster as separate ops; see any_size"
        return NoMatch(Reason.NOT_PROFITABLE, detail)
    if any(size is not None and size % multiple for size in (queries, sizes[found.key], *heads)):
        detail = f"no matrix instructions for sizes that {multiple} does not divide; see any_size"
        return NoMatch(Reason.NOT_PROFITABLE, detail)
    return None


def _may_get_kernel(found: Attention, target: Target) -> bool:
    """Whether a provider's kernel may replace IREE's code."""
    limit = MAX_KERNEL_HEAD_SIZE.get(ops.element_type(found.q.value), 0)
    return target.kernels and _head_size(found) <= limit


def _head_size(found: Attention) -> int:
    """The larger head size; a dynamic one counts as none."""
    return max(found.domain.dims[d].size or 0 for d in found.head_dims)


def _between(first: ir.Operation, last: ir.Operation) -> set[ir.Operation]:
    """The ops that depend on `first` and that `last` depends on, both included."""
    known: dict[ir.Operation, bool] = {first: True}
    work = [last]
    while work:
        op = work[-1]
        producers = [p for v in op.operands if (p := ops.defining_op(v)) is not None]
        # An op before `first` in the block cannot depend on it, which keeps the walk short.
        near = [p for p in producers if p.block == first.block and not p.is_before_in_block(first)]
        unknown = [p for p in near if p not in known]
        if unknown:
            work += unknown
            continue
        work.pop()
        known.setdefault(op, any(known[p] for p in near))
    return {op for op, depends in known.items() if depends}
