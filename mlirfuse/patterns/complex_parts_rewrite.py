"""Read and write complex numbers in memory as pairs of floats.

    %c = iree_tensor_ext.bitcast %x                    tensor<Nx2xf32> -> tensor<Nxcomplex<f32>>
    %r = linalg.generic {complex.re} ins(%c)           tensor<Nxf32>
    %z = linalg.generic {complex.create} ins(%r, %i)   tensor<Nxcomplex<f32>>
    %y = iree_tensor_ext.bitcast %z                    tensor<Nx2xf32>
  becomes
    %r = tensor.extract_slice %x[0, 0] [N, 1] [1, 1]   tensor<Nxf32>
    %e = tensor.insert_slice (tensor.expand_shape %r) into %empty[0, 0]
    %y = tensor.insert_slice (tensor.expand_shape %i) into %e[0, 1]

Root: an elementwise op that takes the real or the imaginary part of each number, of a bitcast or of
any other tensor; or the bitcast of numbers that are created of two parts. Importers compute with
parts: a rotary embedding by complex numbers, `view_as_real(view_as_complex(x) * freqs)`, has no
complex number left and is one kernel. Kernels have no complex elements, so this is for CPUs and
GPUs with kernels. Static sizes, complex numbers of f32. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import destination_builder, slice_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.fusable_neighbors import has_one_order

_BITCAST, _COMPLEX = "iree_tensor_ext.bitcast", "complex<f32>"
_PARTS = {"complex.re": 0, "complex.im": 1}


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a part that is taken, or the bitcast of two."""
    has_kernels = triton_compiler.supports(ctx.target) or ctx.target.vector_kernels
    if ops.in_region(root) or not has_kernels:
        return None
    if None in ops.shape(root.results[0]):
        return NoMatch(Reason.DYNAMIC_SHAPE, "complex numbers of unknown count")
    source = ops.defining_op(root.operands[0])
    alone = source is not None and ops.users(source.results[0]) == [root]
    if root.name == _BITCAST:
        whole = (*ops.shape(root.operands[0]), 2)
        created, reshape = _reshaped_from(root.operands[0])
        if created is None or not _creates(created) or ops.shape(root.results[0]) != whole:
            return None
        between = [] if reshape is None else [reshape]
        once = all(len(ops.users(op.results[0])) == 1 for op in (created, *between))
        return Match(root, (created, *between, root) if once else (root,), None)
    part = _part(root)
    if part is None:
        return None
    created = source is not None and _creates(source)
    if source is not None and created and ops.defining_op(source.operands[part]) is None:
        return None  # an argument, which no op of the function takes the place of
    replaced = source is not None and alone and (created or source.name == _BITCAST)
    return Match(root, (source, root) if source is not None and replaced else (root,), part)


def _reshaped_from(value: ir.Value) -> tuple[ir.Operation | None, ir.Operation | None]:
    """The op that made numbers, and the reshape of them that a value is, if it is one."""
    op = ops.defining_op(value)
    if op is None or op.name not in ops.RESHAPES:
        return op, None
    return ops.defining_op(op.operands[0]), op


def _of_pairs(value: ir.Value, reshape: ir.Operation | None) -> ir.Value:
    """Pairs in the shape that a reshape gives to their numbers."""
    if reshape is None:
        return value
    rank = max(len(ops.shape(v)) for v in (reshape.operands[0], reshape.results[0]))
    groups = [*map(list, ops.reassociation(reshape)), [rank]]
    if reshape.name == "tensor.collapse_shape":
        return builders.collapse(value, groups)
    return builders.expand(value, groups, [*ops.shape(reshape.results[0]), 2])


def _part(op: ir.Operation) -> int | None:
    """Which part of each number an op takes, in order; None for any other op."""
    if not _is_plain(op, 1) or ops.element_type(op.operands[0]) != _COMPLEX:
        return None
    body = [view.operation for view in ops.body(op).operations]
    taken = len(body) == 2 and body[0].operands[0] == ops.body(op).arguments[0]
    return _PARTS.get(body[0].name) if taken and body[1].operands[0] == body[0].results[0] else None


def _creates(op: ir.Operation) -> bool:
    """Whether an op creates complex numbers of two tensors, in order."""
    if not _is_plain(op, 2) or ops.element_type(op.results[0]) != _COMPLEX:
        return False
    body = [view.operation for view in ops.body(op).operations]
    if len(body) != 2 or body[0].name != "complex.create":
        return False
    given = list(body[0].operands) == list(ops.body(op).arguments)[:2]
    return given and bool(body[1].operands[0] == body[0].results[0])


def _is_plain(op: ir.Operation, inputs: int) -> bool:
    """Whether an op is elementwise, of so many tensors, all in the order of its one result."""
    return has_one_order(op) and ops.num_inputs(op) == inputs


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the slice, or the insertions; an op whose numbers nothing reads goes with the root."""
    root, part = match.root, match.data
    with ir.InsertionPoint(root), root.location:
        new = _pairs(root) if part is None else _taken(root.operands[0], part)
    root.results[0].replace_all_uses_with(new)
    for op in reversed(match.ops):
        op.erase()
    found: ir.Operation = new.owner.operation
    return found


def _taken(numbers: ir.Value, part: int) -> ir.Value:
    """A part of each number: the tensor that was created of, or a slice of pairs."""
    op = ops.defining_op(numbers)
    if op is not None and _creates(op):
        created: ir.Value = op.operands[part]
        return created
    shape = [size or 0 for size in ops.shape(numbers)]
    made, reshape = _reshaped_from(numbers)
    if made is not None and made.name == _BITCAST and _is_of_pairs(made):
        pairs = _of_pairs(made.operands[0], reshape)
    else:
        kind = builders.tensor_type([*shape, 2], "f32")
        attributes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0])}
        pairs = ir.Operation.create(_BITCAST, [kind], [numbers], attributes=attributes).results[0]
    rank = len(shape)
    row = builders.collapse(pairs, [*([d] for d in range(rank - 1)), [rank - 1, rank]])
    offsets, strides = [*[0] * (rank - 1), part], [*[1] * (rank - 1), 2]
    return slice_builder.extract_slice(row, offsets, shape, strides).results[0]


def _is_of_pairs(bitcast: ir.Operation) -> bool:
    """Whether a bitcast makes each complex number of two floats."""
    return bool(ops.shape(bitcast.operands[0]) == (*ops.shape(bitcast.results[0]), 2))


def _pairs(bitcast: ir.Operation) -> ir.Value:
    """The parts of which numbers were created, one beside the other."""
    created, reshape = _reshaped_from(bitcast.operands[0])
    assert created is not None
    shape = [*(size or 0 for size in ops.shape(created.results[0])), 2]
    rank = len(shape) - 1
    found = builders.empty(shape, "f32")
    for part, value in enumerate(list(created.operands)[:2]):
        offsets, strides = [*[0] * rank, part], [1] * (rank + 1)
        box = [*shape[:-1], 1]
        found = destination_builder.insert(value, found, offsets, strides, box=box).results[0]
    return _of_pairs(found, reshape)


PASS = FusionPass(
    name="complex_parts_rewrite",
    summary="Complex numbers in memory are read and written as pairs of floats",
    roots=("linalg.generic", _BITCAST),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="mlirfuse",
)
