"""Fuse a group norm, or an instance norm, with its scale and shift into one dispatch.

    %m = mean(%x), %v = mean((%x - %m)^2)              tensor<NxGxLxT> -> tensor<NxGxT>
    %n = (%x - %m) * rsqrt(%v + eps)                   tensor<NxGxLxT>
    %y = reshape(%n) * %gamma + %beta                  tensor<NxCxHxWxT>, tensor<CxT>
  becomes
    %r = flow.dispatch.region { all of it }            tensor<NxGxC/GxHWxT>
    %y = reshape(%r)

Root: the last elementwise op that scales or shifts by channel. Channels before or after the spatial
axes; an instance norm is the case of one channel a group. The reshapes vanish: every op is written
over (batch, group, channel of the group, space). N static or dynamic, the rest static; T f16, bf16,
f32. A norm without a scale or shift by channel is left to `layer_norm_fusion`. Vulkan: one channel
a group only, since IREE keeps rows of several dimensions in more workgroup memory than there is.
CUDA and ROCm: small groups only with channels last, since IREE unrolls them.
Numerics: exact (operations and their order are unchanged).
Source: Wu, He, Group Normalization, 2018, equations 1 to 6.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import form_region
from mlirfuse.builders.iteration_space_builder import respace
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.structured.ir import slices
from mlirfuse.structured.ir.common_iteration_space import Space, common_space
from mlirfuse.structured.ir.legality import lowering_refusal
from mlirfuse.structured.recognize.group_norms import find_group_norm
from mlirfuse.structured.recognize.norm_matches import legal_norm, may_end_layer_norm


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the group norm that ends at `root`."""
    stops = find_group_norm(root.results[0])
    if stops is None:
        return None
    group = slices.backward_slice(root, stops)
    space = common_space(group)
    return Match(root, tuple(group), space) if isinstance(space, Space) else space


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses element types that were not tested, and forms that IREE generates no SPIR-V for."""
    return legal_norm(match, ctx) or lowering_refusal(match.data, ctx.target)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Writes the ops over one iteration space and puts them into one dispatch region."""
    return form_region(respace(match.ops, match.data))


PASS = FusionPass(
    name="group_norm_fusion",
    summary="Group or instance norm with its scale and shift by channel in one dispatch",
    roots=("linalg.generic",),
    where=may_end_layer_norm,
    match=match,
    legal=legal,
    rewrite=rewrite,
    aliases=("instance_norm_fusion",),
    source="Wu, He 2018, equations 1-6",
)
