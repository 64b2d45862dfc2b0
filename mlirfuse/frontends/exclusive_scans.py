"""Exclusive scans that a model writes as inclusive ones, shifted by an element.

    %s = tensor.extract_slice %x[0] [n - 1]
    %c = iree_linalg_ext.scan inclusive(true) ins(%s) outs(..., fill 0)
    %y = tensor.concat %zero, %c                     // or tensor.pad %c low[1], with 0
  becomes
    %y = iree_linalg_ext.scan inclusive(false) ins(%x) outs(..., fill 0)

also where the scan is of all elements, and all but its last are shifted. An exclusive scan is one
kernel; in the other form it is the copy of a part, a scan and a copy of its results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse import builders
from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir

_SCAN = "iree_linalg_ext.scan"


def make_exclusive(module: ir.Module) -> bool:
    """Rewrites all of them; returns whether there are any."""
    shifts = [
        op
        for op in ops.nested_ops(module.operation)
        if op.name in ("tensor.concat", "tensor.pad") and None not in ops.shape(op.results[0])
    ]
    return any([_rewrite(op) for op in shifts])


def _rewrite(op: ir.Operation) -> bool:
    shifted = _shifted(op)
    if shifted is None:
        return False
    axis, first, rest = shifted
    producer = ops.defining_op(rest)
    if producer is None:
        return False
    if producer.name == _SCAN:
        scan, whole = producer, _all_but_last(producer.operands[0], axis)
    else:
        source = _all_but_last(rest, axis)
        found = None if source is None else ops.defining_op(source)
        if found is None or found.name != _SCAN or source != found.results[0]:
            return False
        scan, whole = found, found.operands[0]
    if whole is None or not _begins_with(scan, axis, first) or rest == scan.results[-1]:
        return False
    if ops.shape(whole) != ops.shape(op.results[0]):
        return False
    op.results[0].replace_all_uses_with(_exclusive(scan, whole, first, op))
    op.erase()
    return True


def _shifted(op: ir.Operation) -> tuple[int, float | int, ir.Value] | None:
    """The axis along which an op puts a number in front of a tensor, the number and the tensor."""
    if op.name == "tensor.concat":
        axis = int(op.attributes["dim"].value)
        if len(op.operands) != 2 or ops.shape(op.operands[0])[axis] != 1:
            return None
        number, rest = ops.constant(op.operands[0]), op.operands[1]
    else:
        low, high = (list(op.attributes[f"static_{side}"]) for side in ("low", "high"))
        if any(high) or sorted(low) != [0] * (len(low) - 1) + [1] or len(op.operands) != 1:
            return None
        axis, rest = low.index(1), op.operands[0]
        number = ops.constant(ops.body(op).operations[-1].operands[0])
    return None if number is None else (axis, number, rest)


def _all_but_last(value: ir.Value, axis: int) -> ir.Value | None:
    """The tensor of which a value has all elements but the last along an axis."""
    op = ops.defining_op(value)
    boxes = None if op is None else ops.static_slice(op)
    if op is None or boxes is None:
        return None
    source = op.operands[0]
    wanted = [(0, size) for size in ops.shape(source)]
    last = wanted[axis][1]
    wanted[axis] = (0, None if last is None else last - 1)
    same_rank = len(ops.shape(value)) == len(wanted)
    return source if same_rank and list(boxes) == wanted else None


def _begins_with(scan: ir.Operation, axis: int, number: float) -> bool:
    """Whether a scan along an axis is inclusive, and an exclusive one begins with the number."""
    if not scan.attributes["inclusive"].value or int(scan.attributes["dimension"].value) != axis:
        return False
    return bool(ops.constant(scan.operands[2]) == number)


def _exclusive(scan: ir.Operation, whole: ir.Value, first: float, before: ir.Operation) -> ir.Value:
    """The exclusive scan of a tensor, which begins with a number, in front of an op."""
    from iree.compiler import ir

    with before.location, ir.InsertionPoint(before):
        copy = scan.clone()
        element = ops.element_type(whole)
        number = builders.scalar_constant(first, element)
        kept = builders.fill(number, builders.empty(ops.shape(whole), element))
        made = ir.Operation.create(
            _SCAN,
            results=[whole.type, scan.operands[2].type],
            operands=[whole, kept, scan.operands[2]],
            attributes={
                **{name: scan.attributes[name] for name in scan.attributes},
                "inclusive": ir.BoolAttr.get(False),
            },
            regions=1,
        )
        copy.regions[0].blocks[0].append_to(made.regions[0])
        copy.operation.erase()
        found: ir.Value = made.results[0]
        return found
