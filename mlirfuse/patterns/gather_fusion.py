"""Fuse a gather with the computation of its indices and with its elementwise users.

    %i = linalg.generic {index arithmetic} ins(%ids)   tensor<BxSxi64>, optional
    %g = linalg.generic {tensor.extract %table} ins(%i)  tensor<BxSxNxT>
    %y = linalg.generic {addf} ins(%g, %position)      tensor<BxSxNxT>
  becomes
    %y = flow.dispatch.region { all of it }

Root: an elementwise op that reads a tensor at computed indices: an embedding, a `take`, an indexing
by arrays. Fused with it: producers that only the group uses, also further gathers, and the
elementwise epilogue, as long as only its last op has users elsewhere. A gather from the result of a
transpose is left to IREE, which moves the transpose (one dispatch less). Sizes static or dynamic;
any element type. Numerics: exact.

Where the result goes into one reduction alone, a kernel computes both (`axis_reduction_fusion`);
so does it where concatenations alone read the result (`movement_fusion`).

The ops around a gather must not be a group without it: IREE, left alone, makes one dispatch of the
whole chain; `elementwise_fusion`, which groups arithmetic only, made two of it.
Source: fusion of producers and consumers with XLA's gather.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.builders import form_region, reshape_builder
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.reduction import grouping, prologues
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import gathers
from mlirfuse.structured.recognize.norm_epilogues import Extension, reduces_rows
from mlirfuse.targets.base import Target


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a gather with elementwise neighbors."""
    if not gathers.is_gather(root):
        return None
    found = gathers.gathered(root, ctx.target.max_operands)
    if found is None or isinstance(found, NoMatch):
        return found
    last = found.ops[-1].results[0]
    if triton_compiler.supports(ctx.target):
        if grouping.is_read_by_reduction_alone(last):
            return None  # `axis_reduction_fusion` takes both.
        if all(_concatenates(user, last) for user in ops.users(last)):
            return None  # `movement_fusion` takes both.
    if _are_prologue_of_rows(found.ops, ctx.target):
        return None  # `norm_prologue_fusion` takes both.
    return Match(root, tuple(found.ops), found)


def _concatenates(user: ir.Operation, part: ir.Value) -> bool:
    """Whether an op concatenates a part with others, in a tensor that is empty before."""
    if user.name == "tensor.concat":
        return True
    if user.name != "tensor.insert_slice" or user.operands[0] != part:
        return False
    whole = ops.defining_op(user.operands[1])
    while whole is not None and whole.name == "tensor.insert_slice":
        whole = ops.defining_op(whole.operands[1])
    return whole is not None and whole.name == "tensor.empty"


def _are_prologue_of_rows(gathered: Sequence[ir.Operation], target: Target) -> bool:
    """Whether ops are the prologue of a group of row reductions, which alone reads their result."""
    users = ops.users_through_reshapes(gathered[-1].results[0])
    regions = {user.parent.operation for user in users if ops.in_region(user)}
    if len(regions) != 1 or not all(map(ops.in_region, users)):
        return False
    (region,) = regions
    if not reduces_rows(region):
        return False
    found = prologues.find(region, target)
    return isinstance(found, Extension) and all(op in found.ops for op in gathered)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into one dispatch region, over the iteration space with no dimensions merged."""
    return form_region(reshape_builder.over_one_space(match.data))


PASS = FusionPass(
    name="gather_fusion",
    summary="Gather or embedding with its index arithmetic and its users in one dispatch",
    roots=("linalg.generic",),
    match=match,
    rewrite=rewrite,
    source="XLA's fusion of gathers",
)
