"""Dispatch regions of groups of ops, and the insertion points of new ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.builders.tensors import dynamic_sizes, generic
from mlirfuse.core import Match, MlirfuseError, PassContext
from mlirfuse.structured.ir import ops, slices


def form_region(group: list[ir.Operation]) -> ir.Operation:
    """Puts the ops into one new `flow.dispatch.region` and removes the originals.

    Values with users outside the group become results of the region, except for broadcasts and
    transposes, of which outside users get a copy: IREE's code generation refuses a dispatch with a
    result that is only moved data. Empty tensors and constant fills are copied in. Producers that
    stand after the group's first user move before it. Reshapes of what the group reads stay before
    it: they cost nothing there, and kernels have no ops for them.

    Args:
      group: ops of one block in block order that `slices.check` accepts.

    Returns:
      The region. Its location is the fusion of the ops' locations.
    """
    group = _without_leading_reshapes(group)
    for op in group:
        if ops.moved_input(op) is not None:
            _share_copy(op, group)
    results = slices.results_of(group)
    anchor = make_room(group)
    location = ir.Location.fused([op.location for op in group], context=anchor.context)
    with ir.InsertionPoint(anchor), location:
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
        # Erasing an op that still has users would leave dangling operands: an error, not a crash.
        users = [u.name for r in op.results for u in ops.users(r)]
        if users:
            raise MlirfuseError(f"{op.name} still has the user {users[0]} outside its group")
        op.erase()
    return region


def _without_leading_reshapes(group: list[ir.Operation]) -> list[ir.Operation]:
    """The group without reshapes of values from outside, which move before it."""
    left: list[ir.Operation] = []
    members = set(group)
    for op in group:
        if op.name in ops.RESHAPES and ops.defining_op(op.operands[0]) not in members:
            members.discard(op)
        else:
            left.append(op)
    return left or group


def fuse(match: Match, ctx: PassContext) -> ir.Operation:
    """The `rewrite` of a pass that only groups: puts the ops of the match into one region."""
    return form_region(list(match.ops))


def ungroup(region: ir.Operation) -> None:
    """Puts the ops of a region before it, in its block, and erases it."""
    replace_by_body(region, region.regions[0].blocks[0])


def replace_by_body(op: ir.Operation, body: ir.Block) -> None:
    """Puts the ops of one of an op's blocks before it, and erases it.

    Args:
      op: the op.
      body: the block, whose terminator has the op's results.
    """
    held = [view.operation for view in body.operations]
    for inner in held[:-1]:
        inner.move_before(op)
    for result, value in zip(op.results, list(held[-1].operands), strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def enclosing(op: ir.Operation | None) -> ir.Operation | None:
    """The dispatch region around an op; None without one."""
    while op is not None and op.name != ops.REGION:
        parent = op.parent
        op = parent.operation if parent is not None else None
    return op


def outside(op: ir.Operation, operands: Iterable[ir.Value]) -> ir.Operation:
    """The op before which these operands of an op can be copied in dispatches of their own.

    It is the op, or its region. A region that computes one of the operands, too, is undone.
    """
    region = enclosing(op)
    if region is None:
        return op
    if any(enclosing(ops.defining_op(value)) is not None for value in operands):
        ungroup(region)
        return op
    return region


def make_room(group: list[ir.Operation]) -> ir.Operation:
    """The op before which one op can replace the group.

    Producers that stand after the group's first user move before it.

    Args:
      group: ops of one block in block order that `slices.check` accepts.
    """
    anchor = slices.insertion_point(group)
    for op in slices.late_producers(group):
        op.move_before(anchor)
    return anchor


def _share_copy(op: ir.Operation, group: list[ir.Operation]) -> None:
    """Gives users outside the group a copy of the op, where the group uses it too."""
    members, block, value = set(group), group[0].block, op.results[0]
    inside = [u for u in ops.users(value) if _outer(u, block) in members]
    outside = [_outer(u, block) for u in ops.users(value) if u not in inside]
    if not inside or not outside:
        return
    anchor = block.operations[len(block.operations) - 1].operation
    for outer in outside:
        if outer is not None and outer.is_before_in_block(anchor):
            anchor = outer
    operand, maps = ops.moved_input(op), ops.indexing_maps(op)
    assert operand is not None
    if ops.num_inputs(op) == 1 or None in maps:
        copy = op.clone(ir.InsertionPoint(anchor)).operation
    else:  # without the unused inputs, which the group may compute
        with ir.InsertionPoint(anchor), op.location:
            copy = generic(
                [op.operands[operand]],
                ops.inits(op),
                [ops.plain_maps(op)[operand], ops.plain_maps(op)[-1]],
                ops.iterator_types(op),
                lambda arguments: arguments[:1],
            )
    value.replace_all_uses_except(copy.results[0], inside)


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
            if owner is None or owner in members or value in copies:
                continue
            if slices.is_clonable(owner):
                copy(owner)
        new = op.clone(ir.InsertionPoint(block)).operation
        _replace_operands(new, copies)
        copies.update(zip(op.results, new.results, strict=True))

    for op in group:
        copy(op)
    for op in group:
        if ops.is_generic(op) and ops.num_inputs(op) == 0:
            _copy_for_each_use(copies[op.results[0]])
    return copies


def _copy_for_each_use(value: ir.Value) -> None:
    """Copies the op that computes a value from indices, so that each use has one along its loops.

    IREE computes it where it is read; in a kernel a value has one axis for each dimension.
    """
    op = ops.defining_op(value)
    assert op is not None
    uses = [(use.owner, use.operand_number) for use in value.uses]
    for user, number in uses[1:]:
        user.operation.operands[number] = op.clone(ir.InsertionPoint(op)).results[0]


def _replace_operands(op: ir.Operation, new: Mapping[ir.Value, ir.Value]) -> None:
    """Replaces operands of the op, and of the ops inside it."""
    for user in (op, *ops.nested_ops(op)):
        for i, value in enumerate(user.operands):
            if value in new:
                user.operands[i] = new[value]


def own_copies(copied: list[ir.Operation], group: list[ir.Operation]) -> list[ir.Operation]:
    """Copies of producers that only the group uses, in place of the originals.

    Args:
      copied: elementwise ops in block order; they stay for their other users.
      group: users of them in the same block.

    Returns:
      The copies and the group, in block order. Each copy stands before its original.
    """
    copies: dict[ir.Value, ir.Value] = {}
    made = []
    for op in copied:
        new = op.clone(ir.InsertionPoint(op)).operation
        copies.update(zip(op.results, new.results, strict=True))
        made.append(new)
    for op in (*made, *group):
        _replace_operands(op, copies)
    return slices.in_order([*made, *group])


def at_load_time(
    sources: Sequence[ir.Value], build: Callable[[list[ir.Value]], ir.Value], name: str
) -> ir.Value:
    """A computation on constants that runs once, when the program is loaded.

    Args:
      sources: constant data: results of an op in `ops.CONSTANT_OPS`, or loads of immutable globals.
      build: builds the computation at the current insertion point.
      name: symbol of the global that stores the result; a suffix is added where it is taken.

    Returns:
      A load of the global, at the current insertion point.
    """
    function = module = ir.InsertionPoint.current.block.owner.operation
    while module.name != "builtin.module":
        function, module = module, module.parent.operation
    constants = [source.owner.operation for source in sources]
    with ir.InsertionPoint(function):
        kept = ir.Operation.create(
            "util.global",
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "sym_visibility": ir.StringAttr.get("private"),
                "type": ir.TypeAttr.get(sources[0].type),
            },
        )
        symbol = ir.FlatSymbolRefAttr.get(ir.SymbolTable(module).insert(kept).value)
        initializer = ir.Operation.create(
            "util.initializer",
            attributes={"function_type": ir.TypeAttr.get(ir.FunctionType.get([], []))},
            regions=1,
        )
    with ir.InsertionPoint(initializer.regions[0].blocks.append()):
        result = build([constant.clone().results[0] for constant in constants])
        ir.Operation.create("util.global.store", operands=[result], attributes={"global": symbol})
        ir.Operation.create("util.return")
    kept.attributes["type"] = ir.TypeAttr.get(result.type)
    return ir.Operation.create(
        "util.global.load",
        results=[result.type],
        attributes={"global": symbol, "is_immutable": ir.UnitAttr.get()},
    ).results[0]


def fence(value: ir.Value) -> None:
    """Puts a compute barrier between the value and its users: IREE fuses nothing across."""
    op = ops.defining_op(value)
    users = ops.users(value)
    if op is None or not users:
        return
    first = slices.in_order(o for u in users if (o := ops.ancestor_in(op.block, u)) is not None)[0]
    with ir.InsertionPoint(first), op.location:
        barrier = ir.Operation.create(
            "iree_tensor_ext.compute_barrier.start", results=[value.type], operands=[value]
        )
    value.replace_all_uses_except(barrier.results[0], [barrier])
