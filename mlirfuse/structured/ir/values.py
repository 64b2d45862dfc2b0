"""Values and the ops around them: producers, users, nesting, dispatch regions."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator

from iree.compiler import ir

from mlirfuse.structured.ir import analysis_cache

REGION = "flow.dispatch.region"
RETURN = "flow.return"

# Ops without memory, ordering or control effects that may be moved, cloned and grouped.
_PURE_DIALECTS = ("arith.", "math.", "tensor.", "linalg.", "iree_linalg_ext.", "complex.")
_PURE_OPS = frozenset(
    {
        "affine.apply",
        "flow.tensor.constant",
        "util.null",
        REGION,
        "iree_tensor_ext.bitcast",
        "iree_tensor_ext.compute_barrier.start",
        "iree_tensor_ext.compute_barrier.end",
    }
)


def is_pure(op: ir.Operation) -> bool:
    """Whether moving the op within its block leaves the program unchanged."""
    return op.name.startswith(_PURE_DIALECTS) or op.name in _PURE_OPS


_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype = ctypes.c_void_p
_address.argtypes = (ctypes.py_object, ctypes.c_char_p)


def identity(op: ir.Operation) -> int:
    """The address of the op, constant while it exists; its hash changes with its operands."""
    return int(_address(op._CAPIPtr, b"iree.compiler.ir.Operation._CAPIPtr"))


def defining_op(value: ir.Value) -> ir.Operation | None:
    """The op that defines the value; None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def strip_views(value: ir.Value, views: Collection[str]) -> ir.Value:
    """The source of a value through producers with these op names.

    Args:
      value: the value.
      views: names of ops whose first operand is looked through, e.g. `RESHAPES`.
    """
    op = defining_op(value)
    while op is not None and op.name in views:
        value = op.operands[0]
        op = defining_op(value)
    return value


def block_of(value: ir.Value) -> ir.Block:
    """The block that the value is defined in."""
    owner = value.owner
    return owner if isinstance(owner, ir.Block) else owner.operation.block


def users(value: ir.Value) -> list[ir.Operation]:
    """The users of the value, each once."""
    return list(dict.fromkeys(use.owner.operation for use in value.uses))


def is_read(value: ir.Value) -> bool:
    """Whether the value has a user."""
    return next(iter(value.uses), None) is not None


def ancestor_in(block: ir.Block, op: ir.Operation) -> ir.Operation | None:
    """The op of `block` that is or contains `op`; None when there is none."""
    current: ir.Operation | None = op
    while current is not None:
        if current.block == block:
            return current
        current = current.parent.operation if current.parent is not None else None
    return None


def nested_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """Every op inside the op's regions, outer before inner."""
    for region in op.regions:
        for block in region.blocks:
            for nested in block.operations:
                yield nested.operation
                yield from nested_ops(nested.operation)


@analysis_cache.per_op
def operand_producers(op: ir.Operation) -> tuple[tuple[ir.Value, ir.Operation | None], ...]:
    """The values of `external_operands`, each with the op that defines it."""
    return tuple((value, defining_op(value)) for value in external_operands(op))


@analysis_cache.per_op
def external_operands(op: ir.Operation) -> tuple[ir.Value, ...]:
    """The values defined outside the op that it or its nested ops use, each once."""
    seen: dict[ir.Value, None] = dict.fromkeys(op.operands)
    inside: set[ir.Value] = set()
    read: list[ir.Value] = []
    _values_in(op, inside, read)
    for value in read:
        if value not in inside:
            seen[value] = None
    return tuple(seen)


def _values_in(op: ir.Operation, defined: set[ir.Value], read: list[ir.Value]) -> None:
    """Collects the values that nested ops define and those that they use, in order."""
    for region in op.regions:
        for block in region.blocks:
            defined.update(block.arguments)
            for view in block.operations:
                nested = view.operation
                read += nested.operands
                defined.update(nested.results)
                _values_in(nested, defined, read)


def yielded_value(value: ir.Value) -> ir.Value:
    """The value that a dispatch region yields for this result of it; else the value itself."""
    owner = defining_op(value)
    if owner is None or owner.name != REGION:
        return value
    last = owner.regions[0].blocks[0].operations[-1].operation
    found: ir.Value = last.operands[list(owner.results).index(value)]
    return found


def module_of(op: ir.Operation) -> ir.Operation:
    """The module around the op, or the op itself."""
    while op.name != "builtin.module":
        op = op.parent.operation
    return op


def in_region(op: ir.Operation) -> bool:
    """Whether the op is inside a dispatch region or workgroups op."""
    parent = op.parent
    while parent is not None:
        if parent.operation.name in (REGION, "flow.dispatch.workgroups"):
            return True
        parent = parent.operation.parent
    return False
