"""Ops that IREE 3.13 puts in one dispatch for CUDA, and computes wrong there.

    %g = linalg.generic {tensor.extract %t, cf.assert} ins(%i : f32) -> i64
    %h = linalg.generic {tensor.extract %g} ins(%j)
  becomes
    %r = flow.dispatch.region { %g }
    %h = linalg.generic {tensor.extract %r} ins(%j)

A gather whose elements are wider than its indices is copied into the dispatches that read it, as an
extension of bits; a workgroup then has no elements but those of its own tile.

    %s:2 = linalg.generic {parallel, parallel, reduction} -> (tensor<6x8xf32>, tensor<8xf32>)
  becomes
    %s0 = linalg.generic {parallel, parallel, reduction} -> tensor<6x8xf32>
    %s1 = linalg.generic {parallel} -> tensor<8xf32>

The result with fewer dimensions is kept in memory of each thread, from which another one reads it.

    %r:2 = flow.dispatch.region { %a = sum of %x; %b = sum of %y } -> (tensor<f32>, tensor<f32>)
  becomes
    %a, %b, each in a dispatch of its own

Two reductions to scalars start from the same buffer, the first result: the second sum is lost.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.regions import form_region, ungroup
from mlirfuse.builders.tensors import generic
from mlirfuse.structured.ir import ops


def repair(module: ir.Module) -> bool:
    """Rewrites all such ops; returns whether there is any."""
    changed = False
    for name, form in (
        (ops.REGION, _ungroup_scalars),
        ("linalg.generic", _compute_apart),
        ("linalg.generic", _split),
    ):
        found = [op for op in ops.nested_ops(module.operation) if op.name == name]
        changed = any([form(op) for op in found]) or changed
    return changed


def _ungroup_scalars(region: ir.Operation) -> bool:
    """Undoes a group that returns several reductions to scalars."""
    returned = (ops.defining_op(ops.yielded_value(value)) for value in region.results)
    scalars = [
        op
        for op in returned
        if op is not None
        and op.name == "linalg.generic"
        and "reduction" in ops.iterator_types(op)
        and not ops.shape(op.results[0])
    ]
    if len(scalars) < 2:
        return False
    ungroup(region)
    return True


def _compute_apart(op: ir.Operation) -> bool:
    """Makes a dispatch of a gather, with assertions, that another op reads at computed indices."""
    names = ops.scalar_names(op)
    if ops.in_region(op) or "tensor.extract" not in names or "cf.assert" not in names:
        return False
    if not _is_extracted(op.results[0]):
        return False
    form_region([op])
    return True


def _is_extracted(value: ir.Value) -> bool:
    """Whether a body extracts elements of the value, or of a reshape of it."""
    return any(
        user.name == "tensor.extract"
        or (user.name in ops.RESHAPES and _is_extracted(user.results[0]))
        for user in ops.users(value)
    )


def _split(op: ir.Operation) -> bool:
    """Computes results with different indexing maps in ops of their own."""
    inputs = ops.num_inputs(op)
    maps = ops.indexing_maps(op)
    if None in maps or len(set(maps[inputs:])) < 2:
        return False
    parts = [_part(op, number) for number in range(len(op.results))]
    if None in parts:
        return False
    for result, part in zip(op.results, parts, strict=True):
        assert part is not None
        with ir.InsertionPoint(op), op.location:
            result.replace_all_uses_with(_built(op, *part))
    op.erase()
    return True


_Part = tuple[int, list[ir.Operation], list[int], list[int]]
"""Number of a result, the scalar ops that compute it, the inputs and the loops of its op."""


def _part(op: ir.Operation, number: int) -> _Part | None:
    """What one result needs; None where it needs the accumulator of another one."""
    block, inputs = ops.body(op), ops.num_inputs(op)
    *scalars, terminator = [o.operation for o in block.operations]
    wanted, kept = {terminator.operands[number]}, []
    for scalar in reversed(scalars):
        if wanted & set(scalar.results):
            kept.append(scalar)
            wanted |= set(scalar.operands)
    arguments = [index for index, a in enumerate(block.arguments) if a in wanted]
    if any(index >= inputs and index != inputs + number for index in arguments):
        return None
    accumulates = inputs + number in arguments
    maps, kinds = ops.plain_maps(op), ops.iterator_types(op)
    read = list(range(inputs)) if accumulates else arguments
    loops = {d for index in (*read, inputs + number) for d in maps[index] if d is not None}
    needed = {o.attributes["dim"].value for o in kept if o.name == "linalg.index"}
    needed |= {d for d, kind in enumerate(kinds) if accumulates and kind == "reduction"}
    return (number, kept[::-1], read, sorted(loops)) if needed <= loops else None


def _built(
    op: ir.Operation, number: int, kept: list[ir.Operation], read: list[int], loops: list[int]
) -> ir.Value:
    """The op of one result, at the current insertion point."""
    inputs, maps, block = ops.num_inputs(op), ops.plain_maps(op), ops.body(op)
    operands = [*read, inputs + number]
    terminator = block.operations[len(block.operations) - 1].operation

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        copies = {block.arguments[n]: a for n, a in zip(operands, arguments, strict=True)}
        for old in kept:
            new = old.clone(ir.InsertionPoint.current).operation
            for index, value in enumerate(new.operands):
                new.operands[index] = copies.get(value, value)
            if new.name == "linalg.index":
                loop = loops.index(new.attributes["dim"].value)
                new.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), loop)
            copies.update(zip(old.results, new.results, strict=True))
        value = terminator.operands[number]
        return [copies.get(value, value)]

    renamed = [tuple(None if d is None else loops.index(d) for d in maps[n]) for n in operands]
    kinds = ops.iterator_types(op)
    return generic(
        [op.operands[n] for n in read],
        [op.operands[inputs + number]],
        renamed,
        [kinds[d] for d in loops],
        body,
    ).results[0]
