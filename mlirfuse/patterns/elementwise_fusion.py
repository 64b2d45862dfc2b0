"""Fuse chains and trees of elementwise ops into one dispatch.

    %a = linalg.generic {mulf} ins(%x, %y)             tensor<MxNxT>
    %b = linalg.generic {addf} ins(%a, %bias)          tensor<MxNxT>
    %c = linalg.generic {tanh} ins(%b)                 tensor<MxNxT>
  becomes
    %c, %a = flow.dispatch.region { all of it }        // %a only if read elsewhere

Root: the last op of the tree. All ops have the root's iteration space, or a smaller one that the
root's broadcasts, in which case nobody else may read them. An op that alone reads a contraction, a
convolution or a pooling stays with it: IREE makes it their epilogue. Bodies of arithmetic only; any
shape and element type. Numerics: exact.
Source: loop fusion, as in every compiler of this field.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import form_region
from mlirfuse.core import FusionPass, Match, NoMatch, PassContext, Reason
from mlirfuse.structured import growth, ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Grows the tree of elementwise ops that ends at `root`."""
    if not ops.is_elementwise(root) or not growth.has_scalar_body(root):
        return None
    if growth.is_epilogue_of_compute(root):
        return NoMatch(Reason.LEFT_TO_PRODUCER, root.name)
    return Match(root, tuple(growth.grow(root, _accept)))


def _accept(producer: ir.Operation, reader: ir.Operation, value: ir.Value) -> bool:
    if not ops.is_elementwise(producer) or not growth.has_scalar_body(producer):
        return False
    if growth.is_epilogue_of_compute(producer):
        return False
    index_map = growth.read_map(reader, value)
    if index_map is None or None in index_map or list(index_map) != sorted(index_map):  # type: ignore[type-var]
        return False
    loops = len(ops.iterator_types(reader))
    if growth.is_identity(index_map, loops):
        return True
    return len(ops.users(value)) == 1


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into one dispatch region."""
    return form_region(list(match.ops))


PASS = FusionPass(
    name="elementwise_fusion",
    summary="Chains and trees of elementwise ops in one dispatch",
    roots=("linalg.generic",),
    match=match,
    rewrite=rewrite,
    retries=True,
    source="loop fusion",
)
