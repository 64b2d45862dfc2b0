"""Computes conditions of loops at their beginning.

    scf.while (%more = %c0, %x = %x0) { scf.condition(%more) %x }
      do { %new = f(%x); %c = extract p(%new); scf.yield %c, %new }
  becomes
    scf.while (%x = %x0) { %c = extract p(%x); scf.condition(%c) %x } do { scf.yield f(%x) }

IREE lowers loops of PyTorch to the first form, and compiles it for conditions of scalars alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir


def compute_first(module: ir.Module) -> bool:
    """Rewrites the loops of a module in place; returns whether there are any."""
    loops = [op for op in ops.nested_ops(module.operation) if op.name == "scf.while"]
    return any([_rewritten(loop) for loop in loops])


def _rewritten(loop: ir.Operation) -> bool:
    from iree.compiler import ir

    before, after = (region.blocks[0] for region in loop.regions)
    first = list(before.operations)
    if len(first) != 1:
        return False
    condition, *passed = first[0].operands
    if condition not in list(before.arguments):
        return False
    index = list(before.arguments).index(condition)
    end = list(after.operations)[-1]
    yielded = list(end.operands)
    steps = _steps(yielded[index], after, yielded[:index] + yielded[index + 1 :])
    if condition in passed or not any(map(_reads_array, steps)):
        return False
    initial = [value for k, value in enumerate(loop.operands) if k != index]
    with loop.location:
        made = ir.Operation.create(
            "scf.while",
            results=[result.type for result in loop.results],
            operands=initial,
            regions=2,
            ip=ir.InsertionPoint(loop),
        )
        start = ir.Block.create_at_start(made.regions[0], [value.type for value in initial])
        arguments = list(start.arguments)
        arguments.insert(index, None)
        values = dict(zip(yielded, arguments, strict=True))
        with ir.InsertionPoint(start):
            for step in steps:
                copy = step.clone().operation
                _rename(copy, values)
                values |= dict(zip(step.results, copy.results, strict=True))
            places = [list(before.arguments).index(value) for value in passed]
            forwarded = [arguments[place] for place in places]
            ir.Operation.create(
                "scf.condition", operands=[values[yielded[index]], *forwarded]
            )
    after.append_to(made.regions[1])
    with end.location, ir.InsertionPoint(end):
        rest = [value for k, value in enumerate(yielded) if k != index]
        ir.Operation.create("scf.yield", operands=rest)
    end.erase()
    for old, new in zip(loop.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    loop.erase()
    return True


def _steps(value: ir.Value, block: ir.Block, known: list[ir.Value]) -> list[ir.Operation]:
    """The ops of a block that compute a value from known ones, in order; empty where others do."""
    from iree.compiler import ir

    found: set[ir.Operation] = set()
    wanted = [value]
    while wanted:
        value = wanted.pop()
        if value in known:
            continue
        owner = value.owner
        if isinstance(owner, ir.Block):
            if owner == block:
                return []
            continue
        if owner.operation.block != block or owner.operation in found:
            continue
        found.add(owner.operation)
        inner = (owner.operation, *ops.nested_ops(owner.operation))
        wanted += [operand for op in inner for operand in op.operands]
    return [op.operation for op in block.operations if op.operation in found]


def _reads_array(op: ir.Operation) -> bool:
    return any(len(ops.shape(value)) > 0 for value in op.operands if ops.ranked(value) is not None)


def _rename(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    """Replaces operands of an op, and of those inside of it."""
    for part in (op, *ops.nested_ops(op)):
        for index, operand in enumerate(part.operands):
            if operand in values:
                part.operands[index] = values[operand]
