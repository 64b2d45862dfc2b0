"""Comparators of `iree_linalg_ext.sort`: which of two elements comes first.

^bb0(%a: f32, %b: f32):
  %x = f(%a)
  %y = f(%b)
  %c = arith.cmpi sge, %x, %y
  iree_linalg_ext.yield %c
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops

_INTEGERS = {
    3: (False, True),
    5: (True, True),
    7: (False, False),
    9: (True, False),
}
"""Predicate of `arith.cmpi` with equality -> whether the larger one is first, whether signed."""

_FLOATS = {3: True, 5: False}
"""Ordered predicate of `arith.cmpf` with equality -> whether the larger one is first."""

_SGT = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Comparator:
    """The order of two elements.

    Attributes:
      descending: whether the element with the larger function comes first.
      function: ops that compute the function of an element, with the element and the function;
        None for the element itself.
      is_total: whether it is an order of all elements; else not of NaN.
      signed: whether integers are compared as signed ones.
    """

    descending: bool
    function: tuple[tuple[ir.Operation, ...], ir.Value, ir.Value] | None
    is_total: bool
    signed: bool = True


def comparator(root: ir.Operation) -> tuple[int, Comparator] | NoMatch:
    """The number of the operand by which a sort compares, and its order.

    Args:
      root: an `iree_linalg_ext.sort`.
    """
    block = root.regions[0].blocks[0]
    arguments = list(block.arguments)
    end = [view.operation for view in block.operations][-1]
    compared = ops.defining_op(end.operands[0])
    if compared is None or compared.name not in ("arith.cmpi", "arith.cmpf"):
        return NoMatch(Reason.STRUCTURE, "a comparator that is no comparison of two values")
    predicate = int(compared.attributes["predicate"].value)
    floats = compared.name == "arith.cmpf"
    if predicate not in (_FLOATS if floats else _INTEGERS):
        return NoMatch(Reason.STRUCTURE, "a comparator that is false for equal elements")
    descending, signed = (_FLOATS[predicate], True) if floats else _INTEGERS[predicate]
    first, second = (_function(value, arguments) for value in compared.operands)
    if first is None or second is None or not _same(first, second):
        return NoMatch(Reason.STRUCTURE, "a comparator of two functions, or of several elements")
    one, other = arguments.index(first[1]), arguments.index(second[1])
    if one // 2 != other // 2 or one == other:
        return NoMatch(Reason.STRUCTURE, "a comparator of elements of two tensors")
    descending ^= one > other
    held = first if first[0] else None
    return one // 2, Comparator(descending, held, is_total=not floats, signed=signed)


def larger(root: ir.Operation) -> Comparator | NoMatch:
    """The order of a selection of the largest integers.

    Args:
      root: an `iree_linalg_ext.topk`.
    """
    block = root.regions[0].blocks[0]
    body = [view.operation for view in block.operations]
    if [op.name for op in body[:-1]] != ["arith.cmpi"] or body[-1].operands[0].owner != body[0]:
        return NoMatch(Reason.STRUCTURE, "a selection by another comparator than of integers")
    plain = list(body[0].operands) == list(block.arguments)
    if not plain or int(body[0].attributes["predicate"].value) != _SGT:
        return NoMatch(Reason.STRUCTURE, "a selection of other elements than the largest")
    return Comparator(descending=True, function=None, is_total=True)


def _function(
    value: ir.Value, arguments: list[ir.Value]
) -> tuple[tuple[ir.Operation, ...], ir.Value, ir.Value] | None:
    """The ops that compute a value of one argument; None where they read several."""
    read: set[ir.Value] = set()
    found: dict[ir.Operation, None] = {}

    def visit(one: ir.Value) -> None:
        if one in arguments:
            read.add(one)
            return
        op = ops.defining_op(one)
        if op is None or op.name == "arith.constant" or op in found:
            return
        for operand in op.operands:
            visit(operand)
        found[op] = None

    visit(value)
    return (tuple(found), read.pop(), value) if len(read) == 1 else None


def _same(
    one: tuple[tuple[ir.Operation, ...], ir.Value, ir.Value],
    other: tuple[tuple[ir.Operation, ...], ir.Value, ir.Value],
) -> bool:
    """Whether two functions are the same one of their arguments."""
    known = {one[1]: other[1]}
    if len(one[0]) != len(other[0]):
        return False
    for a, b in zip(one[0], other[0], strict=True):
        operands = [known.get(value, value) for value in a.operands]
        if a.name != b.name or operands != list(b.operands) or len(a.results) != 1:
            return False
        if {n: a.attributes[n] for n in a.attributes} != {n: b.attributes[n] for n in b.attributes}:
            return False
        known[a.results[0]] = b.results[0]
    return bool(known.get(one[2]) == other[2])
