"""Fuse a rotary embedding: slices, negation, concatenation, multiplications and sum.

    %r = linalg.generic {extract %q at the other half, negated in the first}
    %a = linalg.generic {mulf} ins(%q, %cos)           tensor<BxHxSxDxT>
    %b = linalg.generic {mulf} ins(%r, %sin)
    %y = linalg.generic {addf} ins(%a, %b)
  becomes
    %y = flow.dispatch.region { all of it }

  and the rotation of two halves (or of the elements of pairs),
    %l = linalg.generic {q1 * cos - q2 * sin}          tensor<BxHxSx(D/2)xT>
    %h = linalg.generic {q2 * cos + q1 * sin}
    %i = tensor.insert_slice %l into %empty[0, 0, 0, 0]
    %y = tensor.insert_slice %h into %i[0, 0, 0, D/2]
  becomes
    %g = flow.dispatch.region { linalg.generic {select} }  tensor<BxHxSx2x(D/2)xT>
    %y = tensor.collapse_shape %g

Root: the swap of halves that IREE makes of slices, negation and concatenation; or the second
insertion of two halves that fill a tensor and are computed elementwise from the same tensors by ops
without other users, with the rounding that alone reads the tensor, or a reshape of it. The
multiplications may be users of a contraction: the swap is a second user of it, so they are not its
epilogue. A swap in the result of a transpose (heads of a projection) reads the heads where they
are, and the transpose vanishes; adjacent heads of one projection, queries and keys, rotate as one
where nothing else differs. Static or dynamic leading dimensions; any floating-point type. Numerics:
exact.
Source: J. Su et al., RoFormer, 2021; MindSpore's rotary embedding.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import form_region, half_concat_builder, reshape_builder, rotation_builder
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import gathers, half_concat
from mlirfuse.structured.recognize.rotations import Rotations, rotations


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a rotation with its multiplications, or two halves from the same tensors."""
    if root.name == "tensor.insert_slice":
        pair = half_concat.halves(root)
        if pair is None or isinstance(pair, NoMatch):
            return pair
        return Match(root, tuple(pair.ops), pair)
    if not gathers.is_rotation(root):
        return None
    if gathers.reads_transposed(root):
        several = rotations(root, ctx.target.max_operands)
        return several if isinstance(several, NoMatch) else Match(root, tuple(several.ops), several)
    found = gathers.gathered(root, ctx.target.max_operands, takes_epilogues=True)
    if found is None or isinstance(found, NoMatch):
        return found
    return Match(root, tuple(found.ops), found)


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses rotations of other than floating-point values, and too many operands."""
    if not ops.is_float(match.root.results[0]):
        return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(match.root.results[0]))
    if isinstance(match.data, half_concat.Halves):
        bound = len({value for value, _ in match.data.leaves}) + 1
        if bound > ctx.target.max_operands:
            return NoMatch(Reason.TOO_MANY_OPERANDS, f"{bound} operands and results")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into one dispatch region, over a space with a loop over the halves."""
    if isinstance(match.data, Rotations):
        return form_region(rotation_builder.unmoved(match.data))
    if isinstance(match.data, half_concat.Halves):
        return form_region([half_concat_builder.merged(match.data)])
    return form_region(reshape_builder.over_one_space(match.data))


PASS = FusionPass(
    name="rope_fusion",
    summary="Rotary embedding in one dispatch",
    roots=("linalg.generic", "tensor.insert_slice"),
    match=match,
    legal=legal,
    rewrite=rewrite,
    source="RoFormer; MindSpore's rotary embedding",
)
