"""Take a contraction that reads each element of an operand once as a product and a sum.

    %y = linalg.generic {mulf, addf} ins(%x, %w)       %x: (b, k, s), %w: (k) -> (b, s)
  becomes
    %p = linalg.generic {mulf} ins(%x, %w)             (b, k, s)
    %y = linalg.generic {addf} ins(%p)                 (b, k, s) -> (b, s)

It is no matmul: an operand has all loops of the contraction of more than one iteration, as in the
dot product, in a matrix times a vector, in a convolution of 1x1 with one filter, and in a batch of
dot products. `row_triton_kernel` computes the sum of the products, with the elementwise ops around
it; batches that both operands merge, as of `einsum`, are not merged. Root: a contraction in no
group that `matmul_triton_kernel` does not take, or of which both operands have all loops; static in
the contracted loops, any element type. Nothing is rewritten where Triton is missing.
Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.matmul.analysis import can_take
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import contractions


@dataclasses.dataclass(frozen=True, slots=True)
class _Loops:
    """Loops of a contraction.

    Attributes:
      kept: those of more than one iteration, and those that are reduced.
      whole: index of the operand that has all of them.
    """

    kept: tuple[int, ...]
    whole: int


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds a contraction of which an operand has all loops."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    if not ops.is_contraction(root) or len(root.results) != 1:
        return None
    maps, kinds, sizes = ops.indexing_maps(root), ops.iterator_types(root), ops.loop_sizes(root)
    if any(m is None or None in m for m in maps):
        return None
    steps = list(enumerate(zip(sizes, kinds, strict=True)))
    if any(size is None and kind == "reduction" for _, (size, kind) in steps):
        return None
    kept = {loop for loop, (size, kind) in steps if size != 1 or kind == "reduction"}
    whole = [n for n, index_map in enumerate(ops.plain_maps(root)[:2]) if kept <= {*index_map}]
    if not whole or (len(whole) < 2 and can_take(root)):
        return None
    if len(kept) < len(kinds) and ops.constant(ops.inits(root)[0]) is None:
        return None
    return Match(root, (root,), _Loops(tuple(sorted(kept)), whole[0]))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the product, in the order of an operand that has all loops, and its sum."""
    op, loops = match.root, match.data
    number = {loop: n for n, loop in enumerate(loops.kept)}
    shape, element = ops.shape(op.results[0]), ops.element_type(op.results[0])
    with ir.InsertionPoint(op), op.location:
        inputs, maps = [], []
        for value, index_map in zip(ops.inputs(op), ops.plain_maps(op), strict=False):
            dims = [dim for dim, loop in enumerate(index_map) if loop in number]
            inputs.append(_without_units(value, dims))
            maps.append(tuple(number[index_map[dim]] for dim in dims))
        result = tuple(number[loop] for loop in ops.plain_maps(op)[2] if loop in number)
        kinds = [ops.iterator_types(op)[loop] for loop in loops.kept]
        parts = _parts(inputs, maps, len(kinds))
        inputs = [_before_merge(v, m, parts) for v, m in zip(inputs, maps, strict=True)]
        maps, result = [_split(m, parts) for m in maps], _split(result, parts)
        kinds = [kind for kind, part in zip(kinds, parts, strict=True) for _ in part]
        value = inputs[loops.whole]
        empty = builders.empty(ops.shape(value), element, builders.dynamic_sizes(value))
        order, rank = maps[loops.whole], len(kinds)
        products = builders.generic(
            inputs, [empty], [*maps, order], ["parallel"] * rank, _product(op)
        ).results[0]
        sizes = dict(zip(order, ops.shape(value), strict=True))
        init = ops.inits(op)[0]
        wanted = [sizes[loop] for loop in result]
        if wanted != list(shape):
            start = builders.scalar_constant(ops.constant(init) or 0, element)
            init = builders.fill(start, builders.empty(wanted, element))
        add = "arith.addi" if element.startswith("i") else "arith.addf"
        new = builders.generic(
            [products],
            [init],
            [order, result],
            kinds,
            lambda arguments: [builders.scalar(add, arguments, element)],
        )
        total = new.results[0]
        after = _reshapes(op, wanted)
        if after is None:
            after = [op]
            if wanted != list(shape):
                total = _restored(total, op, loops.kept, parts)
    after[-1].results[0].replace_all_uses_with(total)
    for old in reversed(after):
        old.erase()
    return new


def _without_units(value: ir.Value, kept: Sequence[int]) -> ir.Value:
    """The operand without its other dimensions, which have one element."""
    shape, expand = ops.shape(value), ops.defining_op(value)
    if expand is not None and expand.name == "tensor.expand_shape":
        source: ir.Value = expand.operands[0]
        if list(ops.shape(source)) == [shape[dim] for dim in kept]:
            return source
    return builders.collapse(value, builders.groups_of_kept(kept, len(shape)))


def _product(op: ir.Operation) -> Callable[[list[ir.Value]], list[ir.Value]]:
    """The body of a contraction without its sum."""
    computed = builders.body_of(op)

    def build(arguments: list[ir.Value]) -> list[ir.Value]:
        (total,) = computed(arguments)
        added = total.owner.operation
        factor = next(value for value in added.operands if value != arguments[-1])
        added.erase()
        return [factor]

    return build


def _parts(
    values: Sequence[ir.Value], maps: Sequence[tuple[int, ...]], rank: int
) -> list[tuple[int, ...]]:
    """The new loops of each loop: several of one that all operands merge of the same dimensions."""
    found: list[dict[int, tuple[int | None, ...]]] = []
    for value, index_map in zip(values, maps, strict=True):
        merge = ops.defining_op(value)
        if merge is None or merge.name != "tensor.collapse_shape":
            return [(loop,) for loop in range(rank)]
        inner = ops.shape(merge.operands[0])
        groups = ops.reassociation(merge)
        found.append(
            {
                loop: tuple(inner[d] for d in group)
                for loop, group in zip(index_map, groups, strict=True)
            }
        )
    if found[0] != found[1] or any(None in sizes for sizes in found[0].values()):
        return [(loop,) for loop in range(rank)]
    parts, first = [], 0
    for loop in range(rank):
        parts.append(tuple(range(first, first + len(found[0][loop]))))
        first += len(found[0][loop])
    return parts


def _before_merge(
    value: ir.Value, index_map: tuple[int, ...], parts: Sequence[tuple[int, ...]]
) -> ir.Value:
    """The operand whose dimensions the new loops index."""
    split = any(len(parts[loop]) > 1 for loop in index_map)
    return value.owner.operation.operands[0] if split else value


def _split(index_map: tuple[int, ...], parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(new for loop in index_map for new in parts[loop])


def _reshapes(op: ir.Operation, wanted: Sequence[int | None]) -> list[ir.Operation] | None:
    """A contraction and the reshapes that alone read it, up to one of this shape; None without."""
    chain = [op]
    while list(ops.shape(chain[-1].results[0])) != wanted:
        users = ops.users(chain[-1].results[0])
        if len(users) != 1 or users[0].name not in ops.RESHAPES:
            return None
        chain.append(users[0])
    return chain


def _restored(
    total: ir.Value, op: ir.Operation, kept: Sequence[int], parts: Sequence[tuple[int, ...]]
) -> ir.Value:
    """The sum in the shape of a contraction's result, with what was split merged again."""
    index_map, shape = ops.plain_maps(op)[2], ops.shape(op.results[0])
    groups: list[list[int]] = []
    first = 0
    for loop in (loop for loop in index_map if loop in kept):
        count = len(parts[kept.index(loop)])
        groups.append([*range(first, first + count)])
        first += count
    merged = builders.collapse(total, groups)
    dims = [dim for dim, loop in enumerate(index_map) if loop in kept]
    return builders.expand(merged, builders.groups_of_kept(dims, len(index_map)), list(shape))


PASS = FusionPass(
    name="weighted_sum_rewrite",
    summary="A contraction that is no matmul becomes a product and a sum, for a kernel",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
