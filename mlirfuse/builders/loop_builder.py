"""Loops that the host counts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import slice_builder
from mlirfuse.builders.tensors import body_of, generic, scalar, scalar_constant
from mlirfuse.structured.ir import marks, ops
from mlirfuse.structured.recognize import gathers, scatters
from mlirfuse.structured.recognize.counted_loops import CountedLoop, HostLoop

_PURE = ("arith.", "linalg.", "tensor.")
"""Beginnings of the names of ops that may be erased when nothing reads them."""

_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


def host_counted(found: CountedLoop, *, slices: bool = False) -> ir.Operation:
    """Replaces a loop whose counter is in a tensor by an `scf.for`; returns it.

    Args:
      found: the loop.
      slices: whether copies of the part of a tensor at the counter become slices.
    """
    old, place = found.op, found.counter
    block, kind = found.block, old.operands[found.counter].type
    with ir.InsertionPoint(old), old.location:
        bounds = [
            _index(n)
            for n in (found.first, found.first + found.step * found.iterations, found.step)
        ]
        inits = [value for n, value in enumerate(old.operands) if n != place]
        new = ir.Operation.create(
            "scf.for",
            results=[value.type for value in inits],
            operands=[*bounds, *inits],
            regions=1,
        )
    arguments = [bounds[0].type, *(value.type for value in inits)]
    body = new.regions[0].blocks.append(*arguments, arg_locs=[old.location] * len(arguments))
    end = block.operations[len(block.operations) - 1].operation
    carried = [value for n, value in enumerate(end.operands) if n != 1 + place][1:]
    with ir.InsertionPoint(body), old.location:
        finish = ir.Operation.create("scf.yield", operands=carried)
    for view in list(block.operations)[:-1]:
        view.operation.move_before(finish)
    others = [value for n, value in enumerate(block.arguments) if n != place]
    for value, argument in zip(others, list(body.arguments)[1:], strict=True):
        value.replace_all_uses_with(argument)
    end.erase()
    element = ir.RankedTensorType(kind).element_type
    with ir.InsertionPoint.at_block_begin(body), old.location:
        count = ir.Operation.create(
            "arith.index_cast", results=[element], operands=[body.arguments[0]]
        ).results[0]
    _replace_counter(block.arguments[place], count, body.arguments[0], found)
    if slices:
        for view in list(body.operations):
            _slice_at(view.operation, count, body.arguments[0])
    _erase_unused(body)
    with ir.InsertionPoint(old), old.location:
        if any(True for _ in old.results[place].uses):
            data = ir.DenseElementsAttr.get_splat(
                kind, ir.IntegerAttr.get(element, found.last + found.step)
            )
            final = ir.Operation.create(
                "arith.constant", results=[kind], attributes={"value": data}
            ).results[0]
            old.results[place].replace_all_uses_with(final)
    kept = [value for n, value in enumerate(old.results) if n != place]
    for value, result in zip(kept, new.results, strict=True):
        value.replace_all_uses_with(result)
    old.erase()
    return new


def _index(number: int) -> ir.Value:
    return scalar_constant(number, "index")


def _replace_counter(value: ir.Value, count: ir.Value, index: ir.Value, found: CountedLoop) -> None:
    """Replaces the tensor of a counter by a number, where ops can take one."""
    for user in dict.fromkeys(ops.users(value)):
        if ops.is_generic(user):
            _capture(user, value, count)
        elif user.name == "tensor.expand_shape":
            for other in dict.fromkeys(ops.users(user.results[0])):
                if _writes_one(other, user.results[0], found.last):
                    _insert(other, index)
    if ops.users(value):
        with ir.InsertionPoint.after(count.owner.operation), count.owner.operation.location:
            held = ir.Operation.create(
                "tensor.from_elements", results=[value.type], operands=[count]
            )
        value.replace_all_uses_with(held.results[0])


def _capture(op: ir.Operation, value: ir.Value, count: ir.Value) -> None:
    """Replaces a generic that reads a tensor of one number by one that reads the number."""
    inputs, maps = ops.inputs(op), ops.indexing_maps(op)
    kept = [n for n, held in enumerate(inputs) if held != value]

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        own = iter(arguments)
        return body_of(op)(
            [count if n < len(inputs) and n not in kept else next(own) for n in range(len(maps))]
        )

    with ir.InsertionPoint(op), op.location:
        new = generic(
            [inputs[n] for n in kept],
            ops.inits(op),
            [maps[n] for n in (*kept, *range(len(inputs), len(maps)))],
            ops.iterator_types(op),
            body,
        )
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.erase()


def _writes_one(op: ir.Operation, indices: ir.Value, last: int) -> bool:
    """Whether a scatter writes one row of static sizes, whose index these are; all rows exist."""
    if op.name != scatters.SCATTER:
        return False
    found = scatters.scatter(op)
    block = op.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1].operation
    return (
        found.indices == indices
        and list(ops.shape(indices)) == [1]
        and found.mask is None
        and found.dimensions == (0,)
        and list(end.operands) == [block.arguments[0]]
        and None not in ops.shape(found.updates)
        and last < (ops.shape(found.destination)[0] or 0)
    )


def _insert(op: ir.Operation, index: ir.Value) -> None:
    """Replaces a scatter of one row by a `tensor.insert_slice`."""
    found = scatters.scatter(op)
    sizes = [size or 0 for size in ops.shape(found.updates)]
    rest = [0] * (len(sizes) - 1)
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(
            "tensor.insert_slice",
            results=[op.results[0].type],
            operands=[found.updates, found.destination, index],
            attributes={
                "static_offsets": ir.DenseI64ArrayAttr.get([_DYNAMIC, *rest]),
                "static_sizes": ir.DenseI64ArrayAttr.get(sizes),
                "static_strides": ir.DenseI64ArrayAttr.get([1] * len(sizes)),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, 1, 0, 0]),
            },
        )
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()


def _slice_at(op: ir.Operation, count: ir.Value, index: ir.Value) -> None:
    """Replaces a copy of the part of a static tensor at the counter by a slice of it."""
    found = gathers.part_at(op, count) if ops.is_generic(op) else None
    if found is None or None in (*ops.shape(op.results[0]), *ops.shape(found.source)):
        return
    shape = [size or 0 for size in ops.shape(op.results[0])]
    sizes = [size or 0 for size in ops.shape(found.source)]
    kept = [size for dim, size in enumerate(sizes) if dim != found.dimension]
    offsets = [index if dim == found.dimension else 0 for dim in range(len(sizes))]
    sizes[found.dimension] = 1
    with ir.InsertionPoint(op), op.location:
        part = slice_builder.extract_slice(found.source, offsets, sizes, shape=kept).results[0]
        if len(kept) < len(shape):
            # A dimension of one element that the copy adds belongs to the next one that it keeps.
            ends = [-1, *found.loops[:-1], len(shape) - 1]
            groups = [list(range(first + 1, last + 1)) for first, last in itertools.pairwise(ends)]
            part = builders.expand(part, groups, shape)
    op.results[0].replace_all_uses_with(part)
    op.erase()


def _erase_unused(block: ir.Block) -> None:
    """Erases the ops that nothing reads any more."""
    for view in reversed(list(block.operations)):
        op = view.operation
        if op.name.startswith(_PURE) and not any(ops.users(value) for value in op.results):
            op.erase()


def unrolled(found: HostLoop, factor: int) -> ir.Operation:
    """Lets each iteration of a loop do the work of several; the rest follow as one iteration.

    Args:
      found: the loop.
      factor: how many.

    Returns:
      The loop, or that of the rest.
    """
    op = found.op
    rest = found.iterations % factor
    if not rest:
        _unroll(op, found.step, factor)
        return op
    with ir.InsertionPoint.after(op), op.location:
        middle = scalar_constant(
            found.first + found.step * (found.iterations - rest), str(op.operands[0].type)
        )
    after = op.clone(ir.InsertionPoint.after(middle.owner.operation)).operation
    for old, new in zip(op.results, after.results, strict=True):
        old.replace_all_uses_with(new)
    after.operands[0] = middle
    for position, value in enumerate(op.results):
        after.operands[3 + position] = value
    with ir.InsertionPoint(op), op.location:
        op.operands[1] = scalar_constant(
            found.first + found.step * (found.iterations - rest), str(op.operands[0].type)
        )
    _unroll(op, found.step, factor)
    _unroll(after, found.step, rest)
    return after


def _unroll(op: ir.Operation, step: int, factor: int) -> None:
    """Lets each iteration do the work of several, whose number divides theirs."""
    block = op.regions[0].blocks[0]
    *work, end = (view.operation for view in block.operations)
    first, carried = block.arguments[0], list(block.arguments)[1:]
    kind = str(first.type)
    yielded = list(end.operands)
    for number in range(1, factor):
        with ir.InsertionPoint(end), op.location:
            distance = scalar_constant(number * step, kind)
            place = scalar("arith.addi", [first, distance], kind)
        copies = {first: place, **dict(zip(carried, yielded, strict=True))}
        for old in work:
            new = old.clone(ir.InsertionPoint(end)).operation
            _rename(new, copies)
            copies.update(zip(old.results, new.results, strict=True))
        yielded = [copies.get(value, value) for value in end.operands]
    for position, value in enumerate(yielded):
        end.operands[position] = value
    with ir.InsertionPoint(op), op.location:
        op.operands[2] = scalar_constant(step * factor, kind)
    op.attributes[marks.UNROLLED_ATTRIBUTE] = ir.UnitAttr.get(op.context)


def _rename(op: ir.Operation, copies: Mapping[ir.Value, ir.Value]) -> None:
    """Replaces operands of an op and of those inside of it."""
    for position, value in enumerate(op.operands):
        if value in copies:
            op.operands[position] = copies[value]
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                _rename(view.operation, copies)
