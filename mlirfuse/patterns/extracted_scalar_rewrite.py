"""Let an op read a computed scalar itself, instead of the host for it.

    %s = tensor.extract %t[]                            f32, of a tensor<f32>
    %y = linalg.generic {divf(%x, %s)} ins(%x)          tensor<MxNxf32>
  becomes
    %y = linalg.generic {divf(%x, %s)} ins(%x, %t)

An op that only captures the scalar makes it an argument of its dispatch: the host waits for the
one that computes it, copies it, and starts the next. ONNX's dynamic quantization has two such
scalars for each linear layer. Root: a `linalg.generic` whose body uses elements of tensors of
rank 0 from outside, constant ones excepted. Sizes static or dynamic, any element type.
Numerics: exact.
Source: mlirfuse; IREE 3.13 lowers `torch.aten.item` and quantization by scalars so.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, PassContext
from mlirfuse.structured.ir import ops


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds scalars that the body captures."""
    inside = [view.operation for view in ops.body(root).operations]
    found: dict[ir.Value, ir.Value] = {}
    for op in inside:
        for value in op.operands:
            source = ops.defining_op(value)
            if source is None or source in inside or source.name != "tensor.extract":
                continue
            tensor = source.operands[0]
            if not ops.shape(tensor) and ops.constant(tensor) is None:
                found[value] = tensor
    if not found or ops.in_region(root) or None in ops.indexing_maps(root):
        return None
    unused = [
        source
        for source in dict.fromkeys(value.owner.operation for value in found)
        if all(user.parent.operation == root for user in ops.users(source.results[0]))
    ]
    return Match(root, (*unused, root), found)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the op with the tensors as operands."""
    op, captured = match.root, match.data
    inputs, maps = ops.inputs(op), ops.plain_maps(op)
    own = len(inputs)

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        added = arguments[own : own + len(captured)]
        build = builders.body_of(op, dict(zip(captured, added, strict=True)))
        return build([*arguments[:own], *arguments[own + len(captured) :]])

    with ir.InsertionPoint(op), op.location:
        new = builders.generic(
            [*inputs, *captured.values()],
            ops.inits(op),
            [*maps[:own], *([()] * len(captured)), *maps[own:]],
            ops.iterator_types(op),
            body,
        )
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    for old in reversed(match.ops):
        old.erase()
    return new


PASS = FusionPass(
    name="extracted_scalar_rewrite",
    summary="Ops read computed scalars themselves, instead of the host for them",
    roots=("linalg.generic",),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="mlirfuse",
)
