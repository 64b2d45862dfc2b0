"""Concatenate more tensors than a kernel takes in several steps.

    %c = tensor.insert_slice of %a0, ..., %a63 into %empty  tensor<Mx64xT>
  becomes
    %c0 = tensor.insert_slice of %a0, ..., %a12 into %empty0  tensor<Mx13xT>
    ...
    %c = tensor.insert_slice of %c0, ..., %c4 into %empty

Root: the last `tensor.insert_slice` of a concatenation that `concat_triton_kernel` would take if a
dispatch had as many operands, as the results of an unrolled loop that are stacked, or the features
of many embeddings. Each element is copied twice, but by few kernels: without them IREE 3.13.0
copies each part in a dispatch of its own. Static sizes; any element type of a byte and more.
Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import destination_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.data_movement.analysis import ConcatAnalysis, analyze_chain, copied_parts
from mlirfuse.structured.ir import ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a concatenation of too many tensors."""
    group = copied_parts(root)
    most = ctx.target.max_operands - 1
    if len(group) <= most or not triton_compiler.supports(ctx.target):
        return None
    found = analyze_chain(group)
    if isinstance(found, NoMatch):
        return found
    if len({part.value for part in found.parts}) <= most:
        return None
    return Match(root, tuple(group), (found, most))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Concatenates equal numbers of parts, and then the results."""
    found, most = match.data
    whole = match.ops[0].operands[1]
    steps = -(-len(match.ops) // most)
    number = -(-len(match.ops) // steps)
    parts = sorted(match.ops, key=lambda op: _start(op, found.axis))
    with ir.InsertionPoint(match.root):
        for first in range(0, len(parts), number):
            whole = _inserted(parts[first : first + number], found, whole)
    found.result.replace_all_uses_with(whole)
    for op in reversed(match.ops):
        op.erase()
    new: ir.Operation = whole.owner.operation
    return new


def _inserted(parts: Sequence[ir.Operation], found: ConcatAnalysis, whole: ir.Value) -> ir.Value:
    """The tensor with some adjacent parts, which are concatenated first."""
    start, end = _start(parts[0], found.axis), _start(parts[-1], found.axis)
    sizes = list(ops.shape(found.result))
    sizes[found.axis] = end + list(parts[-1].attributes["static_sizes"])[found.axis] - start
    with parts[0].location:
        some = builders.empty(sizes, ops.element_type(found.result))
    for part in parts:
        offsets = list(part.attributes["static_offsets"])
        offsets[found.axis] -= start
        some = destination_builder.inserted_at(part, some, offsets)
    offsets = [0] * len(sizes)
    offsets[found.axis] = start
    with parts[0].location:
        return destination_builder.insert(some, whole, offsets).results[0]


def _start(part: ir.Operation, axis: int) -> int:
    return int(list(part.attributes["static_offsets"])[axis])


PASS = FusionPass(
    name="long_concat_rewrite",
    summary="Concatenations of more tensors than a kernel takes are made in several steps",
    roots=("tensor.insert_slice",),
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
