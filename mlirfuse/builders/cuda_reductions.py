"""Reductions that IREE 3.13 compiles wrong for CUDA, or not at all, and a form that it compiles.

    %m = linalg.generic {arith.minsi} ins(%x : tensor<64x4096xi32>)
  becomes
    %f = flow.dispatch.region {linalg.generic {arith.sitofp} ins(%x)}
    %r = linalg.generic {arith.minimumf} ins(%f : tensor<64x4096xf64>)
    %m = linalg.generic {arith.fptosi} ins(%r)

A reduction of rows by `minsi` or `maxsi` in at most 32 bits starts its lanes with the identity of
the unsigned op: the minimum of positive numbers is -1, the maximum of negative ones 0.

    %s = linalg.generic {arith.extsi, arith.addi} ins(%x : tensor<64x4096xi32>)
  becomes
    %e = flow.dispatch.region {linalg.generic {arith.extsi} ins(%x)}
    %s = linalg.generic {arith.addi} ins(%e : tensor<64x4096xi64>)

A sum of rows in a wider type is refused: "failed to distribute".

    %i = linalg.generic {linalg.index, arith.select, arith.minimumf} ins(%x)
  becomes
    %k = flow.dispatch.region {linalg.generic {linalg.index, arith.select} ins(%x)}
    %i = linalg.generic {arith.minimumf} ins(%k)

A reduction that reads the index of its own loop is refused for some sizes in the same way.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.regions import enclosing, form_region
from mlirfuse.builders.tensors import (
    body_of,
    dynamic_sizes,
    empty,
    generic,
    scalar,
    tensor_type,
)
from mlirfuse.structured.ir import ops

_AS_FLOATS = {"arith.minsi": "arith.minimumf", "arith.maxsi": "arith.maximumf"}

_FLOATS = {"i8": "f32", "i16": "f32", "i32": "f64"}
"""Integer type -> the float type that holds all of its numbers."""


def repair(module: ir.Module) -> bool:
    """Rewrites all such ops; returns whether there is any."""
    changed = False
    for form in (_extend_before, _reduce_floats, _compute_before):
        generics = [op for op in ops.nested_ops(module.operation) if op.name == "linalg.generic"]
        changed = any([form(op) for op in generics if len(op.results) == 1]) or changed
    return changed


def _extend_before(op: ir.Operation) -> bool:
    """Extends the integers of a reduction in a dispatch of their own."""
    if "reduction" not in ops.iterator_types(op):
        return False
    changed = False
    for index, value in enumerate(ops.inputs(op)):
        argument = ops.body(op).arguments[index]
        users = [use.owner.operation for use in argument.uses]
        if len(users) != 1 or users[0].name not in ("arith.extsi", "arith.extui"):
            continue
        if ops.element_type(value) == "i1":
            continue
        extension, kind = users[0], str(users[0].results[0].type)
        if _convert_before(op, index, extension.name, kind):
            extension.results[0].replace_all_uses_with(argument)
            extension.erase()
            changed = True
    return changed


def _convert_before(op: ir.Operation, index: int, conversion: str, kind: str) -> bool:
    """Converts an input in a dispatch of its own; False where that cannot come before the op's."""
    value, outer = ops.inputs(op)[index], enclosing(op) or op
    if enclosing(ops.defining_op(value)) is not None:
        return False
    with ir.InsertionPoint(outer), op.location:
        converted = _converted(value, conversion, kind)
    op.operands[index] = converted
    form_region([_operation(converted)])
    ops.body(op).arguments[index].set_type(ir.Type.parse(kind, op.context))
    return True


def _operation(value: ir.Value) -> ir.Operation:
    found = ops.defining_op(value)
    assert found is not None
    return found


def _converted(value: ir.Value, conversion: str, kind: str) -> ir.Value:
    """The tensor with its elements converted, at the current insertion point."""
    identity = tuple(range(len(ops.shape(value))))
    return generic(
        [value],
        [empty(ops.shape(value), kind, dynamic_sizes(value))],
        [identity, identity],
        ["parallel"] * len(identity),
        lambda arguments: [scalar(conversion, arguments[:1], kind)],
    ).results[0]


def _compute_before(op: ir.Operation) -> bool:
    """Computes the elements of a reduction that reads an index in a dispatch of their own."""
    kinds, maps, body = ops.iterator_types(op), ops.indexing_maps(op), ops.body(op)
    if "reduction" not in kinds or None in maps or not ops.reads_index(op):
        return False
    combiner = list(body.operations)[-1].operands[0].owner
    accumulator = body.arguments[-1]
    if isinstance(combiner, ir.Block) or len(list(accumulator.uses)) != 1:
        return False
    elements = [operand for operand in combiner.operands if operand != accumulator]
    if len(combiner.operands) != 2 or len(elements) != 1 or None in ops.loop_sizes(op):
        return False
    kind, name = str(elements[0].type), combiner.name
    identity, outer = tuple(range(len(kinds))), enclosing(op) or op
    with ir.InsertionPoint(op), op.location:
        computed = generic(
            ops.inputs(op),
            [empty(ops.loop_sizes(op), kind)],
            [*ops.plain_maps(op)[:-1], identity],
            ["parallel"] * len(kinds),
            lambda arguments: [_element(op, arguments)],
        )
        reduced = generic(
            [computed.results[0]],
            ops.inits(op),
            [identity, ops.plain_maps(op)[-1]],
            kinds,
            lambda a: [scalar(name, a, str(a[1].type))],
        )
    op.results[0].replace_all_uses_with(reduced.results[0])
    op.erase()
    if outer is op:
        form_region([computed])
    return True


def _element(op: ir.Operation, arguments: list[ir.Value]) -> ir.Value:
    """The element that a reduction combines with its accumulator, from other arguments."""
    copied = body_of(op)(arguments)[0].owner
    value = next(operand for operand in copied.operands if operand != arguments[-1])
    copied.operation.erase()
    return value


def _reduce_floats(op: ir.Operation) -> bool:
    """Reduces integers by a signed maximum or minimum as floats that hold all of them."""
    body, kind = ops.body(op), ops.element_type(op.results[0])
    if "reduction" not in ops.iterator_types(op) or kind not in _FLOATS:
        return False
    if None in ops.indexing_maps(op):
        return False  # windows: a thread reduces each alone
    combiner = list(body.operations)[-1].operands[0].owner
    if isinstance(combiner, ir.Block) or combiner.name not in _AS_FLOATS:
        return False
    accumulator, wide = body.arguments[-1], _FLOATS[kind]
    elements = [operand for operand in combiner.operands if operand != accumulator]
    if len(elements) != 1 or len(list(accumulator.uses)) != 1:
        return False
    element = elements[0]
    alone = len(list(body.operations)) == 2 and isinstance(element.owner, ir.Block)
    if not alone or not _convert_before(op, 0, "arith.sitofp", wide):
        with ir.InsertionPoint(combiner), combiner.location:
            element = scalar("arith.sitofp", [element], wide)
    last = len(op.operands) - 1
    with ir.InsertionPoint(op), op.location:
        op.operands[last] = _converted(op.operands[last], "arith.sitofp", wide)
    accumulator.set_type(ir.Type.parse(wide, op.context))
    with ir.InsertionPoint(combiner), combiner.location:
        combined = scalar(_AS_FLOATS[combiner.name], [element, accumulator], wide)
    combiner.results[0].replace_all_uses_with(combined)
    combiner.operation.erase()
    result = op.results[0]
    with op.location:
        result.set_type(tensor_type(ops.shape(op.operands[last]), wide))
    with ir.InsertionPoint.after(op), op.location:
        narrow = _converted(result, "arith.fptosi", kind)
    result.replace_all_uses_except(narrow, [_operation(narrow)])
    return True
