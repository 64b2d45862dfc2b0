"""Structured ops, tensors of given sizes and scalars, at the current insertion point."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.structured.expr.loop_domains import product
from mlirfuse.structured.ir import analysis_cache, ops


def dynamic_sizes(value: ir.Value) -> list[ir.Value]:
    """The dynamic sizes of a structured op's result, as values defined before the op.

    They are operands of the init's `tensor.empty` where there is one, else results of a
    `tensor.dim` of the init at the current insertion point.
    """
    tensor = ops.ranked(value)
    if tensor is None or tensor.has_static_shape:
        return []
    op = ops.defining_op(value)
    if op is not None and op.name == "tensor.empty":
        return list(op.operands)
    if op is not None and op.name == "tensor.expand_shape":
        return list(op.operands)[1:]
    if op is not None and op.name == "tensor.collapse_shape":
        return _merged_sizes(op)
    if op is not None and op.name.startswith(("linalg.", "iree_linalg_ext.")):
        position = next(i for i, r in enumerate(op.results) if r == value)
        count = len(op.results)
        return dynamic_sizes(list(op.operands)[-count:][position])
    return [_dim(value, d) for d in range(tensor.rank) if tensor.is_dynamic_dim(d)]


def _merged_sizes(collapse_shape: ir.Operation) -> list[ir.Value]:
    """Products of the sizes that the reshape merges, for its dynamic dimensions."""
    source = collapse_shape.operands[0]
    sizes = ops.shape(source)
    unknown = iter(dynamic_sizes(source))
    values = {d: next(unknown) for d, size in enumerate(sizes) if size is None}
    merged: list[ir.Value] = []
    for group in ops.reassociation(collapse_shape):
        dynamic = [values[d] for d in group if d in values]
        if not dynamic:
            continue
        known = product([sizes[d] for d in group if d not in values])
        size = dynamic[0]
        for factor in dynamic[1:] if known == 1 else [*dynamic[1:], _index(known)]:
            size = ir.Operation.create(
                "arith.muli", results=[size.type], operands=[size, factor]
            ).results[0]
        merged.append(size)
    return merged


def dimension(value: ir.Value, axis: int) -> ir.Value:
    """The size of a dynamic axis, as `dynamic_sizes` gives it."""
    return dynamic_sizes(value)[sum(size is None for size in ops.shape(value)[:axis])]


def _dim(value: ir.Value, dimension: int) -> ir.Value:
    return ir.Operation.create(
        "tensor.dim", results=[ir.IndexType.get()], operands=[value, _index(dimension)]
    ).results[0]


def _index(number: int | None) -> ir.Value:
    index = ir.IndexType.get()
    return ir.Operation.create(
        "arith.constant",
        results=[index],
        attributes={"value": ir.IntegerAttr.get(index, number)},
    ).results[0]


Body = Callable[[list[ir.Value]], list[ir.Value]]
"""Builds a scalar body at the current insertion point: block arguments to yielded values."""


def generic(
    inputs: Sequence[ir.Value],
    inits: Sequence[ir.Value],
    maps: Sequence[ops.IndexMap],
    iterators: Sequence[str],
    body: Body,
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> ir.Operation:
    """Builds a `linalg.generic` at the current insertion point and location.

    Args:
      inputs: the `ins` operands.
      inits: the `outs` operands; their types are the result types.
      maps: one index map per operand, inputs first.
      iterators: `parallel` or `reduction` per loop.
      body: builds the scalar computation.
      attributes: further attributes, e.g. a lowering config.
    """
    operands = [*inputs, *inits]
    op = ir.Operation.create(
        "linalg.generic",
        results=[value.type for value in inits],
        operands=operands,
        attributes={
            "indexing_maps": ir.ArrayAttr.get([map_attribute(m, len(iterators)) for m in maps]),
            "iterator_types": ir.ArrayAttr.get(
                [
                    analysis_cache.parse(ir.Attribute, f"#linalg.iterator_type<{kind}>")
                    for kind in iterators
                ]
            ),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), len(inits)]),
            **(attributes or {}),
        },
        regions=1,
    )
    types = [analysis_cache.parse(ir.Type, ops.element_type(value)) for value in operands]
    block = op.regions[0].blocks.append(*types, arg_locs=[ir.Location.current] * len(types))
    with ir.InsertionPoint(block):
        yielded = body(list(block.arguments))
        ir.Operation.create("linalg.yield", operands=yielded)
    return op


def map_attribute(index_map: ops.IndexMap, loops: int) -> ir.AffineMapAttr:
    """The affine map of an index map over that many loops."""
    exprs = [
        ir.AffineConstantExpr.get(0) if d is None else ir.AffineDimExpr.get(d) for d in index_map
    ]
    return ir.AffineMapAttr.get(ir.AffineMap.get(loops, 0, exprs))


def body_of(op: ir.Operation, captured: Mapping[ir.Value, ir.Value] | None = None) -> Body:
    """The scalar body of a structured op, to be built again in another op.

    Args:
      op: the op.
      captured: for values from outside that the body uses, or indices of loops that it reads,
        those to use in their place.
    """

    def build(arguments: list[ir.Value]) -> list[ir.Value]:
        block = ops.body(op)
        copies = {**(captured or {}), **dict(zip(block.arguments, arguments, strict=True))}
        *computed, terminator = [o.operation for o in block.operations]
        for old in computed:
            if any(result in copies for result in old.results):
                continue
            new = old.clone(ir.InsertionPoint.current).operation
            for i, value in enumerate(new.operands):
                if value in copies:
                    new.operands[i] = copies[value]
            copies.update(zip(old.results, new.results, strict=True))
        return [copies.get(value, value) for value in terminator.operands]

    return build


def split_loop_indices(
    op: ir.Operation, groups: Sequence[Sequence[int]], sizes: Sequence[int | None]
) -> None:
    """Lets a body that was written for other loops read the indices of those that replace them.

    Args:
      op: the op with the new loops.
      groups: for each loop of the body the loops that replace it, outermost first.
      sizes: sizes of the new loops; that of the first one of a group may be None.
    """
    for view in list(ops.body(op).operations):
        old = view.operation
        if old.name != "linalg.index":
            continue
        loops = groups[old.attributes["dim"].value]
        with ir.InsertionPoint(old), old.location:
            found, step = (None if loops else scalar_constant(0, "index")), 1
            for loop in reversed(loops):
                part = loop_index(loop)
                if step != 1:
                    part = scalar("arith.muli", [part, scalar_constant(step, "index")], "index")
                found = part if found is None else scalar("arith.addi", [part, found], "index")
                step *= sizes[loop] or 1
        assert found is not None
        old.results[0].replace_all_uses_with(found)
        old.erase()


def merge(group: Sequence[ir.Operation]) -> ir.Operation:
    """Makes one `linalg.generic` of independent ones over the same loops, after the last of them.

    Equal operands with the same map become one operand.

    Args:
      group: generics of one block in block order with the same iterators; they are erased.

    Returns:
      The op, with the results of the group in order.
    """
    last = group[-1]
    inputs: dict[tuple[ir.Value, ops.IndexMap], int] = {}
    for op in group:
        for value, index_map in zip(ops.inputs(op), ops.plain_maps(op), strict=False):
            inputs.setdefault((value, index_map), len(inputs))
    inits = [value for op in group for value in ops.inits(op)]
    out_maps = [m for op in group for m in ops.plain_maps(op)[ops.num_inputs(op) :]]

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        outs = iter(arguments[len(inputs) :])
        yielded: list[ir.Value] = []
        for op in group:
            read = zip(ops.inputs(op), ops.plain_maps(op), strict=False)
            own = [arguments[inputs[key]] for key in read]
            yielded += body_of(op)([*own, *(next(outs) for _ in op.results)])
        return yielded

    location = ir.Location.fused([op.location for op in group], context=last.context)
    with ir.InsertionPoint.after(last), location:
        maps = [*(index_map for _, index_map in inputs), *out_maps]
        values = [value for value, _ in inputs]
        merged = generic(values, inits, maps, ops.iterator_types(last), body)
    old = [result for op in group for result in op.results]
    for value, new in zip(old, merged.results, strict=True):
        value.replace_all_uses_with(new)
    for op in reversed(group):
        op.erase()
    return merged


def transpose(value: ir.Value, read: Sequence[int]) -> ir.Value:
    """A copy of a static tensor with its dimensions permuted.

    Args:
      value: the tensor.
      read: for each of its dimensions the dimension of the result.
    """
    rank, sizes = len(read), ops.shape(value)
    result = [sizes[read.index(d)] for d in range(rank)]
    return generic(
        [value],
        [empty(result, ops.element_type(value))],
        [tuple(read), tuple(range(rank))],
        ["parallel"] * rank,
        lambda arguments: arguments[:1],
    ).results[0]


def split_axis(rank: int, axis: int) -> list[list[int]]:
    """The reassociation that splits one axis of a tensor of that rank in two, or merges the two."""
    return [[d, d + 1] if d == axis else [d if d < axis else d + 1] for d in range(rank)]


def renumbered(groups: Sequence[Sequence[int]]) -> list[list[int]]:
    """A reassociation with groups of these sizes, whose dimensions are in order."""
    count = itertools.count()
    return [[next(count) for _ in group] for group in groups]


def groups_of_kept(kept: Sequence[int], rank: int) -> list[list[int]]:
    """A reassociation with one of these dimensions, which are in order, in each group."""
    if not kept:
        return []
    bounds = itertools.pairwise([0, *kept[1:], rank])
    return [list(range(begin, end)) for begin, end in bounds]


def collapse(value: ir.Value, groups: Sequence[Sequence[int]]) -> ir.Value:
    """`tensor.collapse_shape` of the value; it cancels with an expand that produces the value."""
    wanted = tuple(tuple(g) for g in groups)
    if len(wanted) == len(ops.shape(value)):
        return value
    op = ops.defining_op(value)
    if op is not None and op.name == "tensor.expand_shape":
        shorter = _collapse_expanded(op, wanted)
        if shorter is not None:
            return shorter
    sizes = ops.shape(value)
    merged = [product([sizes[d] for d in group]) for group in wanted]
    return ir.Operation.create(
        "tensor.collapse_shape",
        results=[tensor_type(merged, ops.element_type(value))],
        operands=[value],
        attributes={"reassociation": _reassociation_attribute(wanted)},
    ).results[0]


def _collapse_expanded(op: ir.Operation, wanted: tuple[tuple[int, ...], ...]) -> ir.Value | None:
    """The expand without the splits that `wanted` merges again; None when it cuts across them."""
    split = ops.reassociation(op)
    coarser = _merged_groups(split, wanted)
    if coarser is not None:
        return collapse(op.operands[0], coarser)
    kept = [g for g in split if g in wanted or all((d,) in wanted for d in g)]
    if kept != list(split) or sum(len(g) for g in wanted) != sum(len(g) for g in split):
        return None
    if any(len(g) > 1 and g not in split for g in wanted):
        return None
    source = op.operands[0]
    sizes = ops.shape(op.results[0])
    dynamic = iter(list(op.operands)[1:])
    values = {d: next(dynamic) for d, s in enumerate(sizes) if s is None}
    inner = ops.shape(source)
    groups: list[list[int]] = []
    new_sizes: list[int | None] = []
    new_dynamic: list[ir.Value] = []
    for position, group in enumerate(split):
        if len(group) > 1 and group in wanted:
            if inner[position] is None:
                return None
            groups.append([len(new_sizes)])
            new_sizes.append(inner[position])
            continue
        groups.append([len(new_sizes) + i for i in range(len(group))])
        new_sizes += [sizes[d] for d in group]
        new_dynamic += [values[d] for d in group if d in values]
    return expand(source, groups, new_sizes, new_dynamic)


def _merged_groups(
    split: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
) -> list[list[int]] | None:
    """The dimensions before a split that groups of those behind it merge; None where they cut one.

    A split [[0, 1], [2]] and a group [0, 1, 2] give [[0, 1]].
    """
    found: list[list[int]] = []
    rest = list(enumerate(split))
    for group in wanted:
        merged, count = [], 0
        while rest and count < len(group):
            dim, parts = rest.pop(0)
            merged.append(dim)
            count += len(parts)
        if not merged or count != len(group):
            return None
        found.append(merged)
    return found


def expand(
    value: ir.Value,
    groups: Sequence[Sequence[int]],
    sizes: Sequence[int | None],
    dynamic: Sequence[ir.Value] = (),
) -> ir.Value:
    """`tensor.expand_shape` of the value to `sizes`; `dynamic` holds the dynamic ones in order."""
    static = [ir.ShapedType.get_dynamic_size() if s is None else s for s in sizes]
    return ir.Operation.create(
        "tensor.expand_shape",
        results=[tensor_type(sizes, ops.element_type(value))],
        operands=[value, *dynamic],
        attributes={
            "reassociation": _reassociation_attribute(groups),
            "static_output_shape": ir.DenseI64ArrayAttr.get(static),
        },
    ).results[0]


def empty(sizes: Sequence[int | None], element: str, dynamic: Sequence[ir.Value] = ()) -> ir.Value:
    """`tensor.empty` of that shape and element type."""
    return ir.Operation.create(
        "tensor.empty", results=[tensor_type(sizes, element)], operands=list(dynamic)
    ).results[0]


def fill(scalar: ir.Value, init: ir.Value) -> ir.Value:
    """`linalg.fill` of the init with a scalar."""
    op = ir.Operation.create(
        "linalg.fill",
        results=[init.type],
        operands=[scalar, init],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])},
        regions=1,
    )
    element = analysis_cache.parse(ir.Type, ops.element_type(init))
    block = op.regions[0].blocks.append(scalar.type, element, arg_locs=[ir.Location.current] * 2)
    with ir.InsertionPoint(block):
        ir.Operation.create("linalg.yield", operands=[block.arguments[0]])
    return op.results[0]


def scalar_constant(number: float, element: str) -> ir.Value:
    """`arith.constant` of that number and element type."""
    attribute = scalar_attribute(number, element)
    return ir.Operation.create(
        "arith.constant", results=[attribute.type], attributes={"value": attribute}
    ).results[0]


def scalar_attribute(number: float, element: str) -> ir.FloatAttr | ir.IntegerAttr:
    """The attribute of that number and element type."""
    scalar = analysis_cache.parse(ir.Type, element)
    if element.startswith(("f", "bf")):
        return ir.FloatAttr.get(scalar, float(number))
    return ir.IntegerAttr.get(scalar, int(number))


def loop_index(loop: int) -> ir.Value:
    """`linalg.index` of a loop, in the body of a structured op."""
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), loop)
    return ir.Operation.create(
        "linalg.index", results=[ir.IndexType.get()], attributes={"dim": number}
    ).results[0]


def extract(tensor: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
    """The element of a tensor at computed indices, one for each dimension."""
    element = ir.RankedTensorType(tensor.type).element_type
    return ir.Operation.create("tensor.extract", [element], [tensor, *indices]).results[0]


def scalar(name: str, operands: list[ir.Value], kind: str, predicate: str = "") -> ir.Value:
    """A scalar op of one result; `predicate` is a comparison's as it prints."""
    attributes = {"predicate": analysis_cache.parse(ir.Attribute, predicate)} if predicate else {}
    return ir.Operation.create(
        name,
        results=[analysis_cache.parse(ir.Type, kind)],
        operands=operands,
        attributes=attributes,
    ).results[0]


def tensor_type(sizes: Sequence[int | None], element: str) -> ir.RankedTensorType:
    """The ranked tensor type; None stands for a dynamic size."""
    return ir.RankedTensorType.get(
        [ir.ShapedType.get_dynamic_size() if s is None else s for s in sizes],
        analysis_cache.parse(ir.Type, element),
    )


def _reassociation_attribute(groups: Sequence[Sequence[int]]) -> ir.ArrayAttr:
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get(
        [ir.ArrayAttr.get([ir.IntegerAttr.get(i64, d) for d in group]) for group in groups]
    )


def replace_collapsed(old: ir.Value, wide: ir.Value, groups: Sequence[Sequence[int]]) -> None:
    """Replaces `old` by a collapse of `wide`; inverse expands of `old` become `wide` itself."""
    wanted = tuple(tuple(g) for g in groups)
    if all(len(g) == 1 for g in wanted):
        old.replace_all_uses_with(wide)
        return
    for user in ops.users(old):
        inverse = user.name == "tensor.expand_shape" and user.results[0].type == wide.type
        if inverse and ops.reassociation(user) == wanted:
            user.results[0].replace_all_uses_with(wide)
    old.replace_all_uses_with(collapse(wide, wanted))


def replace_expanded(old: ir.Value, merged: ir.Value, groups: Sequence[Sequence[int]]) -> None:
    """Replaces `old` by an expand of `merged`; collapses of `old` become those of `merged`."""
    wanted = tuple(tuple(g) for g in groups)
    if all(len(g) == 1 for g in wanted):
        old.replace_all_uses_with(merged)
        return
    for user in ops.users(old):
        if user.name != "tensor.collapse_shape":
            continue
        coarser = _merged_groups(wanted, ops.reassociation(user))
        if coarser is not None:
            with ir.InsertionPoint(user), user.location:
                user.results[0].replace_all_uses_with(collapse(merged, coarser))
    old.replace_all_uses_with(expand(merged, wanted, ops.shape(old), dynamic_sizes(old)))
