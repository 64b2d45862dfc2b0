"""Groups that write their result into a part of a larger tensor."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.destination import Writer


def write_into(writer: Writer, insert: ir.Operation, whole: ir.Value) -> ir.Operation:
    """Lets a group end in the `tensor.insert_slice` of its result.

    IREE lowers it to a store into the large tensor's memory, in the same dispatch.

    Args:
      writer: the producers of the part; erased.
      insert: a `tensor.insert_slice` of the part; erased.
      whole: the destination; not a `tensor.empty`, which has no memory.

    Returns:
      The group; it keeps the marks of the pass that formed it.
    """
    group = writer.ops[0] if writer.is_region else builders.form_region(list(writer.ops))
    marks = {n: group.attributes[n] for n in group.attributes if n.startswith("mlirfuse.")}
    where = ir.Location.fused([group.location, insert.location], context=group.context)
    with ir.InsertionPoint(insert), where:
        sizes = dynamic_sizes(whole)
        new = ir.Operation.create(
            ops.REGION,
            results=[whole.type],
            operands=sizes,
            attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(sizes), 0]), **marks},
            regions=2,
        )
    block = group.regions[0].blocks[0]
    block.append_to(new.regions[0])
    end = block.operations[len(block.operations) - 1].operation
    inside = insert.clone(ir.InsertionPoint(end)).operation
    inside.operands[0] = end.operands[0]
    inside.operands[1] = whole
    end.operands[0] = inside.results[0]
    insert.results[0].replace_all_uses_with(new.results[0])
    insert.erase()
    group.erase()
    return new


def empty_memory(empty: ir.Operation) -> ir.Value:
    """Memory of the shape of a `tensor.empty`; several groups can write parts of it."""
    return ir.Operation.create(
        "flow.tensor.empty", results=[empty.results[0].type], operands=list(empty.operands)
    ).results[0]


def filled_memory(scalar: ir.Value, kind: ir.Type, sizes: Sequence[ir.Value]) -> ir.Value:
    """Memory filled with one scalar, by a command and not a dispatch.

    Args:
      scalar: the scalar.
      kind: type of the tensor.
      sizes: dynamic sizes of the tensor.
    """
    return ir.Operation.create(
        "flow.tensor.splat", results=[kind], operands=[scalar, *sizes]
    ).results[0]


def zeroed_memory(kind: ir.Type, sizes: Sequence[ir.Value] = ()) -> ir.Value:
    """Memory of a tensor type with these dynamic sizes, filled with zeros."""
    zero = builders.scalar_constant(0, str(ir.RankedTensorType(kind).element_type))
    return filled_memory(zero, kind, list(sizes))


def insert(
    part: ir.Value,
    whole: ir.Value,
    offsets: Sequence[int],
    strides: Sequence[int] = (),
    *,
    box: Sequence[int | None] = (),
) -> ir.Operation:
    """`tensor.insert_slice` of the part at static offsets.

    Args:
      part: the part.
      whole: the tensor that it is inserted into.
      offsets: offset along each dimension.
      strides: stride along each dimension; empty for 1 along all.
      box: sizes, of which the part may lack some of one element; empty for those of the part.
    """
    unknown = ir.ShapedType.get_dynamic_size()
    sizes = dynamic_sizes(part)
    static = [unknown if size is None else size for size in box or ops.shape(part)]
    return ir.Operation.create(
        "tensor.insert_slice",
        results=[whole.type],
        operands=[part, whole, *sizes],
        attributes={
            "static_offsets": ir.DenseI64ArrayAttr.get(list(offsets)),
            "static_sizes": ir.DenseI64ArrayAttr.get(static),
            "static_strides": ir.DenseI64ArrayAttr.get(list(strides) or [1] * len(static)),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, 0, len(sizes), 0]),
        },
    )


def inserted_at(insertion: ir.Operation, whole: ir.Value, offsets: Sequence[int]) -> ir.Value:
    """The part of a `tensor.insert_slice` in another tensor, at other static offsets."""
    attributes = {
        **dict(insertion.attributes.items()),
        "static_offsets": ir.DenseI64ArrayAttr.get(list(offsets)),
    }
    with insertion.location:
        return ir.Operation.create(
            insertion.name,
            results=[whole.type],
            operands=[insertion.operands[0], whole],
            attributes=attributes,
        ).results[0]


def dynamic_sizes(value: ir.Value) -> list[ir.Value]:
    """The dynamic sizes of a value; those of a group and of flow's tensors are its operands."""
    op = ops.defining_op(value)
    if op is None or not op.name.startswith("flow."):
        return builders.dynamic_sizes(value)
    count = sum(size is None for size in ops.shape(value))
    given = list(op.operands)
    return given[len(given) - count :] if len(op.results) == 1 else builders.dynamic_sizes(value)
