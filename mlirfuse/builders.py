"""Typed construction of what a rewrite leaves behind."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured import ops, slices


def form_region(group: list[ir.Operation]) -> ir.Operation:
    """Puts the ops into one new `flow.dispatch.region` and removes the originals.

    What ops outside the group read becomes a result of the region. Empty tensors and constant
    fills are copied in. Producers that stand after the group's first reader move before it.

    Args:
      group: ops of one block in block order that `slices.check` accepts.

    Returns:
      The region. Its location is the fusion of the ops' locations.
    """
    results = slices.results_of(group)
    place = slices.first_reader(group)
    for op in slices.late_producers(group):
        op.move_before(place)
    location = ir.Location.fused([op.location for op in group], context=place.context)
    with ir.InsertionPoint(place), location:
        sizes = [size for value in results for size in dynamic_sizes(value)]
        region = ir.Operation.create(
            ops.REGION,
            results=[value.type for value in results],
            operands=sizes,
            attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(sizes), 0])},
            regions=2,
        )
    copies = _clone_into(region.regions[0].blocks.append(), group, location)
    with ir.InsertionPoint(region.regions[0].blocks[0]), location:
        ir.Operation.create(ops.RETURN, operands=[copies[value] for value in results])
    members = set(group)
    for value, new in zip(results, region.results, strict=True):
        inside = [u for u in ops.users(value) if _outer(u, group[0].block) in members]
        value.replace_all_uses_except(new, inside) if inside else value.replace_all_uses_with(new)
    for op in reversed(group):
        op.erase()
    return region


def _outer(op: ir.Operation, block: ir.Block) -> ir.Operation | None:
    return ops.ancestor_in(block, op)


def _clone_into(
    block: ir.Block, group: list[ir.Operation], location: ir.Location
) -> dict[ir.Value, ir.Value]:
    copies: dict[ir.Value, ir.Value] = {}
    members = set(group)

    def copy(op: ir.Operation) -> None:
        for value in op.operands:
            owner = ops.defining_op(value)
            if owner is not None and value not in copies and slices.is_cheap(owner):
                if owner not in members:
                    copy(owner)
        new = op.clone(ir.InsertionPoint(block)).operation
        for user in (new, *ops.nested_ops(new)):
            for number, value in enumerate(user.operands):
                if value in copies:
                    user.operands[number] = copies[value]
        copies.update(zip(op.results, new.results, strict=True))

    for op in group:
        copy(op)
    return copies


def dynamic_sizes(value: ir.Value) -> list[ir.Value]:
    """The dynamic sizes of a structured op's result, as values defined before the op.

    They are read from the init's `tensor.empty` where there is one, else asked of the init with
    `tensor.dim` at the current insertion point.
    """
    tensor = ops.ranked(value)
    if tensor is None or tensor.has_static_shape:
        return []
    op = ops.defining_op(value)
    if op is not None and op.name == "tensor.empty":
        return list(op.operands)
    if op is not None and op.name == "tensor.expand_shape":
        return list(op.operands)[1:]
    if op is not None and op.name.startswith(("linalg.", "iree_linalg_ext.")):
        number = next(i for i, r in enumerate(op.results) if r == value)
        count = len(op.results)
        return dynamic_sizes(list(op.operands)[-count:][number])
    return [_dim(value, d) for d in range(tensor.rank) if tensor.is_dynamic_dim(d)]


def _dim(value: ir.Value, dimension: int) -> ir.Value:
    index = ir.IndexType.get()
    number = ir.Operation.create(
        "arith.constant",
        results=[index],
        attributes={"value": ir.IntegerAttr.get(index, dimension)},
    )
    return ir.Operation.create(
        "tensor.dim", results=[index], operands=[value, number.results[0]]
    ).results[0]
