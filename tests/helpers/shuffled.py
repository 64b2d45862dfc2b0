"""The same module with its independent ops in another order."""

import itertools
import random

from iree.compiler import ir

from mlirfuse.structured.ir import ops


def shuffle(module: ir.Module, seed: int) -> None:
    """Moves the pure ops of every block of the functions; each remains after its operands."""
    rng = random.Random(seed)
    for function in ops.functions(module):
        for block in list(ops.blocks(function)):
            _shuffle_block(block, rng)


def _shuffle_block(block: ir.Block, rng: random.Random) -> None:
    *waiting, end = [o.operation for o in block.operations]
    needs = {op: _needs(op, set(waiting)) for op in waiting}
    ordered = [op for op in waiting if not ops.is_pure(op)]
    for before, after in itertools.pairwise(ordered):
        needs[after].add(before)
    while waiting:
        op = rng.choice([op for op in waiting if not needs[op]])
        op.move_before(end)
        waiting.remove(op)
        for rest in needs.values():
            rest.discard(op)


def _needs(op: ir.Operation, among: set[ir.Operation]) -> set[ir.Operation]:
    """The ops of the block whose results the op, or an op inside it, reads."""
    read = [value for o in (op, *ops.nested_ops(op)) for value in o.operands]
    owners = (o for o in map(ops.defining_op, read) if o is not None)
    return {ops.ancestor_in(op.block, owner) for owner in owners} & (among - {op})
