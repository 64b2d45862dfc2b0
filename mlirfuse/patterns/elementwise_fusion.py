"""Fuse chains and trees of elementwise ops into one dispatch.

    %a = linalg.generic {mulf} ins(%x, %y)             tensor<MxNxT>
    %b = linalg.generic {addf} ins(%a, %bias)          tensor<MxNxT>
    %c = linalg.generic {tanh} ins(%b)                 tensor<MxNxT>
  becomes
    %c, %a = flow.dispatch.region { all of it }        // %a only if read elsewhere

The engine searches for the groups: neighbours are joined where the cost model says that it pays.
All ops have the space of the last one, or a smaller one that a broadcast reads and that is no
result. An op that alone reads a contraction, a convolution or a pooling stays with it: IREE makes
it their epilogue. Bodies of arithmetic only; any shape and element type. Numerics: exact.
Source: loop fusion, as in every compiler of this field.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import fuse
from mlirfuse.core import FusionPass, GroupRules, NoMatch, Reason
from mlirfuse.structured import growth, ops


def takes(op: ir.Operation) -> bool | NoMatch:
    """Elementwise arithmetic that is nobody's epilogue."""
    if not ops.is_elementwise(op) or not growth.has_scalar_body(op):
        return False
    if growth.is_among_epilogues(op):
        return NoMatch(Reason.LEFT_TO_PRODUCER, op.name)
    return True


def joins(
    producer: ir.Operation, reader: ir.Operation, value: ir.Value, kept: bool
) -> NoMatch | None:
    """The value is read at the loops it is written at, or broadcast to this reader alone."""
    return growth.parts(producer, reader, value, kept)


PASS = FusionPass(
    name="elementwise_fusion",
    summary="Chains and trees of elementwise ops in one dispatch",
    roots=("linalg.generic",),
    rules=GroupRules(roots=("linalg.generic",), takes=takes, joins=joins),
    rewrite=fuse,
    source="loop fusion",
)
