"""Fuse elementwise ops and reductions over the same rows into one dispatch.

    %e = linalg.generic {exp} ins(%x)                  tensor<MxNxT>
    %s = linalg.generic {addf} ins(%e)                 tensor<MxNxT> -> tensor<MxT>
    %y = linalg.generic {divf} ins(%e, %s)             tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { all of it }

The engine searches for the groups: neighbors are fused where the cost model predicts a gain. Every
reduction of a group reduces the same trailing loops of the same size; every elementwise op covers
the whole iteration space, the rows alone, or a broadcast operand with a single user. Bodies of
arithmetic only. M static or dynamic, N static; any element type. Numerics: exact (operations and
their order are unchanged).
Source: the row fusion that norms and softmax are special cases of.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, GroupRules, NoMatch, Reason
from mlirfuse.structured.ir import fusable_neighbors, ops

MAX_DEPENDENT_REDUCTIONS = 8
"""Longest chain of dependent reductions in a group. IREE computes the common producers of a
reduction and a later op once for each of them, recursively: ten take a second to compile for the
CPU, twelve eight, fourteen more than a minute."""


def takes(op: ir.Operation) -> bool | NoMatch:
    """Arithmetic on whole tensors or rows of known length, contractions and epilogues left out."""
    if (
        not ops.is_generic(op)
        or not fusable_neighbors.has_scalar_body(op)
        or ops.is_contraction(op)
    ):
        return False
    if fusable_neighbors.is_among_epilogues(op) or _is_convolution(op):
        return False
    if ops.is_elementwise(op):
        return True
    if _reduced(op) is None:
        return NoMatch(Reason.WRONG_AXIS, "a reduction is not over the trailing loops")
    sizes, kinds = ops.loop_sizes(op), ops.iterator_types(op)
    if any(s is None and k == "reduction" for s, k in zip(sizes, kinds, strict=True)):
        # The code generators tile rows by their size.
        return NoMatch(Reason.DYNAMIC_SHAPE, "the reduced dimension is dynamic")
    return True


def _is_convolution(op: ir.Operation) -> bool:
    """Whether an op slides a filter over an image: each pixel would compute the filter again."""
    return fusable_neighbors.has_window(op) and ops.num_inputs(op) > 1


def _reduced(op: ir.Operation) -> tuple[tuple[int | None, ...], int] | None:
    """The loop sizes of a reduction over its trailing loops, and how many they are."""
    kinds = ops.iterator_types(op)
    count = kinds.count("reduction")
    if kinds[len(kinds) - count :] != ("reduction",) * count:
        return None
    return ops.loop_sizes(op), count


def joins(
    producer: ir.Operation, user: ir.Operation, value: ir.Value, kept: bool
) -> NoMatch | None:
    """The value is read at the leading loops, or broadcast to this user alone.

    A row's result is complete before it is read, as if it had other users.
    """
    refusal = fusable_neighbors.inlining_refusal(producer, user, value, kept, leading=True)
    if refusal is not None or kept or ops.is_elementwise(producer):
        return refusal
    refusal = fusable_neighbors.inlining_refusal(producer, user, value, True, leading=True)
    if refusal is not None and refusal.reason is Reason.EXTRA_USERS:
        detail = (
            f"{ops.described(user)} reads the result of a reduction in other loops than its rows"
        )
        return NoMatch(Reason.WRONG_AXIS, detail)
    return refusal


def admits(group: list[ir.Operation]) -> NoMatch | None:
    """All reductions cover the same rows, chains of them are short, and the group ends in one op.

    IREE's code generation tiles one op and its producers; on the CPU it fails where a reduction and
    an elementwise op both end a group.
    """
    reductions = [op for op in group if not ops.is_elementwise(op)]
    if len({_reduced(op) for op in reductions}) > 1:
        return NoMatch(Reason.SHAPE_MISMATCH, "the reductions cover different rows")
    if len(reductions) > MAX_DEPENDENT_REDUCTIONS and _depth(group) > MAX_DEPENDENT_REDUCTIONS:
        return NoMatch(
            Reason.TOO_MANY_OPS,
            f"more than {MAX_DEPENDENT_REDUCTIONS} reductions one after the other",
        )
    held = [op for op in reductions if not _combines_in_registers(op)]
    if len(held) > 1 and len({v for op in held for v in ops.inits(op)}) < sum(
        len(op.results) for op in held
    ):
        return NoMatch(Reason.STRUCTURE, "two reductions by selection start from the same value")
    read = {value for op in group for value in op.operands}
    ends = [op for op in group if read.isdisjoint(op.results)]
    if reductions and len(ends) > 1:
        return NoMatch(Reason.EXTRA_USERS, f"{ends[0].name} and {ends[1].name} both end the group")
    return None


def _combines_in_registers(op: ir.Operation) -> bool:
    """Whether one op combines each accumulator with an element, so that the loop is vectorized.

    The accumulators of other reductions stay in memory. IREE 3.13 gives two of them that start from
    the same value one place: the maximum and the minimum of complex numbers had one imaginary part.
    """
    yielded = list(list(ops.body(op).operations)[-1].operands)
    accumulators = list(ops.body(op).arguments)[ops.num_inputs(op) :]
    return all(
        [use.owner.operation for use in accumulator.uses] == [value.owner]
        for accumulator, value in zip(accumulators, yielded, strict=True)
    )


def _depth(group: list[ir.Operation]) -> int:
    """The longest chain of dependent reductions in a group, in block order."""
    depths: dict[ir.Value, int] = {}
    for op in group:
        depth = max((depths.get(value, 0) for value in op.operands), default=0) + _is_reduction(op)
        depths.update(dict.fromkeys(op.results, depth))
    return max(depths.values(), default=0)


def _is_reduction(op: ir.Operation) -> bool:
    return not ops.is_elementwise(op)


PASS = FusionPass(
    name="reduction_fusion",
    summary="Elementwise ops and reductions over the same rows in one dispatch",
    roots=("linalg.generic",),
    rules=GroupRules(
        roots=("linalg.generic",), takes=takes, joins=joins, admits=admits, needs=_is_reduction
    ),
    rewrite=fuse,
    source="row fusion",
)
