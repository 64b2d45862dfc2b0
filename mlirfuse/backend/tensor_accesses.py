"""The parts of tensors that a dispatch of IREE loads and stores, and the copies it consists of.

    %x = iree_tensor_ext.dispatch.tensor.load %a, offsets = [0, 8], sizes = [256, 24]
    iree_tensor_ext.dispatch.tensor.store %x, %b, offsets = [0, 0], sizes = [256, 24]

A dispatch that reads a slice of an operand, or writes into a part of one, moves fewer bytes than
its operands have.
"""

from __future__ import annotations

import re

from iree.compiler import ir

from mlirfuse.structured.ir import ops

LOAD = "iree_tensor_ext.dispatch.tensor.load"
STORE = "iree_tensor_ext.dispatch.tensor.store"

COPY, SLICE, INSERTION = "linalg.copy", "tensor.extract_slice", "tensor.insert_slice"
COPIES = frozenset({COPY, SLICE, INSERTION})
"""Names of the ops that a dispatch without computation comes from."""

_TENSOR = re.compile(r":(tensor<.*>)>")


def access_bytes(source: ir.Operation) -> int | None:
    """Bytes that a dispatch loads and stores.

    A part that is loaded twice counts once. None where the size of a part is dynamic, or where the
    dispatch has neither loads nor stores.
    """
    found: dict[tuple[ir.Value, str], dict[tuple[str, ...], int]] = {}
    for op in ops.nested_ops(source):
        if op.name not in (LOAD, STORE):
            continue
        tensor, part = _accessed(op)
        if None in ops.shape(part):
            return None
        parts = found.setdefault((tensor, op.name), {})
        parts[_place(op)] = ops.num_bytes(part)
    if not found:
        return None
    total = 0
    for (tensor, _), parts in found.items():
        size, accessed = _size(tensor), sum(parts.values())
        total += accessed if size is None else min(size, accessed)
    return total


def copy_name(store: ir.Operation) -> str:
    """The op of the model that a store is, in a dispatch that computes nothing."""
    value = store.operands[0].owner
    load = value if isinstance(value, ir.Operation) else getattr(value, "operation", None)
    if not _is_whole(store):
        return INSERTION
    return SLICE if load is not None and load.name == LOAD and not _is_whole(load) else COPY


def _accessed(op: ir.Operation) -> tuple[ir.Value, ir.Value]:
    """The tensor of a load or store, and the part of it."""
    if op.name == LOAD:
        return op.operands[0], op.results[0]
    return op.operands[1], op.operands[0]


def _place(op: ir.Operation) -> tuple[str, ...]:
    """The part of its tensor that a load or store names."""
    attributes = (str(op.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides"))
    first = 1 if op.name == LOAD else 2
    return (*attributes, *(value.get_name() for value in list(op.operands)[first:]))


def _size(tensor: ir.Value) -> int | None:
    """Bytes of the tensor of a `!iree_tensor_ext.dispatch.tensor`; None where one is dynamic."""
    text = _TENSOR.search(str(tensor.type))
    return None if text is None else ops.type_bytes(ir.Type.parse(text[1]))


def _is_whole(op: ir.Operation) -> bool:
    """Whether a load or store is of its whole tensor."""
    tensor, part = _accessed(op)
    size = _size(tensor)
    return size is not None and None not in ops.shape(part) and ops.num_bytes(part) >= size
