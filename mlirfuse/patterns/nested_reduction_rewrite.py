"""Reduce over several dimensions at once, where one reduction reads another.

    %r = linalg.generic {maximumf} ins(%x)             tensor<NxCxHxWxT> -> tensor<NxCxHxT>
    %y = linalg.generic {maximumf} ins(%r)             tensor<NxCxHxT> -> tensor<NxCxT>
  becomes
    %y = linalg.generic {maximumf} ins(%x)             tensor<NxCxHxWxT> -> tensor<NxCxT>

Root: a reduction in no group that combines the elements of another one's result, which nothing else
reads, by the same op: minima, maxima, and, or, xor, sums and products of integers. The inner one
starts from the neutral element. IREE 3.13's importer reduces one dimension after the other for
`x.amax((2, 3))`: each is a kernel that writes a tensor. Longer chains are folded step by step. On
GPUs any dimensions of reductions that kernels take; on CPUs the last dimensions of the operand, of
static or dynamic sizes: two kernels read a large operand faster over others. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.kernels.codegen.combiners import COMBINERS
from mlirfuse.kernels.codegen.row_reductions import reduces
from mlirfuse.kernels.reduction.analysis import analyze_ops
from mlirfuse.structured.ir import ops

_ROUNDING = frozenset({"arith.addf", "arith.mulf"})
"""Combiners whose results depend on the order."""

_IGNORING_NAN = frozenset({"arith.maxnumf", "arith.minnumf"})
"""Combiners whose neutral element is not neutral for NaN: the inner init replaces it."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Merged:
    """The reduction that takes the place of both, over the loops of the inner one.

    Attributes:
      combiner: the combining op.
      read: the loops that index the operand.
      kinds: `parallel` or `reduction` per loop.
      result: the loops that index the result.
    """

    combiner: str
    read: ops.IndexMap
    kinds: tuple[str, ...]
    result: ops.IndexMap


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a reduction of another reduction's result."""
    name = _combiner(root)
    inner = ops.defining_op(root.operands[0]) if name else None
    if inner is None or inner.block != root.block or _combiner(inner) != name:
        return None
    if len(list(inner.results[0].uses)) != 1:
        return NoMatch(Reason.EXTRA_USERS, f"{ops.described(inner)} has another user")
    if not _reads_each_element_once(inner) or not _reads_each_element_once(root):
        return NoMatch(Reason.INDEXING_MAP, "a reduction does not read each element once")
    starts = [inner, root] if name in _IGNORING_NAN else [inner]
    if not all(_starts_from_neutral(op, name) for op in starts):
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "an init is not neutral")
    return Match(root, (inner, root), _merged(inner, root, name))


def _combiner(op: ir.Operation) -> str:
    """The op by which a reduction combines each element with the accumulator; empty for others.

    Its two operands are all arguments of the body: there is one input, and one result.
    """
    if not ops.is_generic(op) or not reduces(op) or len(ops.scalar_names(op)) != 2:
        return ""
    block = ops.body(op)
    combine, last = (view.operation for view in block.operations)
    if combine.name not in COMBINERS or combine.name in _ROUNDING:
        return ""
    if {*combine.operands} != {*block.arguments} or last.operands[0] != combine.results[0]:
        return ""
    return str(combine.name)


def _reads_each_element_once(op: ir.Operation) -> bool:
    """Whether each loop is one dimension of the operand, and each dimension of the result a loop.

    A dimension of the result may be of size one, and no loop.
    """
    read, written = ops.indexing_maps(op)
    loops = list(range(len(ops.iterator_types(op))))
    return written is not None and sorted(-1 if d is None else d for d in read or ()) == loops


def _starts_from_neutral(op: ir.Operation, name: str) -> bool:
    """Whether the init of a reduction changes nothing."""
    start, element = ops.constant(ops.inits(op)[0]), ops.element_type(op.results[0])
    return start is not None and COMBINERS[name].ignores(start, element)


def _merged(inner: ir.Operation, root: ir.Operation, combiner: str) -> _Merged:
    """The loops of the inner reduction, with those of the outer one in their place."""
    read, written = ops.plain_maps(inner)
    root_read, result = ops.plain_maps(root)
    loops = dict(zip(root_read, written, strict=True))
    outer = {loops[n]: kind for n, kind in enumerate(ops.iterator_types(root))}
    kinds = [outer.get(loop, kind) for loop, kind in enumerate(ops.iterator_types(inner))]
    kept = tuple(None if loop is None else loops[loop] for loop in result)
    return _Merged(combiner, read, tuple(kinds), kept)


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses what no kernel takes on a GPU, and other dimensions than the last ones on a CPU."""
    if ctx.target.cpu is not None:
        kinds = [match.data.kinds[loop] for loop in match.data.read]
        if kinds == sorted(kinds):
            return None
        return NoMatch(Reason.NOT_PROFITABLE, "the reduced dimensions are not the last ones")
    if not ctx.target.kernels:
        return NoMatch(Reason.NOT_PROFITABLE, "no kernel would share a row among workgroups")
    found = [analyze_ops((op,), tuple(op.results)) for op in match.ops]
    return next((refusal for refusal in found if isinstance(refusal, NoMatch)), None)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the reduction over the dimensions of both."""
    inner, root = match.ops
    merged: _Merged = match.data
    element = ops.element_type(root.results[0])
    location = ir.Location.fused([op.location for op in match.ops], context=root.context)
    with ir.InsertionPoint(root), location:
        new = builders.generic(
            ops.inputs(inner),
            ops.inits(root),
            [merged.read, merged.result],
            merged.kinds,
            lambda arguments: [builders.scalar(merged.combiner, arguments, element)],
        )
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    inner.erase()
    return new


PASS = FusionPass(
    name="nested_reduction_rewrite",
    summary="A reduction of another one's result reduces over the dimensions of both",
    roots=("linalg.generic",),
    match=match,
    profitable=profitable,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    targets=frozenset({"cpu", "cuda", "rocm"}),
    source="mlirfuse",
)
