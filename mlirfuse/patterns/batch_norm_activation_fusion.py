"""Fuse a batch norm for inference with its activation, in one dispatch.

    %d = linalg.generic {subf} ins(%x, %mean)          %mean, %scale, %shift: tensor<CxT>
    %m = linalg.generic {mulf} ins(%d, %scale)         tensor<NxCxHxWxT>
    %s = linalg.generic {addf} ins(%m, %shift)
    %y = linalg.generic {activation} ins(%s)           optional
  becomes
    %y = flow.dispatch.region { all of it }

Root: the first op that combines each channel with a scalar of its own: a subtraction, addition,
multiplication or division. At least one op scales and one shifts. The elementwise epilogue is fused
as long as only its last op has users elsewhere, and so are producers that only the group uses, such
as the root of the variance. Parameters constant or not. The epilogue of a convolution or of another
contraction is left to the passes of that op, ops next to a reduction in no group to IREE. Sizes
static or dynamic; T f16, bf16, f32. Numerics: exact.
Source: the fusion plans of AMD's MIOpen (N, NA).
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import fusable_neighbors, ops
from mlirfuse.structured.recognize import channels


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds channels that are scaled and shifted."""
    group = channels.batch_norm_group(root, ctx.target.max_operands)
    if group is None or isinstance(group, NoMatch):
        return group
    return Match(root, tuple(group))


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses other element types, and the epilogue of a contraction."""
    for value in (*ops.inputs(match.root), *match.root.results, *match.ops[-1].results):
        if not ops.is_float(value):
            return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(value))
    if fusable_neighbors.is_epilogue_of_compute(match.root):
        return NoMatch(Reason.LEFT_TO_PRODUCER, match.root.name)
    if any(map(fusable_neighbors.is_adjacent_to_reduction, match.ops)):
        return NoMatch(Reason.LEFT_TO_PRODUCER, "a reduction next to it is in no group")
    return None


PASS = FusionPass(
    name="batch_norm_activation_fusion",
    summary="Batch norm for inference with its activation in one dispatch",
    roots=("linalg.generic",),
    match=match,
    legal=legal,
    rewrite=fuse,
    source="MIOpen fusion plans",
)
