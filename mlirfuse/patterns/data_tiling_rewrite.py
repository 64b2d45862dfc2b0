"""Say which contractions a CPU computes on packed operands, and keep the packing out of others.

    %c = linalg.batch_matmul ins(%p, %v)               tensor<BxMxDxT>
    %x = tensor.collapse_shape %c'                     tensor<MxKxT>
    %y = linalg.matmul ins(%x, %w)                     tensor<MxNxT>
  becomes
    %c = iree_tensor_ext.compute_barrier.start (linalg.batch_matmul ins(%p, %v))
    %y = linalg.matmul {iree.opt.data_tiling} ins(%x, %w)

Root: a contraction, or the group that holds it. Marked: contractions of two matrices. IREE's own
rule marks batched ones too; for attention that is slower (the packing of 48x128x128 f32 takes half
of the product's time) and with batch 1 it does not compile (packing of an i1 mask; vectors of 32
KiB). A batched contraction whose result becomes an operand of a marked one is fenced: the packing
would become its epilogue, which takes 3500 us instead of 195 us for 4x12x128x32x128 f32. All with
IREE 3.13.0, two threads of an AMD EPYC, AVX-512. A mask that an elementwise op behind the product
reads would be packed, too, and a packed i1 does not compile: such a product is not marked, nor one
with an operand of a single element, nor one of fewer columns than a register holds, where packing
is a dispatch more, nor one of a dynamic number of terms that reads what another dispatch computes,
which would pack it and does not compile (affine.delinearize_index). Other element types all are;
static sizes where it fences.
Numerics: exact.
Source: IREE, annotation of data-tiling hints.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import contractions

_GIVEN = frozenset(
    {
        *("arith.constant", "hal.tensor.import", "iree_tensor_ext.compute_barrier.start"),
        "util.global.load",
    }
)
"""Ops that no dispatch computes."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction of two matrices, or a batched one that feeds such a contraction."""
    contraction = _contraction(root)
    if contraction is None or contractions.DATA_TILING_HINT in contraction.attributes:
        return None
    if _is_plain(contraction):
        if any(ops.num_elements(v, dynamic_size=2) == 1 for v in ops.inputs(contraction)):
            return NoMatch(Reason.TARGET_UNSUPPORTED, "an operand of one element is not packed")
        if _packs_unknown_terms(contraction):
            detail = "of a computed operand with dynamic terms, which IREE cannot pack"
            return NoMatch(Reason.DYNAMIC_SHAPE, detail)
        mask = _mask_behind(contraction.results[0])
        if mask is not None:
            detail = f"i1, read by {ops.described(mask)}: IREE packs it with the product"
            return NoMatch(Reason.ELEMENT_TYPE, detail)
        columns = ops.shape(contraction.results[0])[-1]
        sizes = ctx.target.cpu_tiles
        if columns is not None and sizes is not None and columns < sizes.min_data_tiled_n:
            detail = f"{columns} columns, fewer than {sizes.min_data_tiled_n}"
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
    chain = contractions.epilogue(contraction, ctx.target.max_operands)
    return [contraction, *(op for op in chain if not ops.is_projection(op))][-1].results[0]


def _contraction(op: ir.Operation) -> ir.Operation | None:
    """The op itself, or the one contraction of a group."""
    if op.name != ops.REGION:
        return op if ops.is_contraction(op) else None
    block = op.regions[0].blocks[0]
    found = [o.operation for o in block.operations if ops.is_contraction(o.operation)]
    return found[0] if len(found) == 1 and len(op.results) == 1 else None


def _is_plain(contraction: ir.Operation) -> bool:
    """Whether it multiplies two matrices."""
    return len(ops.iterator_types(contraction)) == 3 and not contractions.batch_loops(contraction)


def _packs_unknown_terms(contraction: ir.Operation) -> bool:
    """Whether a dispatch of the program would pack an operand of a dynamic number of terms."""
    kinds = ops.iterator_types(contraction)
    if ops.loop_sizes(contraction)[kinds.index("reduction")] is not None:
        return False
    made = [ops.defining_op(v) for v in ops.inputs(contraction)]
    return any(op is not None and op.name not in _GIVEN for op in made)


def _mask_behind(value: ir.Value) -> ir.Operation | None:
    """The elementwise op that brings an i1 tensor into what IREE computes on packed values."""
    for user in ops.users(value):
        if not ops.is_generic(user) or not ops.is_elementwise(user):
            continue
        if any(ops.ranked(v) and ops.element_type(v) == "i1" for v in ops.inputs(user)):
            return user
        found = _mask_behind(user.results[0])
        if found is not None:
            return found
    return None


def _feeds_plain(value: ir.Value) -> bool:
    """Whether the value, reshaped or transposed, is an operand of a product of two matrices."""
    for user in ops.users(value):
        reader = ops.ancestor_in(ops.block_of(value), user)
        if reader is None:
            continue
        contraction = _contraction(reader)
        if contraction is not None and _is_plain(contraction):
            return True
        moves = reader.name in ops.RESHAPES or ops.is_projection(reader)
        if moves and _feeds_plain(reader.results[0]):
            return True
    return False


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Marks the contraction, or fences its result."""
    if isinstance(match.data, _Mark):
        with match.root.context:
            match.data.contraction.attributes[contractions.DATA_TILING_HINT] = ir.UnitAttr.get()
    else:
        builders.fence(match.data.value)
    return match.root


PASS = FusionPass(
    name="data_tiling_rewrite",
    summary="Contractions of two matrices are marked for data tiling, batched ones kept apart",
    roots=(ops.REGION, *contractions.ROOTS),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    targets=frozenset({"cpu"}),
    source="IREE, AnnotateDataTilingHints",
)
