"""Mark the contractions that a CPU computes on packed operands, and fence off the others.

    %c = linalg.batch_matmul ins(%p, %v)               tensor<BxMxDxT>
    %x = tensor.collapse_shape %c'                     tensor<MxKxT>
    %y = linalg.matmul ins(%x, %w)                     tensor<MxNxT>
  becomes
    %c = iree_tensor_ext.compute_barrier.start (linalg.batch_matmul ins(%p, %v))
    %y = linalg.matmul {iree.opt.data_tiling} ins(%x, %w)

Root: a contraction, or the group that holds it. Marked: unbatched matmuls. IREE's own rule marks
batched ones too; for attention that is slower (the packing of 48x128x128 f32 takes half of the
matmul's time) and with batch 1 it does not compile (packing of an i1 mask; vectors of 32 KiB). A
batched contraction whose result becomes an operand of a marked one is fenced: the packing would
become its epilogue, which takes 3500 us instead of 195 us for 4x12x128x32x128 f32. All with IREE
3.13.0, two threads of an AMD EPYC, AVX-512.

Not marked:
- a matmul with an i1 mask in its epilogue: the mask would be packed too, and a packed i1 does not
  compile;
- a matmul with an operand of a single element;
- N smaller than a vector register of the target, where packing is a dispatch more;
- a dynamic K with an operand that another dispatch computes, which would pack it and does not
  compile (affine.delinearize_index);
- bf16 where the target has no instructions for it: IREE's microkernel is a loop over scalars there,
  128x1024x1024 takes 550 ms, its code without packing 11.

Any element type otherwise; static sizes where it fences.
Numerics: exact.
Source: IREE, annotation of data-tiling hints.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import data_tiling, ops
from mlirfuse.structured.recognize import contractions, epilogues

_GIVEN = frozenset(
    {
        *("arith.constant", "hal.tensor.import", "iree_tensor_ext.compute_barrier.start"),
        "util.global.load",
    }
)
"""Ops that no dispatch computes."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds an unbatched matmul, or a batched one that feeds it."""
    contraction = _contraction(root)
    if contraction is None or data_tiling.DATA_TILING_HINT in contraction.attributes:
        return None
    if _is_plain(contraction):
        if any(ops.num_elements(v, dynamic_size=2) == 1 for v in ops.inputs(contraction)):
            return NoMatch(Reason.TARGET_UNSUPPORTED, "an operand of one element is not packed")
        if _packs_dynamic_k(contraction):
            detail = "of a computed operand with dynamic K, which IREE cannot pack"
            return NoMatch(Reason.DYNAMIC_SHAPE, detail)
        mask = _mask_user(contraction.results[0])
        if mask is not None:
            detail = f"i1, read by {ops.described(mask)}: IREE packs it with the matmul"
            return NoMatch(Reason.ELEMENT_TYPE, detail)
        if not ctx.target.bf16_instructions and _reads_bf16(contraction):
            return NoMatch(Reason.TARGET_UNSUPPORTED, f"bf16, which {ctx.target} has no code for")
        n = ops.shape(contraction.results[0])[-1]
        sizes = ctx.target.cpu_tiles
        if n is not None and sizes is not None and n < sizes.min_data_tiled_n:
            detail = f"N is {n}, less than {sizes.min_data_tiled_n}"
            return NoMatch(Reason.NOT_PROFITABLE, detail)
        return Match(root, (root,), _Mark(contraction))
    value = _end(root, contraction, ctx)
    if not _feeds_plain(value):
        return None
    if None in ops.shape(value):
        return NoMatch(Reason.DYNAMIC_SHAPE, "IREE cannot see sizes through a barrier")
    return Match(root, (root,), _Fence(value))


@dataclasses.dataclass(frozen=True, slots=True)
class _Mark:
    """The contraction to mark."""

    contraction: ir.Operation


@dataclasses.dataclass(frozen=True, slots=True)
class _Fence:
    """The value to fence."""

    value: ir.Value


def _end(root: ir.Operation, contraction: ir.Operation, ctx: PassContext) -> ir.Value:
    """The value that the contraction's elementwise epilogue ends in, transposes left out."""
    if root != contraction:
        return root.results[0]
    chain = epilogues.epilogue(contraction, ctx.target.max_operands)
    return [contraction, *(op for op in chain if not ops.is_projection(op))][-1].results[0]


def _contraction(op: ir.Operation) -> ir.Operation | None:
    """The op itself, or the one contraction of a group."""
    if op.name != ops.REGION:
        return op if ops.is_contraction(op) else None
    block = op.regions[0].blocks[0]
    found = [o.operation for o in block.operations if ops.is_contraction(o.operation)]
    return found[0] if len(found) == 1 and len(op.results) == 1 else None


def _is_plain(contraction: ir.Operation) -> bool:
    """Whether it is an unbatched matmul."""
    return len(ops.iterator_types(contraction)) == 3 and not contractions.batch_loops(contraction)


def _packs_dynamic_k(contraction: ir.Operation) -> bool:
    """Whether a dispatch of the program would pack an operand along a dynamic K."""
    kinds = ops.iterator_types(contraction)
    if ops.loop_sizes(contraction)[kinds.index("reduction")] is not None:
        return False
    made = [ops.defining_op(v) for v in ops.inputs(contraction)]
    return any(op is not None and op.name not in _GIVEN for op in made)


def _reads_bf16(contraction: ir.Operation) -> bool:
    return any(ops.element_type(value) == "bf16" for value in ops.inputs(contraction))


def _mask_user(value: ir.Value) -> ir.Operation | None:
    """The elementwise op among the packed value's transitive users that reads an i1 tensor."""
    for user in ops.users(value):
        if not ops.is_generic(user) or not ops.is_elementwise(user):
            continue
        if any(ops.ranked(v) and ops.element_type(v) == "i1" for v in ops.inputs(user)):
            return user
        found = _mask_user(user.results[0])
        if found is not None:
            return found
    return None


def _feeds_plain(value: ir.Value) -> bool:
    """Whether the value, reshaped or transposed, is an operand of an unbatched matmul."""
    for user in ops.users(value):
        outer = ops.ancestor_in(ops.block_of(value), user)
        if outer is None:
            continue
        contraction = _contraction(outer)
        if contraction is not None and _is_plain(contraction):
            return True
        moves = outer.name in ops.RESHAPES or ops.is_projection(outer)
        if moves and _feeds_plain(outer.results[0]):
            return True
    return False


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Marks the contraction, or fences its result."""
    if isinstance(match.data, _Mark):
        with match.root.context:
            match.data.contraction.attributes[data_tiling.DATA_TILING_HINT] = ir.UnitAttr.get()
    else:
        builders.fence(match.data.value)
    return match.root


PASS = FusionPass(
    name="data_tiling_rewrite",
    summary="Unbatched matmuls are marked for data tiling, batched ones fenced off",
    roots=(ops.REGION, *contractions.ROOTS),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    targets=frozenset({"cpu"}),
    source="IREE, AnnotateDataTilingHints",
)
