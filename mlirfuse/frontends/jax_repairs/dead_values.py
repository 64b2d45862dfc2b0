"""Values that a loop carries, and that neither its results nor the next step read.

  %0:4 = stablehlo.while(%i = .., %x = .., %y = .., %error = ..)
      cond {%i < 30 and %error > 0.1} do {... %new = ...; return .., .., .., %new}
becomes, where %0#2 and %0#3 are not used, nor %y for another value, nor %error by a step
  %0:3 = stablehlo.while(%i = .., %x = .., %error = ..)
      cond {...} do {... %kept = select %false, %error, %new; return .., .., %kept}

MLIR takes such values out of the loop's end, and IREE 3.13 crashes on a loop whose regions differ
in their arguments. It cannot know that %false, from behind a barrier, is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.jax_repairs.rewriting import operations

if TYPE_CHECKING:
    from iree.compiler import ir

_KEPT = frozenset({"func.call", "func.return", "stablehlo.custom_call", "stablehlo.return"})
"""Ops that stay though nothing reads their results."""


def remove_dead_values(module: ir.Module) -> None:
    """Removes the dead values of all loops, and the ops that compute them."""
    for op in module.body.operations:
        if any(each.name == "stablehlo.while" for each in operations(op.operation)):
            for region in op.operation.regions:
                for block in region.blocks:
                    _clean(block)


def _clean(block: ir.Block) -> None:
    """Removes dead ops and values of a block, of outer loops first."""
    for op in [each.operation for each in block.operations][::-1]:
        if op.name not in _KEPT and not _used(op.results):
            op.erase()
    for op in [each.operation for each in block.operations]:
        if op.name == "stablehlo.while":
            op = _pruned(op)
            _read_by_steps(op)
        for region in op.regions:
            for inner in region.blocks:
                _clean(inner)


def _used(values: Iterable[ir.Value]) -> bool:
    return any(next(iter(value.uses), None) is not None for value in values)


def _pruned(op: ir.Operation) -> ir.Operation:
    """The loop without dead values."""
    from iree.compiler import ir

    condition, body = (region.blocks[0] for region in op.regions)
    live = {i for i, result in enumerate(op.results) if _used([result])}
    live |= {i for i, argument in enumerate(condition.arguments) if _used([argument])}
    ends = list(list(body.operations)[-1].operands)
    live = _closure(live, body, ends)
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
    _clean(body)
    for block in (condition, body):
        for index in reversed(range(len(ends))):
            if index not in live:
                block.erase_argument(index)
    return new


def _read_by_steps(op: ir.Operation) -> None:
    """Lets steps read the values that only the condition does."""
    from iree.compiler import ir

    condition, body = (region.blocks[0] for region in op.regions)
    found = [
        index
        for index, result in enumerate(op.results)
        if not _used([result, body.arguments[index]]) and _used([condition.arguments[index]])
    ]
    if not found:
        return
    with op.location, ir.InsertionPoint(op):
        bit = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
        value = ir.DenseElementsAttr.get_splat(bit, ir.BoolAttr.get(False))
        false = ir.Operation.create("stablehlo.constant", [bit], [], {"value": value}).result
        false = ir.Operation.create("stablehlo.optimization_barrier", [bit], [false]).result
    end = list(body.operations)[-1].operation
    with end.location, ir.InsertionPoint(end):
        for index in found:
            new = end.operands[index]
            operands = [false, body.arguments[index], new]
            end.operands[index] = ir.Operation.create(
                "stablehlo.select", [new.type], operands
            ).result


def _closure(live: set[int], body: ir.Block, ends: Sequence[ir.Value]) -> set[int]:
    """The arguments that those at the end of a loop's body depend on, with them."""
    places = {argument: index for index, argument in enumerate(body.arguments)}
    reads: dict[Any, list[Any]] = {}
    for each in body.operations:
        read = list(_read(each.operation))
        reads.update({result: read for result in each.operation.results})
    found, seen = set(live), set()
    pending = [ends[i] for i in live]
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
