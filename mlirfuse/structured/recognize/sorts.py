"""Stable sorts of rows, and the tensors of their first elements.

    %i = sum over k of (%r[k] == p ? k : 0)            indices by ranks, as in `orders`
    %w = linalg.generic {extsi} ins(%i)                the same as i64
    %v = linalg.generic {tensor.extract %x} ins(%w)    the elements with these indices

    %v, %p = iree_linalg_ext.sort outs(%x, %q) {f(%a) >= f(%b)}
    %v, %i = iree_linalg_ext.topk ins(%x) outs(...) {%a > %b}

A comparator that compares one function of both elements, integers and with equality, is a stable
order: IREE exchanges neighbors for which it is false. Floats are compared so only without NaN.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import orders
from mlirfuse.structured.recognize.comparators import Comparator, comparator, larger
from mlirfuse.structured.recognize.order_users import SortResult, exclusive, with_users

SORT = "iree_linalg_ext.sort"
TOPK = "iree_linalg_ext.topk"


@dataclasses.dataclass(frozen=True, slots=True)
class Sort:
    """A stable sort of rows.

    Attributes:
      group: the ops that it replaces, in block order.
      source: the tensor by whose elements rows are sorted.
      dimension: its dimension along which rows are.
      count: elements of each sorted row that are kept.
      comparator: the order.
      results: the tensors that it computes.
    """

    group: tuple[ir.Operation, ...]
    source: ir.Value
    dimension: int
    count: int
    comparator: Comparator
    results: tuple[SortResult, ...]


def sort(root: ir.Operation, max_operands: int) -> Sort | NoMatch | None:
    """Reads a sort.

    Args:
      root: the op that computes indices, or the sort itself.
      max_operands: operands and results that a dispatch may have.
    """
    if root.name == orders.ROOT:
        found = orders.order(root)
        return None if found is None else ranked(found, max_operands)
    obstacle = _static(root)
    if obstacle is not None:
        return obstacle
    return _exchanged(root, max_operands) if root.name == SORT else _selected(root)


def ranked(found: orders.Order, max_operands: int) -> Sort | NoMatch:
    """A sort by ranks, with the gathers of its elements where they can join.

    Args:
      found: the indices.
      max_operands: operands and results that a dispatch may have.
    """
    own = exclusive(found)
    group = [op for op in found.group if op in own]
    root = SortResult(found.root.results[0], None, found.axes)
    blocked: NoMatch | None = None
    for takes_gathers in (True, False):
        users, results = with_users(root, found, takes_gathers=takes_gathers)
        members = slices.in_order({*group, *users})
        blocked = slices.check(members, max_operands, any_result=True)
        if blocked is None:
            by_value = {one.value: one for one in results}
            comparison = Comparator(found.descending, None, is_total=True)
            return Sort(
                tuple(members),
                found.source,
                found.dimension,
                found.count,
                comparison,
                tuple(by_value[value] for value in slices.results_of(members)),
            )
    assert blocked is not None
    return blocked


def _static(root: ir.Operation) -> NoMatch | None:
    if any(None in ops.shape(value) for value in (*root.operands, *root.results)):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel takes static sizes")
    return None


def _exchanged(root: ir.Operation, max_operands: int) -> Sort | NoMatch:
    """An `iree_linalg_ext.sort`, with slices of its first elements."""
    compared = comparator(root)
    if isinstance(compared, NoMatch):
        return compared
    operand, comparison = compared
    source, dimension = root.operands[operand], int(root.attributes["dimension"].value)
    rank = len(ops.shape(source))
    cuts = _first_elements(root, dimension)
    group = slices.in_order({root, *cuts})
    if slices.check(group, max_operands, any_result=True) is not None:
        cuts, group = [], [root]
        blocked = slices.check(group, max_operands, any_result=True)
        if blocked is not None:
            return blocked
    count, columns = ops.shape(source)[dimension], range(rank)
    results = []
    for value in slices.results_of(group):
        owner = ops.defining_op(value)
        result = value
        if owner is not None and owner != root:
            result, count = owner.operands[0], ops.shape(value)[dimension]
        payload = root.operands[list(root.results).index(result)]
        held = None if _numbers(payload, dimension) else payload
        results.append(SortResult(value, held, tuple(columns)))
    return Sort(tuple(group), source, dimension, count or 0, comparison, tuple(results))


def _first_elements(root: ir.Operation, dimension: int) -> list[ir.Operation]:
    """The slices of the first elements, if all users of the results are such, of one size."""
    users = {user for result in root.results for user in ops.users(result)}
    sizes = set()
    for user in users:
        bounds = ops.static_slice(user)
        shape = ops.shape(user.operands[0])
        if bounds is None or len(ops.shape(user.results[0])) != len(shape):
            return []
        for axis, (offset, size) in enumerate(bounds):
            if offset or (axis != dimension and size != shape[axis]):
                return []
        sizes.add(bounds[dimension][1])
    return list(users) if len(sizes) == 1 else []


def _numbers(value: ir.Value, dimension: int) -> bool:
    """Whether each element of a tensor is its index along a dimension."""
    op = ops.defining_op(value)
    if op is None or not ops.is_elementwise(op) or ops.num_inputs(op) or len(op.results) != 1:
        return False
    if None in ops.indexing_maps(op):
        return False
    first, *rest = [view.operation for view in ops.body(op).operations]
    if [one.name for one in rest] != ["arith.index_cast", "linalg.yield"]:
        return False
    if first.name != "linalg.index" or rest[1].operands[0] != rest[0].results[0]:
        return False
    return bool(ops.plain_maps(op)[0][dimension] == int(first.attributes["dim"].value))


def _selected(root: ir.Operation) -> Sort | NoMatch:
    """An `iree_linalg_ext.topk` of the largest integers."""
    dimension = int(root.attributes["dimension"].value)
    source, values = root.operands[0], root.results[0]
    if len(root.operands) != 3:
        return NoMatch(Reason.STRUCTURE, "a selection with indices of its own")
    comparison = larger(root)
    if isinstance(comparison, NoMatch):
        return comparison
    bits = ops.element_bits(source)
    if ops.constant(root.operands[1]) != -(2 ** (bits - 1)):
        return NoMatch(Reason.STRUCTURE, "a selection that begins with other elements")
    blocked = slices.check([root], len(root.operands) + 2, any_result=True)
    if blocked is not None:
        return blocked
    count, axes = ops.shape(values)[dimension] or 0, tuple(range(len(ops.shape(source))))
    payloads = dict(zip(root.results, (source, None), strict=True))
    kept = slices.results_of([root])
    results = tuple(SortResult(value, payloads[value], axes) for value in kept)
    return Sort((root,), source, dimension, count, comparison, results)
