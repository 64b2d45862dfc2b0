"""Values that a loop carries, and that its steps or its results do not read.

  %0:4 = stablehlo.while(%i = .., %x = .., %y = .., %error = ..)
      cond {%i < 30 and %error > 0.1} do {... %new = ...; return .., .., .., %new}
becomes, where %0#2 and %0#3 are not used, nor %y for another value, nor %error by a step
  %0:3 = stablehlo.while(%i = .., %x = .., %error = ..)
      cond {...} do {... %kept = select %false, %error, %new; return .., .., %kept}

So do a value that results alone read, such as the one of the step before, the second of two that
steps compute alike, and a constant; a condition that is a value becomes `or` of it and %false.

MLIR takes such values out of one of the loop's regions, and IREE 3.13 crashes on a loop whose
regions differ in their arguments. It cannot know that %false, from behind a barrier, is false.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.jax_repairs.rewriting import callee, operations, symbol

if TYPE_CHECKING:
    from iree.compiler import ir

_RETURNS = frozenset({"func.return", "stablehlo.return"})

_EFFECT = "stablehlo.custom_call"
"""The op that stays though nothing reads its results, and so do calls of functions that have it."""


def remove_dead_values(module: ir.Module) -> None:
    """Removes the dead values of all loops, and the ops that compute them."""
    functions = [each.operation for each in module.body.operations]
    effects = _with_effects(functions)
    named = {symbol(op): op for op in functions if op.name == "func.func"}
    for op in functions:
        if any(each.name == "stablehlo.while" for each in operations(op)):
            for region in op.regions:
                for block in region.blocks:
                    _clean(block, effects, named)


def _with_effects(functions: Sequence[ir.Operation]) -> frozenset[str]:
    """Names of the functions whose calls stay."""
    called = {
        symbol(op): {callee(each) for each in operations(op) if each.name == "func.call"}
        for op in functions
        if op.name == "func.func"
    }
    found = {symbol(op) for op in functions if any(o.name == _EFFECT for o in operations(op))}
    while more := {name for name in called.keys() - found if called[name] & found}:
        found |= more
    return frozenset(found)


def _stays(op: ir.Operation, effects: Collection[str]) -> bool:
    """Whether an op stays though nothing reads its results; a return, whose operands may not."""
    if op.name == "func.call":
        return callee(op) in effects
    return op.name == _EFFECT or op.name in _RETURNS


def _clean(
    block: ir.Block, effects: Collection[str], functions: Mapping[str, ir.Operation]
) -> None:
    """Removes dead ops and values of a block, of outer loops first."""
    for op in [each.operation for each in block.operations][::-1]:
        if not _stays(op, effects) and not _used(op.results):
            op.erase()
    for op in [each.operation for each in block.operations]:
        if op.name == "stablehlo.while":
            op = _pruned(op, effects, functions)
            _made_distinct(op, functions)
        for region in op.regions:
            for inner in region.blocks:
                _clean(inner, effects, functions)


def _used(values: Iterable[ir.Value]) -> bool:
    return any(next(iter(value.uses), None) is not None for value in values)


def _pruned(
    op: ir.Operation, effects: Collection[str], functions: Mapping[str, ir.Operation]
) -> ir.Operation:
    """The loop without dead values."""
    from iree.compiler import ir

    condition, body = (region.blocks[0] for region in op.regions)
    live = {i for i, result in enumerate(op.results) if _used([result])}
    live |= {i for i, argument in enumerate(condition.arguments) if _used([argument])}
    ends = list(list(body.operations)[-1].operands)
    stay = [each.operation for each in body.operations if _stays(each.operation, effects)]
    live = _closure(live, body, ends, [v for each in stay[:-1] for v in each.operands])
    if len(live) == len(ends):
        return op
    kept = sorted(live)
    attributes = {name: op.attributes[name] for name in op.attributes}
    with op.location, ir.InsertionPoint(op):
        operands = [op.operands[i] for i in kept]
        new = ir.Operation.create(
            op.name, [value.type for value in operands], operands, attributes, regions=2
        )
    for block, region in zip((condition, body), new.regions, strict=True):
        block.append_to(region)
    for old, result in zip(kept, new.results, strict=True):
        op.results[old].replace_all_uses_with(result)
    op.erase()
    condition, body = (region.blocks[0] for region in new.regions)
    end = list(body.operations)[-1].operation
    with end.location, ir.InsertionPoint(end):
        ir.Operation.create(end.name, [], [ends[i] for i in kept])
    end.erase()
    _clean(body, effects, functions)
    for block in (condition, body):
        for index in reversed(range(len(ends))):
            if index not in live:
                block.erase_argument(index)
    return new


def _made_distinct(op: ir.Operation, functions: Mapping[str, ir.Operation]) -> None:
    """Lets steps read every value, and compute each from others and but once.

    A condition that is one of the values gets an op of its own.
    """
    from iree.compiler import ir

    condition, body = (region.blocks[0] for region in op.regions)
    ends = _numbered(body)
    found = [
        index
        for index, argument in enumerate(body.arguments)
        if not _surely_read(argument, functions)
        or ends[index] in ends[:index]
        or _fixed(ends[index], body)
    ]
    decided = list(condition.operations)[-1].operation
    carried = decided.operands[0].owner == condition
    if not found and not carried:
        return
    with op.location, ir.InsertionPoint(op):
        bit = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
        value = ir.DenseElementsAttr.get_splat(bit, ir.BoolAttr.get(False))
        false = ir.Operation.create("stablehlo.constant", [bit], [], {"value": value}).result
        false = ir.Operation.create("stablehlo.optimization_barrier", [bit], [false]).result
    if carried:
        with decided.location, ir.InsertionPoint(decided):
            operands = [decided.operands[0], false]
            decided.operands[0] = ir.Operation.create("stablehlo.or", [bit], operands).result
    end = list(body.operations)[-1].operation
    with end.location, ir.InsertionPoint(end):
        for index in found:
            new = end.operands[index]
            operands = [false, body.arguments[index], new]
            end.operands[index] = ir.Operation.create(
                "stablehlo.select", [new.type], operands
            ).result


def _fixed(value: ir.Value, body: ir.Block) -> bool:
    """Whether a value that a block returns is a constant, or from outside of the block."""
    from iree.compiler import ir

    owner = value.owner
    if isinstance(owner, ir.Block):
        return bool(owner != body)
    if owner.name in ("stablehlo.broadcast_in_dim", "stablehlo.convert"):
        return _fixed(owner.operands[0], body)
    return bool(owner.name == "stablehlo.constant" or owner.operation.block != body)


def _surely_read(value: ir.Value, functions: Mapping[str, ir.Operation]) -> bool:
    """Whether an op of the value's own block reads it, or one of a function that it is given to.

    Nested ops may fold away, and what a function returns unchanged is not read in it.
    """
    for use in value.uses:
        user = use.owner.operation
        if user.block != value.owner or len(user.regions) or user.name == "func.return":
            continue
        if user.name != "func.call":
            return True
        called = functions.get(callee(user))
        if called is not None and len(called.regions[0].blocks):
            argument = called.regions[0].blocks[0].arguments[use.operand_number]
            if _surely_read(argument, functions):
                return True
    return False


def _numbered(body: ir.Block) -> list[ir.Value]:
    """The values that a block returns, of equal ones the first."""
    first: dict[ir.Value, ir.Value] = {}
    known: dict[Any, Sequence[ir.Value]] = {}
    for op in [each.operation for each in body.operations]:
        if len(op.regions):
            continue
        attributes = tuple((name, op.attributes[name]) for name in op.attributes)
        operands = tuple(first.get(value, value) for value in op.operands)
        types = tuple(result.type for result in op.results)
        results = known.setdefault((op.name, attributes, operands, types), list(op.results))
        first.update(zip(op.results, results, strict=True))
    return [first.get(value, value) for value in list(body.operations)[-1].operands]


def _closure(
    live: set[int], body: ir.Block, ends: Sequence[ir.Value], read: Iterable[ir.Value]
) -> set[int]:
    """The arguments that live ones at the end of a loop's body depend on, with them.

    Args:
      live: indices of arguments that are used outside of the body.
      body: the body.
      ends: the values that the body returns.
      read: other values that the body needs.
    """
    places = {argument: index for index, argument in enumerate(body.arguments)}
    reads: dict[Any, list[Any]] = {}
    for each in body.operations:
        operands = list(_read(each.operation))
        reads.update({result: operands for result in each.operation.results})
    found, seen = set(live), set()
    pending = [*read, *(ends[i] for i in live)]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if (index := places.get(value)) is not None and index not in found:
            found.add(index)
            pending.append(ends[index])
        pending += reads.get(value, ())
    return found


def _read(op: ir.Operation) -> Iterator[ir.Value]:
    yield from op.operands
    for inner in operations(op):
        yield from inner.operands
