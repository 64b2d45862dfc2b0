"""Let a convolution or contraction write its result in the order in which its user reads it.

    %c = linalg.generic {convolution} ins(%x, %w)      tensor<HxWxGxFxT>
    %m = tensor.collapse_shape %c                      groups and their channels, optional
    %b = linalg.generic {copy} ins(%v)                 tensor<HxWxFxT>, a broadcast, optional
    %y = linalg.generic {addf} ins(%m, %b)             tensor<HxWxFxT> -> tensor<FxHxWxT>
  becomes
    %c = linalg.generic {convolution} ins(%x, %w)      tensor<GxFxHxWxT>
    %m = tensor.collapse_shape %c
    %y = linalg.generic {addf} ins(%m, %v)             tensor<FxHxWxT>

Root: an elementwise op that alone reads a convolution or contraction, of which there is a kernel
and whose accumulators start from a number, in an order whose last dimension are adjacent pixels.
Epilogues and batch norms find the ops behind it as those of one order; the kernel transposes its
accumulators in registers. A root with another operand in the old order is left. Static sizes, any
element type. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses
import itertools

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.convolution_builder import with_result_order
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels.vector import convolution, products
from mlirfuse.kernels.vector.roles import classify_contraction, classify_convolution
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops
from mlirfuse.structured.recognize.permutations import broadcast, read_at_source


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """A convolution or contraction and the order in which its user reads it.

    Attributes:
      op: the convolution or contraction.
      order: for each dimension of its new result that of the old one.
      collapse: the collapse of dimensions between both; None without one.
      groups: the dimensions of the new result that it merges.
    """

    op: ir.Operation
    order: tuple[int, ...]
    collapse: ir.Operation | None
    groups: list[list[int]]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a convolution or contraction that the root alone reads, in another order."""
    if ctx.target.cpu is None or ops.in_region(root) or not ops.is_elementwise(root):
        return None
    whole = tuple(range(len(ops.iterator_types(root))))
    if None in ops.indexing_maps(root) or ops.reads_inits(root) or len(root.results) != 1:
        return None
    *read, written = ops.plain_maps(root)
    moved = [
        value
        for value, index_map in zip(ops.inputs(root), read, strict=True)
        if index_map != whole and sorted(d for d in index_map if d is not None) == list(whole)
        if broadcast(value) is None
    ]
    if written != whole or not moved:
        return None
    if len(moved) > 1 or list(ops.inputs(root)).count(moved[0]) > 1:
        return NoMatch(Reason.STRUCTURE, "several operands in another order")
    found = _found(root, moved[0], read[ops.inputs(root).index(moved[0])])
    if not isinstance(found, _Found):
        return found
    if products.is_left_to_iree(found.op, ctx.target.cpu):
        return None
    between = [] if found.collapse is None else [found.collapse]
    return Match(root, (found.op, *between, root), found)


def _found(root: ir.Operation, value: ir.Value, index_map: ops.IndexMap) -> _Found | NoMatch | None:
    """What computes a value that the root reads in another order."""
    collapse, op, groups = None, ops.defining_op(value), [[d] for d in range(len(index_map))]
    if op is not None and op.name == "tensor.collapse_shape":
        collapse, groups = op, [list(group) for group in ops.reassociation(op)]
        op = ops.defining_op(op.operands[0])
    if op is None or op.block != root.block or not ops.is_generic(op):
        return None
    classify = classify_contraction if ops.is_contraction(op) else classify_convolution
    loops = classify(op)
    if not isinstance(loops, ConvolutionLoops) or not convolution.takes(op, classify):
        return None
    if ops.users(value) != [root] or len(ops.users(op.results[0])) != 1:
        return NoMatch(Reason.EXTRA_USERS, "another op reads the result in its order")
    start = ops.defining_op(ops.inits(op)[0])
    if start is None or start.name != "linalg.fill":
        return NoMatch(Reason.STRUCTURE, "the accumulators start from a tensor")
    wanted = [groups[index_map.index(d)] for d in range(len(index_map))]
    order, out = tuple(itertools.chain(*wanted)), ops.indexing_maps(op)[-1] or ()
    pixels = [out[d] for d in order if out[d] in loops.m_loops]
    if pixels != list(loops.m_loops) or out[order[-1]] not in pixels:
        return NoMatch(Reason.STRUCTURE, "the last dimension of its order are not adjacent pixels")
    return _Found(op, order, collapse, builders.renumbered(wanted))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the convolution or contraction in the order of its user, and the user."""
    found: _Found = match.data
    root, whole = match.root, tuple(range(len(ops.iterator_types(match.root))))
    new = with_result_order(found.op, found.order)
    result, old = new.results[0], found.op.results[0]
    if found.collapse is not None:
        old = found.collapse.results[0]
        with ir.InsertionPoint(root), found.collapse.location:
            result = builders.collapse(result, found.groups)
    inputs: list[ir.Value] = []
    maps: list[ops.IndexMap] = []
    for value, index_map in zip(ops.inputs(root), ops.plain_maps(root), strict=False):
        op = broadcast(value)
        if value == old:
            inputs.append(result)
            maps.append(whole)
        elif op is not None:
            inputs.append(op.operands[0])
            maps.append(read_at_source(op, index_map))
        else:
            inputs.append(value)
            maps.append(index_map)
    with ir.InsertionPoint(root), root.location:
        init = builders.empty(ops.shape(root.results[0]), ops.element_type(root.results[0]))
        user = builders.generic(
            inputs, [init], [*maps, whole], ops.iterator_types(root), builders.body_of(root)
        )
    root.results[0].replace_all_uses_with(user.results[0])
    for op in (root, found.collapse, found.op):
        if op is not None:
            op.erase()
    return user


PASS = FusionPass(
    name="result_order_rewrite",
    summary="Convolutions and contractions write the order that their elementwise user reads",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cpu"}),
    source="mlirfuse",
)
