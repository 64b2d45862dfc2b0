"""Make one contraction of two to four that share an input.

    %q = linalg.matmul ins(%x, %wq)                    tensor<MxNxT>
    %k = linalg.matmul ins(%x, %wk)                    tensor<MxNxT>
    %v = linalg.generic {addf} ins(linalg.matmul ins(%x, %wv), %bias)
  becomes
    %q, %k, %v = flow.dispatch.region {
      %c:3 = linalg.generic {three matmuls} ins(%x, %wq, %wk, %wv), then the bias of the last
    }
  or, with constant weights that may differ in N
    %w = util.global.load @joined_weight               tensor<Kx(A+B+C)xT>, built at load time
    %y = flow.dispatch.region { linalg.matmul ins(%x, %w) }
    %q, %k, %v = tensor.extract_slice %y

Root: the last of the contractions. They share the first operand and all loops but N.

Several results: all have the same N; elementwise users that read the results in place are fused.
Concatenated weights: casts and constant biases that all contractions have are fused, another
epilogue of one of them refuses the match, and heads are sliced out whole where the only user of
each is a split in heads of one size. A slice with other users than groups and elementwise ops
counts as a copy.

The form with the larger modelled gain is built; several results only where the target has matrix
instructions for them, of static shape. Accumulators start at a constant; M of concatenated ones
static or dynamic; T f16, bf16, f32 with accumulators in T or f32.
Numerics: exact (each accumulation in the order of K).
Off for the CPU, where `weight_packing_rewrite` computes each matmul at the machine's peak already.
Nothing is concatenated for kernels, which read whole tensors: on an H100 a layer of Llama 8B with
1024 tokens takes 716 us of kernels with queries, keys and values in one, 641 with keys and values
as two results.
Source: IREE's horizontal contraction fusion; TensorRT's merged QKV projections.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders, cost
from mlirfuse.builders import contraction_builder, slice_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import equivalence, ops, slices
from mlirfuse.structured.ir.legality import legal_float
from mlirfuse.structured.recognize import (
    contraction_splits,
    contractions,
    epilogue_addends,
    epilogues,
    matrix_instructions,
    sibling_contractions,
)

MAX_MERGED = 4
"""Contractions that become one: queries, keys and values, and perhaps a gate."""


@dataclasses.dataclass(frozen=True, slots=True)
class _SeveralResults:
    """Contractions of equal shape that become one of several results.

    Attributes:
      contractions: the contractions, in block order.
      epilogue: their fused elementwise users, in block order.
    """

    contractions: list[ir.Operation]
    epilogue: list[ir.Operation]

    @property
    def ops(self) -> list[ir.Operation]:
        return slices.in_order([*self.contractions, *self.epilogue])


@dataclasses.dataclass(frozen=True, slots=True)
class _Concatenated:
    """Contractions whose weights are concatenated along N.

    Attributes:
      chains: each contraction with the casts and biases that all of them have, in order.
      heads: the reshape in heads that is the only user of each; empty where one differs.
    """

    chains: list[list[ir.Operation]]
    heads: list[ir.Operation]

    @property
    def ops(self) -> list[ir.Operation]:
        return slices.in_order([*itertools.chain(*self.chains), *self.heads])

    @property
    def ends(self) -> list[ir.Value]:
        return [op.results[0] for op in self.heads or [chain[-1] for chain in self.chains]]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the contractions that share the root's input, the root the last of them."""
    if not ops.is_contraction(root):
        return None
    siblings = sibling_contractions.siblings(root)
    if len(siblings) < 2 or siblings[-1] != root:
        return None
    if None in (ops.shape(op.results[0])[-1] for op in siblings):
        return NoMatch(Reason.DYNAMIC_SHAPE, "N is dynamic")
    several, whole = _several_results(siblings, ctx), _concatenated(siblings, ctx)
    if isinstance(several, NoMatch) and isinstance(whole, NoMatch):
        return several if whole.reason is Reason.CONSTANT_UNVERIFIED else whole
    plans = [form for form in (several, whole) if not isinstance(form, NoMatch)]
    best = max(plans, key=lambda plan: _gain(plan, ctx))
    return Match(root, tuple(best.ops), best)


def _several_results(siblings: list[ir.Operation], ctx: PassContext) -> _SeveralResults | NoMatch:
    """The contractions of the last one's shape."""
    sizes = ops.shape(siblings[-1].results[0])
    found = [op for op in siblings if ops.shape(op.results[0]) == sizes][-MAX_MERGED:]
    if len(found) < 2:
        return NoMatch(Reason.SHAPE_MISMATCH, "the contractions differ in N")
    epilogue = epilogues.users_in_place(found, ctx.target.max_operands)
    members = {*found, *epilogue}
    if any(ops.defining_op(v) in members for op in found for v in op.operands):
        return NoMatch(Reason.WOULD_CYCLE, "a contraction depends on another one")
    missing = matrix_instructions.no_matrix_instructions(found[-1], sizes[-1] or 0, ctx.target)
    if missing:
        return NoMatch(Reason.NOT_PROFITABLE, missing)
    return _SeveralResults(found, epilogue)


def _concatenated(siblings: list[ir.Operation], ctx: PassContext) -> _Concatenated | NoMatch:
    """The contractions with constant weights of the last one's indexing map."""
    if ctx.target.kernels:
        return NoMatch(Reason.NOT_PROFITABLE, "kernels read whole tensors: slices would be copied")
    maps = ops.indexing_maps(siblings[-1])
    constant = [op for op in siblings if ops.is_constant_data(op.operands[1])]
    found = [op for op in constant if ops.indexing_maps(op) == maps][-MAX_MERGED:]
    if len(found) < 2:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the second operands are no constants")
    chains = _chains(found)
    for chain in chains:
        lost = epilogues.epilogue(chain[0], ctx.target.max_operands)[len(chain) - 1 :]
        if lost:
            return NoMatch(Reason.NOT_PROFITABLE, f"{lost[0].name} would lose its contraction")
    results = [chain[-1].results[0] for chain in chains]
    return _Concatenated(chains, contraction_splits.head_splits(results))


def _chains(found: list[ir.Operation]) -> list[list[ir.Operation]]:
    """Each contraction with the casts and constant biases that all of them have."""
    chains = [[op] for op in found]
    for step in zip(*map(epilogue_addends.biases, found), strict=False):
        ends = [chain[-1].results[0] for chain in chains]
        others = (v for op in step for v in ops.inputs(op) if v not in ends)
        alike = all(equivalence.are_equivalent(step[0], op) for op in step[1:])
        if not (alike and all(map(ops.is_constant_data, others))):
            break
        for op, chain in zip(step, chains, strict=True):
            chain.append(op)
    return chains


def _gain(plan: _SeveralResults | _Concatenated, ctx: PassContext) -> float:
    """Modelled microseconds that the one contraction saves."""
    target = ctx.target
    if isinstance(plan, _SeveralResults):
        return cost.gain(plan.ops, target).microseconds
    alone = [cost.work_alone(op) for op in plan.ops if cost.does_work(op)]
    parallel = sum(work.parallel for work in alone if work.matrix)
    whole = dataclasses.replace(cost.work(plan.ops), parallel=parallel)
    copies = [
        cost.Work(2 * cost.num_bytes([part]), parallel=parallel)
        for part in plan.ends
        if not all(map(_reads_in_place, ops.users(part)))
    ]
    saved = sum(work.microseconds(target) for work in alone)
    return saved - sum(work.microseconds(target) for work in (whole, *copies))


def _reads_in_place(user: ir.Operation) -> bool:
    """Whether IREE reads a slice in place for this user; for a reshape it copies the slice."""
    return user.name == ops.REGION or ops.is_elementwise(user)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match)


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses a match without a modelled gain, and matmuls with packed weights."""
    if ctx.target.packed_matmul_tiles and ops.element_type(match.root.operands[1]) == "f32":
        return NoMatch(Reason.NOT_PROFITABLE, "with packed weights each is at the machine's peak")
    gain = _gain(match.data, ctx)
    return None if gain > 0 else NoMatch(Reason.NOT_PROFITABLE, cost.no_gain(gain))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the one contraction and its epilogue."""
    plan: _SeveralResults | _Concatenated = match.data
    anchor = builders.make_room(plan.ops)
    with ir.InsertionPoint(anchor), match.root.location:
        if isinstance(plan, _SeveralResults):
            made = _build_several(plan)
        else:
            made = _build_concatenated(plan)
    for op in reversed(match.ops):
        op.erase()
    return builders.form_region(made)


def _build_several(plan: _SeveralResults) -> list[ir.Operation]:
    pairs = [(op, op.operands[1]) for op in plan.contractions]
    with ir.Location.fused([op.location for op in plan.contractions]):
        made = [contraction_builder.several_results(pairs)]
    known = dict(zip((op.results[0] for op in plan.contractions), made[0].results, strict=True))
    for op in plan.epilogue:
        with op.location:
            made.append(contraction_builder.elementwise(op, known))
        known[op.results[0]] = made[-1].results[0]
    for old, new in known.items():
        old.replace_all_uses_with(new)
    return made


def _build_concatenated(plan: _Concatenated) -> list[ir.Operation]:
    made = contraction_builder.concatenated(plan.chains)
    whole, ends = made[-1].results[0], plan.ends
    axis = len(ops.shape(whole)) - 1
    if plan.heads:
        first = slices.in_order(plan.heads)[0]
        split = ops.reassociation(first)
        axis = split[-1][0]
        sizes = list(ops.shape(first.results[0]))
        sizes[axis] = sum(_sizes(ends, axis))
        whole = builders.expand(whole, split, sizes, list(first.operands)[1:])
    lengths = _sizes(ends, axis)
    offsets = itertools.accumulate(lengths, initial=0)
    for end, offset, length in zip(ends, offsets, lengths, strict=False):
        with end.owner.location:
            part = slice_builder.take(whole, axis, offset, length)
        end.replace_all_uses_with(part.results[0])
    return made


def _sizes(values: Sequence[ir.Value], axis: int) -> list[int]:
    """The sizes of one axis, which is static."""
    return [size for value in values if (size := ops.shape(value)[axis]) is not None]


PASS = FusionPass(
    name="matmul_horizontal_fusion",
    summary="Contractions with a common input become one, of several results or of merged weights",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    legal=legal,
    profitable=profitable,
    rewrite=rewrite,
    kind=Kind.SIBLING,
    targets=frozenset({"cuda", "rocm", "vulkan"}),
    source="IREE's horizontal contraction fusion; TensorRT's merged QKV projections",
)
