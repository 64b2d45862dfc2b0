"""Contractions: what follows them elementwise, and what their operands are views of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.structured.expr import activations
from mlirfuse.structured.expr.arithmetic import PRODUCT_NODES
from mlirfuse.structured.expr.expressions import (
    Apply,
    Element,
    Expr,
    Index,
    Part,
    source,
    start,
    step_through,
)
from mlirfuse.structured.expr.loop_domains import product
from mlirfuse.structured.ir import analysis_cache, ops, slices
from mlirfuse.targets.base import Target

ROOTS = ("linalg.generic", *sorted(ops.NAMED_CONTRACTIONS))
"""Names of the ops at which passes look for a contraction."""


def epilogue(contraction: ir.Operation, max_operands: int) -> list[ir.Operation]:
    """The elementwise ops that follow the contraction and can be generated with it, in order.

    Each has the contraction's iteration space and reads it at its own loops; the last may permute
    them. The ops are a closed set: only the value of the last one is read elsewhere. The longest
    such set whose dispatch takes no more than `max_operands` operands and results is returned.
    """
    return list(_epilogue((contraction, max_operands)))


@analysis_cache.remembered
def _epilogue(question: tuple[ir.Operation, int]) -> list[ir.Operation]:
    contraction, max_operands = question
    group = [contraction]
    closed = 1
    while True:
        following = _next_reader(group)
        if following is None or not _continues(following, group):
            break
        group.append(following)
        visible = slices.results_of(group)
        if visible == [following.results[0]]:
            if len(slices.operands_of(group)) + 1 > max_operands:
                break
            closed = len(group)
        if not _in_place(following, group):
            break
    return group[1:closed]


def narrow_epilogue(contraction: ir.Operation, max_operands: int) -> list[ir.Operation]:
    """The elementwise ops behind a reshape that drops dimensions of size one, with the reshape.

    The reshape alone reads the contraction, and each op alone what is before it, in place. Empty
    where no op follows.
    """
    readers = ops.users(contraction.results[0])
    if len(readers) != 1 or readers[0].name != "tensor.collapse_shape":
        return []
    if readers[0].block != contraction.block:
        return []
    sizes = ops.shape(readers[0].results[0])
    if not sizes:
        return []  # what has no dimension gets none back
    if [n for n in ops.shape(contraction.results[0]) if n != 1] != [n for n in sizes if n != 1]:
        return []
    group, last = [contraction, readers[0]], readers[0]
    while True:
        following = ops.users(last.results[0])
        if len(following) != 1 or not _keeps_place(following[0], last):
            break
        wider = [*group, following[0]]
        if len(slices.operands_of(wider)) + 1 > max_operands:
            break
        group, last = wider, following[0]
    return group[1:] if len(group) > 2 else []


def _keeps_place(op: ir.Operation, before: ir.Operation) -> bool:
    """Whether an elementwise op reads another where it writes, and nothing that it writes over."""
    value = before.results[0]
    if not ops.is_elementwise(op) or op.block != before.block or len(op.results) != 1:
        return False
    maps, rank = ops.indexing_maps(op), len(ops.shape(value))
    written = list(ops.body(op).arguments)[-1]
    return (
        None not in maps
        and ops.shape(op.results[0]) == ops.shape(value)
        and maps[-1] == tuple(range(rank))
        and all(m == maps[-1] for v, m in zip(op.operands, maps, strict=True) if v == value)
        and not list(written.uses)
    )


def _next_reader(group: list[ir.Operation]) -> ir.Operation | None:
    """The first op in the block that reads the group and is not of it."""
    members, first = set(group), None
    block = group[0].block
    for op in group:
        for result in op.results:
            for user in ops.users(result):
                outer = ops.ancestor_in(block, user)
                if outer is None or outer in members:
                    continue
                if first is None or outer.is_before_in_block(first):
                    first = outer
    return first


def _continues(op: ir.Operation, group: list[ir.Operation]) -> bool:
    if not ops.is_elementwise(op) or len(op.results) != 1 or ops.reads_index(op):
        return False
    space = sorted(map(str, ops.shape(group[0].results[0])))
    return sorted(map(str, ops.shape(op.results[0]))) == space


def _in_place(op: ir.Operation, group: list[ir.Operation]) -> bool:
    """Whether the op reads every value of the group at the loops where it writes."""
    values = {result for member in group for result in member.results}
    maps = ops.indexing_maps(op)
    return all(m == maps[-1] for v, m in zip(op.operands, maps, strict=True) if v in values)


def matched(
    root: ir.Operation, ctx: PassContext, accepts: Callable[[list[ir.Operation]], bool]
) -> Match | None:
    """The contraction with its epilogue, when there is one and it is accepted.

    Args:
      root: any op.
      ctx: the target limits the operands.
      accepts: says whether the contraction and the epilogue behind it are what the pass is for.
    """
    if not ops.is_contraction(root):
        return None
    group = [root, *epilogue(root, ctx.target.max_operands)]
    return Match(root, tuple(group)) if len(group) > 1 and accepts(group) else None


def has_activation(group: list[ir.Operation], names: Collection[str]) -> bool:
    """Whether the epilogue computes one of the activations of a value of the group."""
    values = [op.results[0] for op in group]
    return any(activations.may_hold_one(op, names) for op in group[1:]) and any(
        activations.classify(start(after), start(before), names) is not None
        for i, before in enumerate(values)
        for after in values[i + 1 :]
        if ops.shape(before) == ops.shape(after)
    )


def has_addend(group: list[ir.Operation], accepts: Callable[[Element], bool]) -> bool:
    """Whether the epilogue starts with a sum of the contraction and an accepted tensor."""
    for op in group[1:]:
        added = addends(start(op.results[0]), group[0].results[0], frozenset(group))
        if added is None:
            return False
        if any(isinstance(a, Element) and accepts(a) for a in map(source, added)):
            return True
    return False


_SUMS = frozenset({"arith.addf", "arith.addi"})
_CASTS = frozenset({"arith.extf", "arith.truncf", "arith.extsi", "arith.trunci"})


def addends(
    expr: Expr, value: ir.Value, within: frozenset[ir.Operation] | None = None
) -> list[Expr] | None:
    """What is added to the value to make the expression, casts left out; None for another form.

    Args:
      expr: the sum.
      value: what is added to.
      within: the ops that may make the sum, besides reshapes; None for any.
    """
    known: dict[int, list[Expr] | None] = {}

    def walk(expr: Expr) -> list[Expr] | None:
        while isinstance(expr, Element):
            if expr.value == value:
                return []
            op = ops.defining_op(expr.value)
            if (
                within is not None
                and op not in within
                and (op is None or op.name not in ops.RESHAPES)
            ):
                return None
            step = step_through(expr)
            if step is None:
                return None
            expr = step
        if id(expr) not in known:
            known[id(expr)] = look(expr) if len(known) < PRODUCT_NODES else None
        return known[id(expr)]

    def look(expr: Expr) -> list[Expr] | None:
        if not isinstance(expr, Apply):
            return None
        if expr.op in _CASTS:
            return walk(expr.args[0])
        if expr.op not in _SUMS:
            return None
        for one, other in (expr.args, expr.args[::-1]):
            below = walk(one)
            if below is not None:
                return [*below, other]
        return None

    return walk(expr)


def is_bias(addend: Element) -> bool:
    """Whether the addend has one value per index of one dimension, perhaps split in several."""
    op = ops.defining_op(addend.value)
    if op is not None and op.name == "tensor.expand_shape":
        return len(ops.shape(op.operands[0])) == 1
    return len(addend.index) == 1


def is_residual(addend: Element, rank: int) -> bool:
    """Whether the addend has a value of its own at each of `rank` loops."""
    return {i for i in addend.index if isinstance(i, int)} == set(range(rank))


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """What a contraction's operand is a view of.

    Attributes:
      source: the tensor in memory.
      index: its indices in terms of the contraction's loops: a loop, or one digit of a loop.
      moved: the ops that only move data and need not run when the source is read directly.
    """

    source: ir.Value
    index: tuple[Index, ...]
    moved: tuple[ir.Operation, ...]


def view(contraction: ir.Operation, number: int) -> View | None:
    """Looks through transposes, repeated heads and collapsing reshapes that feed an operand.

    Returns:
      The view through the last of them but reshapes, or None when there is none.
    """
    index_map = ops.indexing_maps(contraction)[number]
    if index_map is None or None in index_map:
        return None
    element = Element(contraction.operands[number], tuple(index_map))
    moved: list[ir.Operation] = []
    best: View | None = None
    while True:
        op = ops.defining_op(element.value)
        step = step_through(element)
        if op is None or not isinstance(step, Element) or op.block != contraction.block:
            return best
        if not (op.name in ops.RESHAPES or ops.is_projection(op)) or ops.in_region(op):
            return best
        moved.append(op)
        repeats = ops.is_projection(op) and _repeats(element, step)
        shrinks = len(step.index) < len(element.index) and not repeats
        if shrinks or not all(map(_simple, step.index)):
            return best
        if ops.is_projection(op):
            best = View(step.value, step.index, tuple(moved))
        element = step


def _repeats(element: Element, source: Element) -> bool:
    """Whether a broadcast repeats its source for some digits of a loop whose others it reads.

    So queries share keys; a broadcast along a whole loop stays what it is.
    """
    dropped = [index for index in element.index if index not in source.index]
    kept = {index.index for index in source.index if isinstance(index, Part)}
    return all(isinstance(index, Part) and index.index in kept for index in dropped)


def _simple(index: Index) -> bool:
    return isinstance(index, int) or (isinstance(index, Part) and isinstance(index.index, int))


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A contraction whose columns are cut into equal parts.

    Attributes:
      contraction: the contraction.
      chain: the casts and rank-1 biases behind it, in order.
      reshape: what splits its rows behind them, or None.
      slices: the parts, in the order of their columns; nothing else reads the columns.
    """

    contraction: ir.Operation
    chain: tuple[ir.Operation, ...]
    reshape: ir.Operation | None
    slices: tuple[ir.Operation, ...]

    @property
    def ops(self) -> list[ir.Operation]:
        """All of it, in block order."""
        reshape = [] if self.reshape is None else [self.reshape]
        return [self.contraction, *self.chain, *reshape, *slices.in_order(self.slices)]


def split(contraction: ir.Operation) -> Split | NoMatch | None:
    """Finds the equal parts that the contraction's columns are cut into.

    Returns:
      The split, why it is none, or None when the columns are not cut at all.
    """
    chain = biases(contraction)
    value = [contraction, *chain][-1].results[0]
    readers = ops.users(value)
    reshape = None
    if len(readers) == 1 and readers[0].name == "tensor.expand_shape":
        reshape = readers[0]
        value = reshape.results[0]
        if any(ops.shape(value)[d] != 1 for d in ops.reassociation(reshape)[-1][:-1]):
            return None
        readers = ops.users(value)
    if not readers or any(reader.name != "tensor.extract_slice" for reader in readers):
        return None
    *outer, columns = ops.shape(value)
    whole = tuple((0, size) for size in outer)
    places: list[tuple[int, int, ir.Operation]] = []
    for reader in readers:
        cut = ops.static_slice(reader)
        width = None if cut is None else cut[-1][1]
        if cut is None or width is None or columns is None:
            return NoMatch(Reason.DYNAMIC_SHAPE, "a part's place is not static")
        if cut[:-1] != whole:
            return NoMatch(Reason.WRONG_AXIS, "a part has some of the rows")
        if ops.shape(reader.results[0])[-1:] != (width,):
            return NoMatch(Reason.WRONG_AXIS, "a part has no dimension of columns")
        places.append((cut[-1][0], width, reader))
    places.sort(key=lambda place: place[:2])
    assert columns is not None
    expected = range(0, columns, places[0][1])
    if [(o, w) for o, w, _ in places] != [(o, places[0][1]) for o in expected]:
        found = ", ".join(f"{o} to {o + w}" for o, w, _ in places)
        return NoMatch(Reason.SHAPE_MISMATCH, f"of {columns} columns the parts are {found}")
    if not takes_columns(contraction):
        return NoMatch(Reason.INDEXING_MAP, "the columns are not those of the second operand")
    return Split(contraction, tuple(chain), reshape, tuple(reader for *_, reader in places))


def biases(contraction: ir.Operation) -> list[ir.Operation]:
    """The casts and biases of the last dimension behind the contraction, each the only reader."""
    product = contraction.results[0]
    chain: list[ir.Operation] = []
    while True:
        value = [contraction, *chain][-1].results[0]
        readers = ops.users(value)
        if len(readers) != 1 or readers[0].block != contraction.block:
            return chain
        op = readers[0]
        if not ops.is_elementwise(op) or len(op.results) != 1 or None in ops.indexing_maps(op):
            return chain
        rank = len(ops.shape(value))
        whole = tuple(range(rank))
        maps = ops.plain_maps(op)
        for operand, index_map in zip(op.operands, maps, strict=True):
            beside = operand != value and index_map != maps[-1]
            if index_map != ((rank - 1,) if beside else whole):
                return chain
        added = addends(start(op.results[0]), product)
        if added is None or not all(isinstance(a, Element) and is_bias(a) for a in added):
            return chain
        chain.append(op)


def silu_of(part: ir.Operation, max_operands: int) -> list[ir.Operation]:
    """The ops that compute SiLU of the part and are all that reads it; none when it has none."""
    chain = epilogue(part, max_operands)
    for end in range(1, len(chain) + 1):
        gate = chain[:end]
        value = gate[-1].results[0]
        closed = slices.results_of([part, *gate]) == [value]
        if closed and in_place(gate, {part.results[0]}, 0) and _is_silu(value, part.results[0]):
            return gate
    return []


def _is_silu(value: ir.Value, of: ir.Value) -> bool:
    return activations.classify(start(value), start(of), ("silu",)) is not None


def in_place(group: list[ir.Operation], values: Collection[ir.Value], beside: int) -> bool:
    """Whether the ops read the values, and one another, at the loops where they write.

    Args:
      group: elementwise ops, in block order.
      values: what they start from.
      beside: most dimensions of what they read besides.
    """
    known = set(values)
    for op in group:
        *read, written = ops.indexing_maps(op)
        whole = tuple(range(len(ops.iterator_types(op))))
        for value, index_map in zip(ops.inputs(op), read, strict=True):
            if index_map is None or (value in known and index_map != whole):
                return False
            if value not in known and len(index_map) > beside:
                return False
        if written != whole:
            return False
        known.update(op.results)
    return True


def takes_columns(contraction: ir.Operation) -> bool:
    """Whether the second operand alone has the last dimension, and the sums start constant."""
    if None in ops.indexing_maps(contraction):
        return False
    left, right, out = ops.plain_maps(contraction)
    starts = ops.constant(contraction.operands[2]) is not None
    return bool(out) and out[-1] not in left and right.count(out[-1]) == 1 and starts


def are_siblings(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two contractions have the first operand and all loops but the columns in common."""
    if not (takes_columns(one) and takes_columns(other)):
        return False
    (left, _, out), (other_left, _, other_out) = ops.plain_maps(one), ops.plain_maps(other)
    return (
        one.operands[0] == other.operands[0]
        and (left, out) == (other_left, other_out)
        and ops.iterator_types(one) == ops.iterator_types(other)
        and ops.element_type(one.operands[1]) == ops.element_type(other.operands[1])
        and ops.element_type(one.results[0]) == ops.element_type(other.results[0])
    )


UNWRITABLE = "a product of dynamic shape is a result itself, which IREE cannot write beside others"
"""IREE 3.13.0 gives several products one accumulator when nothing follows them: the code generation
for GPUs fails to bufferize it where the shape is dynamic."""


def no_matrix_instructions(contraction: ir.Operation, columns: int, target: Target) -> str:
    """Why the target has none for several results of this contraction's rows; empty if it has.

    Args:
      contraction: two operands, the columns the second's alone.
      columns: of each result.
      target: its tiles have to divide the loops.
    """
    kind = ops.element_type(contraction.operands[0])
    sizes, out = ops.loop_sizes(contraction), ops.plain_maps(contraction)[2]
    rows = next((sizes[d] for d in out[-2:-1] if d is not None), 1)
    terms = next(
        s for s, k in zip(sizes, ops.iterator_types(contraction), strict=True) if k == "reduction"
    )
    loops = (rows, columns, terms)
    tile = target.product_tiles.get(kind)
    if tile is not None and _fills(loops, tile):
        return ""
    shown = "x".join("?" if s is None else str(s) for s in loops)
    return f"no matrix instructions for several products of {shown} {kind} on {target}"


def _fills(sizes: Sequence[int | None], tile: tuple[int, int, int]) -> bool:
    return all(t == 1 or (s is not None and s % t == 0) for s, t in zip(sizes, tile, strict=True))


def inner_batch(
    contraction: ir.Operation,
    maps: Sequence[ops.IndexMap],
    sizes: Sequence[int | None],
    target: Target,
) -> NoMatch | None:
    """Refuses a form of a contraction whose batch loop the target needs to be the outer one.

    Args:
      contraction: tells the element types.
      maps: of the new form: first operand, second operand, result.
      sizes: of the new form's loops.
      target: its `outer_batch`.
    """
    tensors = (*ops.inputs(contraction), contraction.results[0])
    types = [ops.element_type(value) for value in tensors]
    tile = target.outer_batch.get(types[0])
    if tile is None or types != [types[0], types[0], "f32"]:
        return None
    shown = [[d for d in index_map if d is not None and sizes[d] != 1] for index_map in maps]
    left, right, out = (set(loops) for loops in shown)
    batch = left & right & out
    extents = [
        product(sizes[d] for d in loops)
        for loops in ((left & out) - batch, (right & out) - batch, (left & right) - batch)
    ]
    outer = all(loops[:1] == list(batch) for loops in shown)
    if len(batch) != 1 or outer or not _fills(extents, tile):
        return None
    return NoMatch(
        Reason.TARGET_UNSUPPORTED,
        "IREE's SPIR-V code generation has no cooperative matrices for an inner batch loop",
    )


def siblings(contraction: ir.Operation) -> list[ir.Operation]:
    """The contractions of the block that `are_siblings` of this one and itself, in block order."""
    block = contraction.block
    readers = (op for op in ops.users(contraction.operands[0]) if op.block == block)
    return slices.in_order(
        op for op in readers if ops.is_contraction(op) and are_siblings(contraction, op)
    )


def readers_in_place(roots: Sequence[ir.Operation], max_operands: int) -> list[ir.Operation]:
    """The elementwise ops that read the contractions and one another where they write, in order.

    Args:
      roots: contractions of one shape, in block order.
      max_operands: operands and results that the dispatch of all may have.
    """
    group = list(roots)
    rank = len(ops.shape(roots[0].results[0]))
    work = [op.results[0] for op in roots]
    while work:
        for op in ops.users(work.pop(0)):
            if op in group or op.block != roots[0].block or not _continues(op, group):
                continue
            values = {value for member in group for value in member.results}
            wider = slices.in_order([*group, op])
            bound = len(slices.operands_of(wider)) + len(slices.results_of(wider))
            if in_place([op], values, rank) and bound <= max_operands and not slices.cycle(wider):
                group = wider
                work.append(op.results[0])
    return [op for op in group if op not in roots]


def are_alike(
    one: ir.Operation,
    other: ir.Operation,
    outside: Mapping[ir.Value, ir.Value] = MappingProxyType({}),
) -> bool:
    """Whether two structured ops compute the same of operands that may be different tensors.

    Args:
      one: an op.
      other: the op that it is compared with.
      outside: for values that the body of `one` takes from outside, what `other` takes.
    """
    if ops.indexing_maps(one) != ops.indexing_maps(other):
        return False
    if ops.iterator_types(one) != ops.iterator_types(other):
        return False
    kinds = [ops.element_type(value) for value in (*one.operands, *one.results)]
    if kinds != [ops.element_type(value) for value in (*other.operands, *other.results)]:
        return False
    arguments = zip(ops.body(one).arguments, ops.body(other).arguments, strict=True)
    known = {**outside, **dict(arguments)}
    bodies = [[o.operation for o in ops.body(op).operations] for op in (one, other)]
    if len(bodies[0]) != len(bodies[1]):
        return False
    for a, b in zip(*bodies, strict=True):
        if a.name != b.name or [known.get(v, v) for v in a.operands] != list(b.operands):
            return False
        if {n: a.attributes[n] for n in a.attributes} != {n: b.attributes[n] for n in b.attributes}:
            return False
        known.update(zip(a.results, b.results, strict=True))
    return True


def heads(values: Sequence[ir.Value]) -> list[ir.Operation]:
    """The reshapes that split the last dimension of the values in parts of one size.

    Returns:
      One for each value, all that reads it; none when something else reads one of them or the parts
      differ in size.
    """
    readers = [ops.users(value) for value in values]
    if any([op.name for op in found] != ["tensor.expand_shape"] for found in readers):
        return []
    found = [op for (op,) in readers]
    first = found[0]
    split = ops.reassociation(first)
    place = split[-1][0]

    def other_sizes(op: ir.Operation) -> tuple[int | None, ...]:
        sizes = ops.shape(op.results[0])
        return (*sizes[:place], *sizes[place + 1 :])

    same = all(
        ops.reassociation(op) == split and other_sizes(op) == other_sizes(first) for op in found
    )
    static = all(ops.shape(op.results[0])[place] is not None for op in found)
    return found if same and static and len(split[-1]) > 1 else []


DATA_TILING_HINT = "iree.opt.data_tiling"
"""Attribute that has IREE pack the operands of a contraction; with one, only those with it."""


def settle_hints(module: ir.Module) -> bool:
    """Whether a contraction is marked for IREE's data tiling; then IREE chooses none by itself.

    IREE looks for marks function by function: one without any gets one where nothing is packed.
    """
    functions = ops.functions(module)
    bare = [function for function in functions if not _has_hint(function)]
    if len(bare) == len(functions):
        return False
    for function in bare:
        last = list(function.regions[0].blocks[0].operations)[-1].operation
        with module.context:
            last.attributes[DATA_TILING_HINT] = ir.UnitAttr.get()
    return True


def _has_hint(function: ir.Operation) -> bool:
    return any(
        DATA_TILING_HINT in op.attributes
        for block in ops.blocks(function)
        for outer in block.operations
        for op in (outer.operation, *_grouped(outer.operation))
    )


def _grouped(op: ir.Operation) -> list[ir.Operation]:
    """The ops of a group; none for an op that is no group."""
    if op.name != ops.REGION:
        return []
    return [o.operation for o in op.regions[0].blocks[0].operations]


def batch_loops(op: ir.Operation) -> frozenset[int]:
    """The loops that index both inputs and the result."""
    maps = [set(m or ()) for m in ops.indexing_maps(op)]
    return frozenset(d for d in set.intersection(*maps) if d is not None)
