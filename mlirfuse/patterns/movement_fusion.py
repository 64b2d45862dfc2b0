"""Group ops that move data with the elementwise ops around them, for a kernel.

    %a = linalg.generic {sin} ins(%x)                  tensor<MxAxT>
    %i = tensor.insert_slice %a into %empty[0, 0]      tensor<Mx(A+B)xT>
    %c = tensor.insert_slice %z into %i[0, A]
    %y = linalg.generic {relu} ins(%c)
  becomes
    %y = flow.dispatch.region { all of it }

Root: the last of a chain of paddings, concatenations (`tensor.concat`, or insertions into an empty
tensor) and slices, of which a slice alone is one only with strides or where it is not contiguous;
or a gather or a flip of a tensor that elementwise ops compute for it alone, of no more elements, or
that another gather moves for it; or an elementwise op that reads such a tensor with its dimensions
in another order.
Elementwise producers and further moves that only the group uses join it, and so does the
elementwise epilogue, or all elementwise ops over its loops where several ops read the result.
Static shapes, one constant as padding; any element type. Numerics: exact.

A concatenation of tensors in memory is left to `concat_triton_kernel`, one of which groups compute
more than half to `concat_fusion`, and a padding of what a group computes to `pad_fusion`: the group
writes in place. A padding that a convolution or a pooling reads is left to it. Nothing is grouped
where Triton is missing.

IREE 3.13.0 copies each part in a dispatch of its own, which reads and writes single elements.
Source: fusion of concatenations and paddings, as in torch.compile.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.attention.analysis import ATTENTION_OP
from mlirfuse.kernels.codegen.demand_writer import MOVEMENTS
from mlirfuse.kernels.data_movement import analysis
from mlirfuse.kernels.data_movement.analysis import INSERT
from mlirfuse.kernels.pointwise import profitability
from mlirfuse.kernels.vector import movement
from mlirfuse.structured.ir import fusable_neighbors, ops, slices
from mlirfuse.structured.recognize import epilogues, gathers


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the last move of a chain."""
    value = root.results[0]
    users = ops.users(value)
    device = ctx.target.cpu
    if device is None and not triton_compiler.supports(ctx.target):
        return None
    if ops.in_region(root) or not users:
        return None
    if None in ops.shape(value) or not ops.shape(value) or _is_view(root):
        return None
    if len(users) == 1 and users[0].name in MOVEMENTS and users[0].block == root.block:
        return None  # that one is the root
    if any(u.name == "tensor.insert_slice" and u.operands[1] == value for u in users):
        return None
    if not _is_concatenation(root) and any(_takes_padding(u) for u in users):
        return None
    permuted = _permuted_producers(root)
    if ops.is_generic(root) and not permuted and not gathers.computed_sources(root):
        return None
    most = ctx.target.max_operands
    chain = epilogues.epilogue(root, most) or epilogues.users_in_place([root], most)
    refusal: NoMatch | None = None
    for after in [chain, []] if chain else [[]]:
        group = _with_producers([root, *after])
        if permuted and not permuted & set(group):
            return None  # others read the tensor, too
        if all(op.name == "tensor.insert_slice" for op in group):
            return None  # left to `concat_triton_kernel`
        refusal = slices.check(group, ctx.target.max_operands, on_demand=True)
        if device is None:
            refusal = refusal or profitability.refusal(group, ctx.target)
        elif refusal is None:
            planned = movement.plan_group(group, slices.results_of(group), device)
            if planned is None:
                return None
            refusal = planned if isinstance(planned, NoMatch) else None
        if refusal is None:
            return Match(root, tuple(group))
    return refusal


def _permuted_producers(op: ir.Operation) -> set[ir.Operation]:
    """The elementwise ops in no group whose results an elementwise op reads permuted."""
    if not ops.is_elementwise(op) or not fusable_neighbors.has_scalar_body(op):
        return set()
    if fusable_neighbors.is_adjacent_to_reduction(op):
        return set()
    read = zip(ops.inputs(op), ops.indexing_maps(op), strict=False)
    found = {ops.defining_op(value) for value, index_map in read if _is_permuted(index_map)}
    return {producer for producer in found if producer is not None and _is_free(producer)}


def _is_permuted(index_map: ops.IndexMap | None) -> bool:
    """Whether an indexing map has loops in another order."""
    loops = [loop for loop in index_map or () if loop is not None]
    return loops != sorted(loops)


def _reads_permuted(op: ir.Operation) -> bool:
    """Whether an elementwise op has an operand whose dimensions it reads in another order."""
    return ops.is_elementwise(op) and any(map(_is_permuted, ops.indexing_maps(op)))


def _is_free(op: ir.Operation) -> bool:
    """Whether an op is elementwise arithmetic in no group that no op above fuses."""
    if not ops.is_elementwise(op) or ops.in_region(op):
        return False
    if fusable_neighbors.is_epilogue_of_compute(op):
        return False
    return fusable_neighbors.has_scalar_body(op)


def _is_view(op: ir.Operation) -> bool:
    """Whether an op is a slice of adjacent elements, or one that its users read in place."""
    if op.name != "tensor.extract_slice":
        return False
    boxes, source = ops.static_slice(op), ops.shape(op.operands[0])
    users = ops.users(op.results[0])
    if any(ops.is_elementwise(user) or user.name == ops.REGION for user in users):
        return True
    # Kernels of attention read slices in place.
    if any(user.name == ATTENTION_OP for user in ops.users_through_reshapes(op.results[0])):
        return True
    if boxes is None:
        return ops.has_unit_strides(op)
    partial = [n for n, (_, size) in enumerate(boxes) if size != source[n]]
    # All dimensions before the last one that is not whole have one element.
    return all(boxes[n][1] == 1 for n in range(partial[-1])) if partial else True


def _is_concatenation(op: ir.Operation) -> bool:
    """Whether an op is the last insertion of parts that fill a tensor, or inserts them all."""
    if op.name == "tensor.concat":
        return True
    parts = analysis.chain(op) if op.name == INSERT else []
    return bool(parts) and not isinstance(analysis.analyze_chain(parts), NoMatch)


def _takes_padding(op: ir.Operation) -> bool:
    """Whether an op in no group reads a window of its operand."""
    if not op.name.startswith("linalg."):
        return False  # perhaps an op in a scalar body, about which no analysis may be cached
    return fusable_neighbors.is_compute(op) or op.name.startswith("linalg.pooling")


def _with_producers(users: list[ir.Operation]) -> list[ir.Operation]:
    """The ops, with the elementwise ops and moves that only they use."""

    def accepts(op: ir.Operation) -> bool:
        if ops.in_region(op) or None in ops.shape(op.results[0]):
            return False
        if op.name in MOVEMENTS:
            return True
        if not ops.is_elementwise(op) or fusable_neighbors.is_epilogue_of_compute(op):
            return False
        return gathers.is_gather(op) or fusable_neighbors.has_scalar_body(op)

    def grown(group: list[ir.Operation]) -> list[ir.Operation]:
        return slices.in_order({*slices.exclusive_producers(group, accepts), *group})

    return gathers.with_sources(users, grown)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves parts that a group can write in place to it."""
    if analysis.is_written_in_place(match.ops):
        return NoMatch(Reason.LEFT_TO_PRODUCER, "the groups that compute most of it write in place")
    return None


PASS = passes.group_pass(
    name="movement_fusion",
    summary="Paddings, concatenations and slices with elementwise neighbors, for a kernel",
    roots=(
        *("linalg.generic", "tensor.concat", "tensor.extract_slice", "tensor.insert_slice"),
        "tensor.pad",
    ),
    where=lambda op: not ops.is_generic(op) or gathers.is_gather(op) or _reads_permuted(op),
    match=match,
    legal=legal,
    computes_on_demand=True,
    targets=frozenset({"cpu", "cuda", "rocm"}),
)
