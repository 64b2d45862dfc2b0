"""Read windows of a tensor by indices that the body computes.

    %y = linalg.generic {(n, w, k) -> (n, 8 * w + k)} ins(%x)          tensor<NxWxKxT>
  becomes
    %y = linalg.generic { tensor.extract %x[n, 8 * w + k] }

Importers write overlapping windows (`Tensor.unfold`, the frames of a Fourier transform) as a map
that adds loops, which IREE fuses with nothing and which the kernels read as a gather. Root: an
elementwise op with a linear map that is no projected permutation. Sizes static or dynamic, any
element type. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.structured.ir import ops

Windows = dict[int, tuple[ops.LinearIndex, ...]]
"""Number of an input -> its index along each dimension."""


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds an elementwise op that reads windows."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    if not ops.is_elementwise(root) or ops.reads_inits(root):
        return None
    maps = ops.indexing_maps(root)
    inputs = ops.num_inputs(root)
    if any(index_map is None or None in index_map for index_map in maps[inputs:]):
        return None
    windows: Windows = {}
    for number in range(inputs):
        if maps[number] is None:
            found = ops.linear_map(root, number)
            if found is None:
                return None
            windows[number] = found
    return Match(root, (root,), windows) if windows else None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the op that extracts the elements of its windows."""
    op: ir.Operation = match.root
    windows: Windows = match.data
    inputs = ops.inputs(op)
    kept = [n for n in range(len(inputs)) if n not in windows]
    maps = [m for n, m in enumerate(ops.indexing_maps(op)) if n not in windows and m is not None]
    compute = builders.body_of(op)

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        given = dict(zip(kept, arguments, strict=False))
        read = [
            given[n] if n in given else builders.extract(v, [_computed(i) for i in windows[n]])
            for n, v in enumerate(inputs)
        ]
        return compute([*read, *arguments[len(kept) :]])

    with ir.InsertionPoint(op), op.location:
        new = builders.generic(
            [inputs[n] for n in kept], ops.inits(op), maps, ops.iterator_types(op), body
        )
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.erase()
    return new


def _computed(index: ops.LinearIndex) -> ir.Value:
    total = None
    for loop, factor in index.factors:
        term = builders.loop_index(loop)
        if factor != 1:
            term = builders.scalar(
                "arith.muli", [term, builders.scalar_constant(factor, "index")], "index"
            )
        total = term if total is None else builders.scalar("arith.addi", [total, term], "index")
    if total is None or index.start:
        start = builders.scalar_constant(index.start, "index")
        total = start if total is None else builders.scalar("arith.addi", [total, start], "index")
    return total


PASS = FusionPass(
    name="window_gather_rewrite",
    summary="Windows that an elementwise op reads become a gather, which kernels compute",
    roots=("linalg.generic",),
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
