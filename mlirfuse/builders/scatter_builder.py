"""Scatters of wider elements."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.builders import regions, tensors
from mlirfuse.structured.ir import analysis_cache, ops
from mlirfuse.structured.recognize.scatters import Scatter

WIDER = {"f16": "f32", "bf16": "f32", "i1": "i32", "i8": "i32", "i16": "i32"}
"""Element type -> the type of 32 bits that holds all of its numbers."""

_SIGNED = ("arith.maxsi", "arith.minsi")


def widened(found: Scatter, *, fenced: bool = False) -> ir.Operation:
    """Combines the elements of a scatter in 32 bits, and rounds the result.

    Args:
      found: the scatter.
      fenced: whether the casts become dispatches of their own.

    Returns:
      The op that computes the narrow result; the scatter is erased.
    """
    kind = ops.element_type(found.destination)
    wide = WIDER[kind]
    signed = kind != "i1" or found.combiner in _SIGNED
    signed = signed and found.combiner not in ("arith.maxui", "arith.minui")
    extend = "arith.extf" if ops.is_float(found.destination) else f"arith.ext{'su'[not signed]}i"
    narrow = "arith.truncf" if ops.is_float(found.destination) else "arith.trunci"
    with ir.InsertionPoint(found.op), found.op.location:
        number = ops.constant(found.destination)
        if number is not None:
            number = int(number) & 1 if kind == "i1" and not signed else number
            sizes = tensors.dynamic_sizes(found.destination)
            empty = tensors.empty(ops.shape(found.destination), wide, sizes)
            destination = tensors.fill(tensors.scalar_constant(number, wide), empty)
        else:
            destination = _each(found.destination, wide, lambda x: _cast(extend, x, wide))
        updates = found.updates
        if found.combiner is None:
            updates = _each(updates, wide, lambda x: _cast(extend, x, wide))
        else:
            updates = _each(updates, wide, lambda x: _cast(extend, _function(found, x), wide))
        masks = [] if found.mask is None else [found.mask]
        op = ir.Operation.create(
            found.op.name,
            results=[destination.type],
            operands=[updates, found.indices, *masks, destination],
            attributes={
                name: found.op.attributes[name] for name in ("dimension_map", "unique_indices")
            },
            regions=1,
        )
        scalar = analysis_cache.parse(ir.Type, wide)
        block = op.regions[0].blocks.append(scalar, scalar, arg_locs=[ir.Location.current] * 2)
        with ir.InsertionPoint(block):
            update, element = block.arguments
            if found.combiner is None:
                values = [_cast(narrow, value, kind) for value in (update, element)]
                result = _cast(extend, tensors.body_of(found.op)(values)[0], wide)
            else:
                result = tensors.scalar(found.combiner, [element, update], wide)
            ir.Operation.create("iree_linalg_ext.yield", operands=[result])
        rounded = _each(op.results[0], kind, lambda x: _cast(narrow, x, kind))
    if fenced:
        for value in (*([] if number is not None else [destination]), updates, op.results[0]):
            regions.fence(value)
    found.op.results[0].replace_all_uses_with(rounded)
    found.op.erase()
    return ir.OpResult(rounded).owner


def _cast(name: str, value: ir.Value, kind: str) -> ir.Value:
    return tensors.scalar(name, [value], kind)


def _each(value: ir.Value, element: str, function: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """A function of each element of a tensor."""
    shape = ops.shape(value)
    identity = tuple(range(len(shape)))
    return tensors.generic(
        [value],
        [tensors.empty(shape, element, tensors.dynamic_sizes(value))],
        [identity, identity],
        ["parallel"] * len(shape),
        lambda arguments: [function(arguments[0])],
    ).results[0]


def _function(found: Scatter, update: ir.Value) -> ir.Value:
    """The function of the update that the combiner takes, built at the current insertion point."""
    block = found.op.regions[0].blocks[0]
    copies = {block.arguments[0]: update}
    wanted = found.update
    if wanted in copies:
        return update
    for view in list(block.operations)[:-1]:
        old = view.operation
        if block.arguments[1] in list(old.operands):
            continue
        new = old.clone(ir.InsertionPoint.current).operation
        for index, value in enumerate(new.operands):
            new.operands[index] = copies.get(value, value)
        copies.update(zip(old.results, new.results, strict=True))
    return copies.get(wanted, wanted)
