"""Gathers of one index, which IREE 3.13 reads without a check.

It makes `torch_index_select` of them, and reads outside of the operand's memory for an index out of
bounds; StableHLO takes the nearest window that fits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.compiler import ir

_ONE_INDEX = re.compile(r"start_index_map = \[(\d+)\]")


def gather(op: ir.Operation) -> None:
    """Clamps the indices."""
    from iree.compiler import ir

    operand, indices = op.operands
    found = _ONE_INDEX.search(str(op.attributes["dimension_numbers"]))
    source, declared = (ir.RankedTensorType(value.type) for value in (operand, indices))
    if found is None or source.is_dynamic_dim(int(found[1])):
        return
    axis, element = int(found[1]), ir.IntegerType(declared.element_type)
    window = ir.DenseI64ArrayAttr(op.attributes["slice_sizes"])[axis]
    width = element.width if element.is_unsigned else element.width - 1
    largest = min(source.get_dim_size(axis) - window, 2**width - 1)
    with op.location, ir.InsertionPoint(op):
        low, high = (_scalar(element, number) for number in (0, largest))
        clamped = ir.Operation.create("stablehlo.clamp", [declared], [low, indices, high])
        op.operands[1] = clamped.result


def _scalar(element: ir.Type, number: int) -> ir.Value:
    from iree.compiler import ir

    declared = ir.RankedTensorType.get([], element)
    value = ir.DenseElementsAttr.get_splat(declared, ir.IntegerAttr.get(element, number))
    return ir.Operation.create("stablehlo.constant", [declared], [], {"value": value}).result
