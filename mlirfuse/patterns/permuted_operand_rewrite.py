"""Transpose an operand that a reduction would read in short pieces.

    %y = linalg.generic {mulf} ins(%x, %p)             reads %x[a, r, c] and %p[c, r, a]
    %s = linalg.generic {addf} ins(%y)                 sums over r
  becomes
    %t = linalg.generic {transpose} ins(%p)            tensor<CxRxAxT> -> tensor<AxRxCxT>, a group
    %y = linalg.generic {mulf} ins(%x, %t)
    %s = linalg.generic {addf} ins(%y)

Root: an elementwise op of which reductions are computed, directly or by elementwise ops of its
order, that reads one operand in this order and another whose adjacent elements are none of the same
CTA: those along the last loop are a sector of a cache or more apart, and those that are adjacent
lie along another loop that is kept. Each lane then loads a sector for one element; a kernel for
transposes reads and writes whole ones. Taken where this saves more time than a dispatch costs.
Static sizes, any element type. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.codegen.iteration_space import known_product
from mlirfuse.kernels.configs.device import SECTOR_BITS
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.fusable_neighbors import is_elementwise_in_order
from mlirfuse.targets.base import Target

_SECTOR = SECTOR_BITS // 8
"""Bytes of a sector."""

ACCESSES, COMPUTED_ACCESSES = 3, 5
"""Accesses of each element where it is transposed first: it is read, written, and read again. One
that is computed on the way otherwise is written and read before."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds an elementwise op in front of a reduction with an operand in another order."""
    if not triton_compiler.supports(ctx.target) or not is_elementwise_in_order(root):
        return None
    sizes = ops.loop_sizes(root)
    if None in sizes or len(sizes) < 2:
        return None
    last = len(sizes) - 1
    reads = ops.plain_maps(root)[: len(ops.inputs(root))]
    whole = [(number, read) for number, read in enumerate(reads) if _is_whole(read, last)]
    if len({read[-1] == last for _, read in whole}) < 2:
        return None  # One is in this order, and one is not.
    reduced = _reduced(root)
    if not reduced:
        return None
    for number, index_map in whole:
        value = root.operands[number]
        size = ops.element_bits(value) // 8
        apart = known_product(ops.shape(value)[index_map.index(last) + 1 :]) * size
        adjacent = index_map[-1]
        together = adjacent in reduced and (sizes[adjacent] or 0) * size >= _SECTOR
        if apart < _SECTOR or together:
            continue
        if not _saves(known_product(sizes), size, _is_computed(value), ctx.target):
            return NoMatch(Reason.NOT_PROFITABLE, f"{known_product(sizes)} elements")
        return Match(root, (root,), (number, index_map))
    return None


def _is_whole(index_map: ops.IndexMap, last: int) -> bool:
    """Whether an operand has one element for each iteration."""
    return sorted(-1 if d is None else d for d in index_map) == [*range(last + 1)]


def _reduced(root: ir.Operation) -> set[int]:
    """The loops of reductions that read an op's result in its order, or ops computed of it."""
    reduced: set[int] = set()
    found, work = {root}, [root]
    for op in work:
        value = op.results[0]
        for user in ops.users(value):
            if user.block != root.block or not ops.is_generic(user):
                continue
            at = [operand == value for operand in user.operands].index(True)
            if ops.indexing_maps(user)[at] != tuple(range(len(ops.shape(value)))):
                continue
            kinds = ops.iterator_types(user)
            reduced |= {loop for loop, kind in enumerate(kinds) if kind == "reduction"}
            if user not in found and is_elementwise_in_order(user):
                found.add(user)
                work.append(user)
    return reduced


def _is_computed(value: ir.Value) -> bool:
    """Whether an elementwise op computes a tensor for one user, which could compute it itself."""
    op = ops.defining_op(value)
    return op is not None and is_elementwise_in_order(op) and len(ops.users(value)) == 1


def _saves(elements: int, size: int, is_computed: bool, target: Target) -> bool:
    """Whether sectors for single elements take longer than a transpose and a dispatch more."""
    accesses = COMPUTED_ACCESSES if is_computed else ACCESSES
    saved = elements * (_SECTOR - accesses * size)
    return 1e6 * saved / target.bandwidth > target.launch_us


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Transposes the operand in a group of its own."""
    number, index_map = match.data
    root, maps = match.root, list(ops.plain_maps(match.root))
    inputs, init = ops.inputs(root), list(root.operands)[-1]
    with ir.InsertionPoint(root), root.location:
        copy = builders.transpose(inputs[number], index_map)
        inputs[number], maps[number] = copy, tuple(range(len(index_map)))
        new = builders.generic(
            inputs, [init], maps, ops.iterator_types(root), builders.body_of(root)
        )
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    return builders.form_region([copy.owner.operation])


PASS = FusionPass(
    name="permuted_operand_rewrite",
    summary="Operands that a reduction would read in short pieces are transposed first",
    roots=("linalg.generic",),
    where=ops.is_elementwise,
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    forms_group=True,
    takes_single_op=True,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
