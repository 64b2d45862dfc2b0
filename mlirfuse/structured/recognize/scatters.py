"""Scatters: windows of a tensor that are combined with updates at computed indices.

%y = iree_linalg_ext.scatter dimension_map = [0]
       ins(%u, %i : tensor<NxWxT>, tensor<NxI>) outs(%x : tensor<MxWxT>) { addf }
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured.ir import fusable_neighbors, ops, slices

SCATTER = "iree_linalg_ext.scatter"

_COMMUTATIVE = frozenset(
    f"arith.{name}"
    for name in (
        *("addf", "addi", "mulf", "muli", "andi", "ori", "xori"),
        *("maximumf", "minimumf", "maxnumf", "minnumf", "maxsi", "minsi", "maxui", "minui"),
    )
)
"""Combiners whose result does not depend on the order of the updates, up to rounding."""

_MOVEMENTS = ops.RESHAPES | {
    *("tensor.concat", "tensor.extract_slice", "tensor.insert_slice", "tensor.pad")
}
"""Ops that only move elements, other than elementwise ops."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scatter:
    """A scatter.

    Attributes:
      op: the op.
      updates: the updates, by batch dimensions and window dimensions.
      indices: the indices of the windows, by batch dimensions, of which the last may be that of
        the coordinates.
      mask: which windows are written, by batch dimensions; None for all.
      destination: the tensor before the updates, whose last dimensions are those of a window.
      dimensions: for each coordinate the dimension of the destination that it indexes; these are
        the first ones.
      unique: whether no two windows have the same indices.
    """

    op: ir.Operation
    updates: ir.Value
    indices: ir.Value
    mask: ir.Value | None
    destination: ir.Value
    dimensions: tuple[int, ...]
    unique: bool

    @property
    def batch(self) -> int:
        """The number of batch dimensions of the updates."""
        window = len(ops.shape(self.destination)) - len(self.dimensions)
        return len(ops.shape(self.updates)) - window

    @property
    def has_coordinates(self) -> bool:
        """Whether the indices have a dimension of the coordinates."""
        return len(ops.shape(self.indices)) > self.batch

    @property
    def combiner(self) -> str | None:
        """How an update changes an element.

        Returns:
          The name of a commutative op of the element and a function of the update; the empty
          string where a function of the update replaces the element; None for other bodies.
        """
        block = self.op.regions[0].blocks[0]
        element = block.arguments[1]
        dependent = {element}
        for op in (view.operation for view in block.operations):
            if dependent & set(op.operands):
                dependent |= set(op.results)
        (yielded,) = list(block.operations)[-1].operation.operands
        if yielded not in dependent:
            return ""
        last = ops.defining_op(yielded)
        if last is None or last.name not in _COMMUTATIVE:
            return None
        direct = [value == element for value in last.operands]
        others = [value for value in last.operands if value != element]
        if sum(direct) != 1 or dependent & set(others):
            return None
        return str(last.name)

    @property
    def update(self) -> ir.Value:
        """The function of the update that the combiner combines or stores, as a scalar."""
        block = self.op.regions[0].blocks[0]
        (yielded,) = list(block.operations)[-1].operation.operands
        if not self.combiner:
            return yielded
        operands = list(yielded.owner.operands)
        return operands[1] if operands[0] == block.arguments[1] else operands[0]


def scatter(op: ir.Operation) -> Scatter:
    """Reads an `iree_linalg_ext.scatter`."""
    *given, destination = op.operands
    return Scatter(
        op=op,
        updates=given[0],
        indices=given[1],
        mask=given[2] if len(given) > 2 else None,
        destination=destination,
        dimensions=tuple(int(dim) for dim in op.attributes["dimension_map"]),
        unique=bool(op.attributes["unique_indices"].value),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Feeding:
    """A scatter with ops that compute its updates and indices.

    Attributes:
      own: the ops that only the scatter uses, and the scatter, in block order.
      shared: ops of indices that others use too, in block order.
    """

    own: tuple[ir.Operation, ...]
    shared: tuple[ir.Operation, ...]

    @property
    def ops(self) -> list[ir.Operation]:
        """All of them, in block order."""
        return slices.in_order([*self.own, *self.shared])


def feeding(root: ir.Operation) -> list[Feeding]:
    """A scatter with ops that compute its updates and indices, the most first; at last it alone."""
    found = scatter(root)
    indices = [found.indices, *([] if found.mask is None else [found.mask])]
    of_indices = _closure(root, indices)
    everything = {**of_indices, **_closure(root, [found.updates])}
    choices = []
    for members in (everything, of_indices, {}):
        own = _exclusive(root, set(members))
        shared = [op for op in of_indices if op in members and op not in own]
        choice = Feeding(
            tuple(slices.in_order([*own, root])), tuple(slices.in_order(shared) if shared else ())
        )
        if choice not in choices:
            choices.append(choice)
    return choices


def _closure(root: ir.Operation, values: list[ir.Value]) -> dict[ir.Operation, None]:
    """The elementwise ops and moves in a scatter's block that compute values."""
    found: dict[ir.Operation, None] = {}
    work = list(values)
    destination = ops.defining_op(root.operands[len(root.operands) - 1])
    while work:
        op = ops.defining_op(work.pop())
        if op is None or op in found or (destination is not None and op == destination):
            continue
        if op.block != root.block or not _joins(op):
            continue
        found[op] = None
        work += [value for value, _ in ops.operand_producers(op)]
    return found


def _joins(op: ir.Operation) -> bool:
    """Whether a kernel may compute the op where its elements are needed."""
    if slices.is_clonable(op) or ops.in_region(op):
        return False
    if any(None in ops.shape(value) for value in op.results):
        return False
    if op.name in _MOVEMENTS:
        return True
    return ops.is_elementwise(op) and not fusable_neighbors.is_fused_by_iree(op)


def _exclusive(root: ir.Operation, members: set[ir.Operation]) -> set[ir.Operation]:
    """The members that only the scatter and each other use."""
    left = set(members)
    while True:
        others = {
            op
            for op in left
            if any(u not in left and u != root for r in op.results for u in _users(r, root))
        }
        if not others:
            return left
        left -= others


def _users(value: ir.Value, root: ir.Operation) -> list[ir.Operation | None]:
    """The ops of a scatter's block that use a value, themselves or in a body."""
    return [ops.ancestor_in(root.block, user) for user in ops.users(value)]
