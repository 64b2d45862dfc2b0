"""Make one contraction of two to four that share an input.

    %q = linalg.matmul ins(%x, %wq)                    tensor<MxNxT>
    %k = linalg.matmul ins(%x, %wk)                    tensor<MxNxT>
    %v = linalg.generic {addf} ins(linalg.matmul ins(%x, %wv), %bias)
  becomes
    %q, %k, %v = flow.dispatch.region {
      %c:3 = linalg.generic {three products} ins(%x, %wq, %wk, %wv), then the bias of the last
    }
  or, with constant weights that may have different numbers of columns
    %w = util.global.load @joined_weight               tensor<Kx(A+B+C)xT>, joined at load time
    %y = flow.dispatch.region { linalg.matmul ins(%x, %w) }
    %q, %k, %v = tensor.extract_slice %y

Root: the last of the contractions. They have the first operand and all loops but the columns in
common. Several results: the columns are as many; elementwise ops that read the products in place
come along. Joined: casts and constant biases that all have alike come along, what else follows one
of them elementwise refuses it, and heads are cut out whole where all that reads is split in heads
of one size. A part that not only groups and elementwise ops read counts as a copy. The form that
the model gives the larger gain is taken; several results only where the target has matrix
instructions for them, of static shape. Sums start at a constant; rows of joined ones static or
dynamic; T f16, bf16, f32 with its own or f32 accumulation. Numerics: exact (sums in K's order).
Off for the CPU, where `weight_packing_rewrite` has each product at the peak of the machine already.
Nothing is joined for kernels, which read whole tensors: on an H100 a layer of Llama 8B with 1024
tokens takes 716 us of kernels with queries, keys and values joined, 641 with keys beside values.
Source: IREE's horizontal contraction fusion; TensorRT's joined QKV projections.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders, cost
from mlirfuse.builders import contraction_builder
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

MOST = 4
"""Contractions that are joined: queries, keys and values, or a gate besides."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Beside:
    """Contractions of equal shape that become one of several results.

    Attributes:
      products: the contractions, in block order.
      readers: the elementwise ops that come along, in block order.
    """

    products: list[ir.Operation]
    readers: list[ir.Operation]

    @property
    def ops(self) -> list[ir.Operation]:
        return slices.in_order([*self.products, *self.readers])


@dataclasses.dataclass(frozen=True, slots=True)
class _Joined:
    """Contractions whose weights become one.

    Attributes:
      chains: each contraction with the casts and biases that all of them have, in order.
      heads: for each the reshape in heads that is all that reads it; none where one differs.
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
    """Finds the contractions of which the root is the last."""
    if not ops.is_contraction(root):
        return None
    siblings = sibling_contractions.siblings(root)
    if len(siblings) < 2 or siblings[-1] != root:
        return None
    if None in (ops.shape(op.results[0])[-1] for op in siblings):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the number of columns is dynamic")
    beside, joined = _beside(siblings, ctx), _joined(siblings, ctx)
    if isinstance(beside, NoMatch) and isinstance(joined, NoMatch):
        return beside if joined.reason is Reason.CONSTANT_UNVERIFIED else joined
    plans = [form for form in (beside, joined) if not isinstance(form, NoMatch)]
    best = max(plans, key=lambda plan: _gain(plan, ctx))
    return Match(root, tuple(best.ops), best)


def _beside(siblings: list[ir.Operation], ctx: PassContext) -> _Beside | NoMatch:
    """The contractions of the last one's shape."""
    sizes = ops.shape(siblings[-1].results[0])
    products = [op for op in siblings if ops.shape(op.results[0]) == sizes][-MOST:]
    if len(products) < 2:
        return NoMatch(Reason.SHAPE_MISMATCH, "the contractions have different numbers of columns")
    readers = epilogues.users_in_place(products, ctx.target.max_operands)
    members = {*products, *readers}
    if any(ops.defining_op(v) in members for op in products for v in op.operands):
        return NoMatch(Reason.WOULD_CYCLE, "a contraction reads what another one makes")
    missing = matrix_instructions.no_matrix_instructions(products[-1], sizes[-1] or 0, ctx.target)
    if missing:
        return NoMatch(Reason.NOT_PROFITABLE, missing)
    return _Beside(products, readers)


def _joined(siblings: list[ir.Operation], ctx: PassContext) -> _Joined | NoMatch:
    """The contractions whose constant weights are read as the last one's is."""
    if ctx.target.kernels:
        return NoMatch(Reason.NOT_PROFITABLE, "kernels read whole tensors: parts would be copied")
    maps = ops.indexing_maps(siblings[-1])
    constant = [op for op in siblings if ops.is_constant_data(op.operands[1])]
    products = [op for op in constant if ops.indexing_maps(op) == maps][-MOST:]
    if len(products) < 2:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the second operands are no constants")
    chains = _chains(products)
    for chain in chains:
        lost = epilogues.epilogue(chain[0], ctx.target.max_operands)[len(chain) - 1 :]
        if lost:
            return NoMatch(Reason.NOT_PROFITABLE, f"{lost[0].name} would lose its contraction")
    return _Joined(
        chains, contraction_splits.head_splits([chain[-1].results[0] for chain in chains])
    )


def _chains(products: list[ir.Operation]) -> list[list[ir.Operation]]:
    """Each contraction with the casts and constant biases that all of them have alike."""
    chains = [[op] for op in products]
    for step in zip(*map(epilogue_addends.biases, products), strict=False):
        ends = [chain[-1].results[0] for chain in chains]
        beside = (v for op in step for v in ops.inputs(op) if v not in ends)
        alike = all(equivalence.are_equivalent(step[0], op) for op in step[1:])
        if not (alike and all(map(ops.is_constant_data, beside))):
            break
        for op, chain in zip(step, chains, strict=True):
            chain.append(op)
    return chains


def _gain(plan: _Beside | _Joined, ctx: PassContext) -> float:
    """Modelled microseconds that the one contraction saves."""
    target = ctx.target
    if isinstance(plan, _Beside):
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


def _reads_in_place(reader: ir.Operation) -> bool:
    """Whether IREE reads a slice where it is for this op: all but reshapes, which want it whole."""
    return reader.name == ops.REGION or ops.is_elementwise(reader)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that the group's code generation was not tested for."""
    return legal_float(match)


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses what the model gives no gain for, and products that are packed one by one."""
    if ctx.target.packed_tiles and ops.element_type(match.root.operands[1]) == "f32":
        return NoMatch(Reason.NOT_PROFITABLE, "with packed weights each is at the machine's peak")
    gain = _gain(match.data, ctx)
    return None if gain > 0 else NoMatch(Reason.NOT_PROFITABLE, f"{-gain:.2f} us slower")


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the one contraction and what follows it."""
    plan: _Beside | _Joined = match.data
    place = builders.make_room(plan.ops)
    with ir.InsertionPoint(place), match.root.location:
        made = _build_beside(plan) if isinstance(plan, _Beside) else _build_joined(plan)
    for op in reversed(match.ops):
        op.erase()
    return builders.form_region(made)


def _build_beside(plan: _Beside) -> list[ir.Operation]:
    columns = [(op, op.operands[1]) for op in plan.products]
    made = [contraction_builder.side_by_side(columns)]
    known = dict(zip((op.results[0] for op in plan.products), made[0].results, strict=True))
    for op in plan.readers:
        made.append(contraction_builder.elementwise(op, known))
        known[op.results[0]] = made[-1].results[0]
    for old, new in known.items():
        old.replace_all_uses_with(new)
    return made


def _build_joined(plan: _Joined) -> list[ir.Operation]:
    made = contraction_builder.joined(plan.chains)
    whole, ends = made[-1].results[0], plan.ends
    axis = len(ops.shape(whole)) - 1
    if plan.heads:
        first = slices.in_order(plan.heads)[0]
        split = ops.reassociation(first)
        axis = split[-1][0]
        sizes = list(ops.shape(first.results[0]))
        sizes[axis] = sum(_sizes(ends, axis))
        whole = builders.expand(whole, split, sizes, list(first.operands)[1:])
    widths = _sizes(ends, axis)
    offsets = itertools.accumulate(widths, initial=0)
    for end, offset, width in zip(ends, offsets, widths, strict=False):
        part = contraction_builder.take(whole, axis, offset, width)
        end.replace_all_uses_with(part.results[0])
    return made


def _sizes(values: Sequence[ir.Value], axis: int) -> list[int]:
    """The sizes of one axis, which is static."""
    return [size for value in values if (size := ops.shape(value)[axis]) is not None]


PASS = FusionPass(
    name="matmul_horizontal_fusion",
    summary="Contractions that share an input become one, of several results or of joined weights",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    legal=legal,
    profitable=profitable,
    rewrite=rewrite,
    kind=Kind.SIBLING,
    targets=frozenset({"cuda", "rocm", "vulkan"}),
    source="IREE's horizontal contraction fusion; TensorRT's joined QKV projections",
)
