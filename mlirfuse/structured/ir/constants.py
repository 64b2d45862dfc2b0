"""Compile-time constants: numbers, data, and immutable globals."""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.structured.ir.tensor_types import shape
from mlirfuse.structured.ir.values import defining_op, nested_ops


def constant(value: ir.Value) -> float | int | None:
    """The compile-time number that all elements of a value hold, else None.

    Recognized are scalar and splat constants, fills with one, and immutable globals of rank 0:
    IREE hoists constants that its inliner does not inline into such globals.
    """
    op = defining_op(value)
    if op is None:
        return None
    if op.name == "linalg.fill":
        return constant(op.operands[0])
    if op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        return constant(op.operands[0])
    if op.name == "util.global.load" and shape(value):
        return None
    attribute = initial_attribute(value)
    return None if attribute is None else attribute_number(attribute)


CONSTANT_OPS = frozenset({"arith.constant", "flow.tensor.constant"})
"""Ops that hold data: constants of the program, or parameters that are loaded with it."""


def is_constant_data(value: ir.Value) -> bool:
    """Whether the value is known at load time: constant data or an immutable global."""
    op = defining_op(value)
    if op is None:
        return False
    return op.name in CONSTANT_OPS or (
        op.name == "util.global.load" and "is_immutable" in op.attributes
    )


def initial_attribute(value: ir.Value) -> ir.Attribute | None:
    """The attribute that holds the data of a constant or of an immutable global; None for others.

    A global that an initializer of the module computes has none.
    """
    op = defining_op(value)
    if op is None or op.name not in ("arith.constant", "util.global.load"):
        return None
    if op.name == "arith.constant":
        return op.attributes["value"]
    if "is_immutable" not in op.attributes:
        return None
    symbol = op.attributes["global"].value
    for found in _module_ops(op):
        attributes = found.attributes
        if found.name == "util.global" and attributes["sym_name"].value == symbol:
            known = "is_mutable" not in attributes and "initial_value" in attributes
            return attributes["initial_value"] if known else None
    return None


def initializer_value(value: ir.Value) -> ir.Value | None:
    """The value that an initializer of the module stores in the immutable global that is loaded.

    Loads in another initializer, which comes after that one, are not marked as immutable. The value
    lives in the initializer: analyses may inspect its computation, but other functions cannot
    use it.
    """
    load = defining_op(value)
    if load is None or load.name != "util.global.load":
        return None
    if "is_immutable" not in load.attributes and not _loads_unchanged(load):
        return None
    symbol = load.attributes["global"].value
    for op in _module_ops(load):
        if op.name != "util.initializer":
            continue
        for inner in nested_ops(op):
            if inner.name == "util.global.store" and inner.attributes["global"].value == symbol:
                stored: ir.Value = inner.operands[0]
                return stored
    return None


def _loads_unchanged(load: ir.Operation) -> bool:
    """Whether an initializer loads a global that no function changes."""
    if load.parent.operation.name != "util.initializer":
        return False
    symbol = load.attributes["global"].value
    return any(
        op.name == "util.global"
        and op.attributes["sym_name"].value == symbol
        and "is_mutable" not in op.attributes
        for op in _module_ops(load)
    )


def _module_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    module = op.parent
    while module is not None and module.operation.name != "builtin.module":
        module = module.operation.parent
    if module is not None:
        yield from (o.operation for o in module.operation.regions[0].blocks[0].operations)


def attribute_number(attribute: ir.Attribute) -> float | int | None:
    """The number that a float, integer, bool or splat attribute holds, else None."""
    if isinstance(attribute, ir.FloatAttr):
        return float(attribute.value)
    if isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr)):
        return int(attribute.value)
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        return attribute_number(attribute.get_splat_value())
    return None
