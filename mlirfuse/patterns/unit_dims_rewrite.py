"""Concatenate, slice and scan tensors without dimensions of size one.

    %e = tensor.empty() : tensor<1xMx(A+B)xT>
    %i = tensor.insert_slice %a into %e[0, 0, 0]       tensor<MxAxT>
    %c = tensor.insert_slice %b into %i[0, 0, A]       tensor<MxBxT>
    %y = tensor.collapse_shape %c [[0, 1], [2]]        tensor<Mx(A+B)xT>
  becomes
    %e = tensor.empty() : tensor<Mx(A+B)xT>
    %i = tensor.insert_slice %a into %e[0, 0]
    %y = tensor.insert_slice %b into %i[0, A]

    %x = tensor.expand_shape %s [[0], [1, 2]]          tensor<MxTx1>
    %y = tensor.concat dim(0) %x, %b                   %s = linalg.generic {sin}
  becomes
    %c = tensor.collapse_shape %b [[0], [1, 2]]        tensor<NxT>
    %n = tensor.concat dim(0) %s, %c
    %y = tensor.expand_shape %n [[0], [1, 2]]

    %s = tensor.extract_slice %a[0, 0] [1, N] [1, 1]   tensor<NxT>
    %x = tensor.expand_shape %s [[0, 1]]               tensor<1xNxT>
    %y = tensor.concat dim(0) %x, %b
  becomes
    %x = tensor.extract_slice %a[0, 0] [1, N] [1, 1]   tensor<1xNxT>
    %y = tensor.concat dim(0) %x, %b

    %x = tensor.expand_shape %s [[0, 1], [2]]          tensor<1xMxTx1>
    %y, %a = iree_linalg_ext.scan dimension(2) ins(%x)
  becomes
    %n, %b = iree_linalg_ext.scan dimension(1) ins(%s)
    %y = tensor.expand_shape %n [[0, 1], [2]]

Root: the collapse, or a concatenation of what an elementwise op computes without dimensions of size
one, which no elementwise op reads. A model with a batch of one has such reshapes between the parts
of a rotary embedding, where they would end a group. Or a slice of a tensor that is expanded by
dimensions of size one, such as a part of what an elementwise op computes: it becomes a slice of the
tensor itself, which `slice_fusion` finds behind that op. Or such a slice without dimensions of size
one that a concatenation reads with them: its kernel reads the tensor itself. Or a scan of such a
tensor, or of which such a collapse alone reads the result. Each group of merged dimensions has one
of another size at most; all parts are inserted at static offsets, into an empty tensor, a constant
one, as the zeros between the elements of a transposed convolution's image, or one insertion after
the other, which nothing else reads. Static sizes, any element type.
Numerics: exact.
Source: MLIR, folding of unit extent dimensions.
"""

from __future__ import annotations

import itertools
import math

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import destination_builder, reshape_builder, slice_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels.scan.analysis import SCAN
from mlirfuse.structured.ir import ops, slices

Groups = tuple[tuple[int, ...], ...]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a collapse of dimensions of size one behind insertions, or another root."""
    if root.name == "tensor.extract_slice":
        return _slice(root)
    if root.name == "tensor.concat":
        return _concatenation(root)
    if root.name == SCAN:
        return _scan(root)
    if root.name == "tensor.expand_shape":
        return _expanded_slice(root)
    chain = _insertions(root)
    if not chain or ops.in_region(root):
        return None
    groups, sizes = ops.reassociation(root), ops.shape(root.operands[0])
    if None in sizes or not ops.merges_units(groups, sizes):
        return None
    for insertion in chain:
        part = ops.shape(insertion.operands[0])
        if ops.static_insert(insertion) is None or min(insertion.attributes["static_strides"]) < 1:
            return NoMatch(Reason.DYNAMIC_SHAPE, "an offset is not static")
        if None in part or len(part) not in (len(sizes), len(groups)):
            return NoMatch(Reason.SHAPE_MISMATCH, "a part lacks other dimensions")
    return Match(root, (*reversed(chain), root), (groups, tuple(reversed(chain))))


def _slice(root: ir.Operation) -> Match | None:
    """Finds a slice of a tensor to which an expansion adds dimensions of size one."""
    expand = ops.defining_op(root.operands[0])
    if expand is None or expand.name != "tensor.expand_shape" or ops.in_region(root):
        return None
    taken, shape = ops.slice_params(root), ops.shape(root.results[0])
    source, whole = ops.shape(expand.operands[0]), ops.shape(expand.results[0])
    if None in (*shape, *whole):
        return None
    wide = ops.wide_dims(ops.reassociation(expand), whole)
    if [whole[d] for d in wide] != list(source):
        return None
    kept = ops.kept_dimensions(taken.static_sizes, shape)
    places = [place for place, d in enumerate(kept) if d in wide]
    if not places:
        return None
    # Each dimension takes those of size one behind it, the first those before it, too.
    starts = [0, *places[1:], len(shape)]
    groups = tuple(tuple(range(*ends)) for ends in itertools.pairwise(starts))
    dropped = [user for user in ops.users(root.results[0]) if _collapses(user, groups)]
    boxes = [taken.boxes[d] for d in wide]
    return Match(root, (root, *dropped), (expand, boxes, places, groups))


def _expanded_slice(root: ir.Operation) -> Match | None:
    """Finds a slice that gets its dimensions of size one back for concatenations."""
    cut, users = ops.defining_op(root.operands[0]), ops.users(root.results[0])
    if cut is None or cut.name != "tensor.extract_slice" or ops.in_region(root):
        return None
    if not users or any(user.name != "tensor.concat" for user in users):
        return None
    sizes, shape = ops.slice_params(cut).static_sizes, ops.shape(root.results[0])
    if None in shape or sizes != list(shape) or ops.users(cut.results[0]) != [root]:
        return None
    return Match(root, (cut, root), cut)


def _rewrite_expanded_slice(root: ir.Operation, cut: ir.Operation) -> ir.Operation:
    """Builds the slice with these dimensions."""
    offsets, sizes, strides = zip(*ops.slice_params(cut).boxes, strict=True)
    shape = ops.shape(root.results[0])
    with ir.InsertionPoint(cut), cut.location:
        new = slice_builder.extract_slice(cut.operands[0], offsets, sizes, strides, shape=shape)
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    cut.erase()
    return new


def _rewrite_slice(
    root: ir.Operation,
    expand: ir.Operation,
    boxes: list[tuple[int | ir.Value, ...]],
    places: list[int],
    groups: Groups,
) -> ir.Operation:
    """Builds the slice of the tensor that is not expanded; it erases an expansion without users.

    Args:
      root: the slice.
      expand: the expansion that it reads.
      boxes: offset, size and stride along each dimension of the tensor.
      places: the dimensions of the result that are dimensions of the tensor.
      groups: those and the dimensions of size one between them.
    """
    result = root.results[0]
    shape = [size or 0 for size in ops.shape(result)]
    offsets, sizes, strides = zip(*boxes, strict=True)
    narrow = [shape[place] for place in places]
    with ir.InsertionPoint(root), root.location:
        new = slice_builder.extract_slice(expand.operands[0], offsets, sizes, strides, shape=narrow)
        for user in ops.users(result):
            if _collapses(user, groups):
                user.results[0].replace_all_uses_with(new.results[0])
                user.erase()
        whole = new.results[0]
        if ops.is_read(result) and len(narrow) < len(shape):
            whole = builders.expand(whole, groups, shape)
        result.replace_all_uses_with(whole)
    root.erase()
    _erase_unused(expand)
    return new


def _concatenation(root: ir.Operation) -> Match | None:
    """Finds a concatenation of tensors that have dimensions of size one, one of them added."""
    shapes = [ops.shape(value) for value in (*root.operands, root.results[0])]
    if ops.in_region(root) or any(None in shape for shape in shapes):
        return None
    if any(ops.is_elementwise(user) for user in ops.users(root.results[0])):
        return None
    axis = ir.IntegerAttr(root.attributes["dim"]).value
    for value in root.operands:
        expand = ops.defining_op(value)
        if expand is None or expand.name != "tensor.expand_shape" or ops.users(value) != [root]:
            continue
        source = ops.defining_op(expand.operands[0])
        if source is None or not ops.is_elementwise(source) or ops.in_region(source):
            continue
        groups = ops.reassociation(expand)
        # The parts are one behind the other along the group of the concatenated dimension, too.
        joined = next(group for group in groups if axis in group)
        others = [group for group in groups if group != joined]
        before = joined[: joined.index(axis)]
        if all(
            all(shape[d] == 1 for d in before) and ops.merges_units(others, shape)
            for shape in shapes
        ):
            return Match(root, (root,), (groups, groups.index(joined)))
    return None


def _rewrite_concatenation(root: ir.Operation, groups: Groups, axis: int) -> ir.Operation:
    """Builds the concatenation on fewer dimensions; it erases expansions without users."""
    result, shape = root.results[0], ops.shape(root.results[0])
    read = dict.fromkeys(ops.defining_op(value) for value in root.operands)
    with ir.InsertionPoint(root), root.location:
        parts = [builders.collapse(value, groups) for value in root.operands]
        merged = [math.prod(shape[d] or 0 for d in group) for group in groups]
        kind = builders.tensor_type(merged, ops.element_type(result))
        attributes = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)}
        new = ir.Operation.create("tensor.concat", [kind], parts, attributes=attributes)
        result.replace_all_uses_with(builders.expand(new.results[0], groups, shape))
    root.erase()
    for op in read:
        _erase_unused(op)
    return new


def _erase_unused(op: ir.Operation | None) -> None:
    """Erases an expansion without users."""
    if op is not None and op.name == "tensor.expand_shape" and reshape_builder.is_unused(op):
        op.erase()


def _scan(root: ir.Operation) -> Match | None:
    """Finds a scan between reshapes that add and drop dimensions of size one."""
    sizes = ops.shape(root.results[0])
    if None in sizes or ops.in_region(root) or ops.is_read(root.results[1]):
        return None
    if ops.constant(root.operands[2]) is None:
        return None
    users = slices.in_order(ops.users(root.results[0]))
    expand = ops.defining_op(root.operands[0])
    reshapes = [expand] if expand is not None and expand.name == "tensor.expand_shape" else []
    reshapes += [users[0]] if [op.name for op in users] == ["tensor.collapse_shape"] else []
    for reshape in reshapes:
        groups = ops.reassociation(reshape)
        if ops.merges_units(groups, sizes) and _scanned(root) in ops.wide_dims(groups, sizes):
            dropped = [user for user in users if _collapses(user, groups)]
            return Match(root, (root, *dropped), groups)
    return None


def _collapses(op: ir.Operation, groups: Groups) -> bool:
    return bool(op.name == "tensor.collapse_shape" and ops.reassociation(op) == groups)


def _scanned(scan: ir.Operation) -> int:
    return int(ir.IntegerAttr(scan.attributes["dimension"]).value)


def _rewrite_scan(root: ir.Operation, groups: Groups) -> ir.Operation:
    """Builds the scan on fewer dimensions; it erases an expansion without users."""
    result, element = root.results[0], ops.element_type(root.results[0])
    shape, expand = ops.shape(result), ops.defining_op(root.operands[0])
    kept = ops.wide_dims(groups, shape)
    sizes, dim = [shape[d] for d in kept], kept.index(_scanned(root))
    start = ops.constant(root.operands[2])
    assert start is not None
    with ir.InsertionPoint(root), root.location:
        source = builders.collapse(root.operands[0], groups)
        rest = builders.empty([*sizes[:dim], *sizes[dim + 1 :]], ops.element_type(root.results[1]))
        number = builders.scalar_constant(start, ops.element_type(root.results[1]))
        inits = [builders.empty(sizes, element), builders.fill(number, rest)]
        new = ir.Operation.create(
            SCAN,
            results=[value.type for value in inits],
            operands=[source, *inits],
            attributes={
                **{name: root.attributes[name] for name in root.attributes},
                "dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim),
            },
            regions=1,
        )
        root.regions[0].blocks[0].append_to(new.regions[0])
        for user in ops.users(result):
            if _collapses(user, groups):
                user.results[0].replace_all_uses_with(new.results[0])
                user.erase()
        result.replace_all_uses_with(builders.expand(new.results[0], groups, shape))
    root.erase()
    _erase_unused(expand)
    return new


def _insertions(root: ir.Operation) -> list[ir.Operation]:
    """The insertions from the last to the first; none where the first is not as it has to be."""
    found: list[ir.Operation] = []
    value, user = root.operands[0], root
    while True:
        op = ops.defining_op(value)
        if op is None or op.block != root.block:
            return []
        if op.name == "tensor.empty" or (found and ops.constant(value) is not None):
            return found
        if op.name != "tensor.insert_slice" or ops.users(value) != [user]:
            return []
        found.append(op)
        value, user = op.operands[1], op


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the insertions, the slice, the concatenation or the scan on fewer dimensions."""
    if match.root.name == "tensor.extract_slice":
        return _rewrite_slice(match.root, *match.data)
    if match.root.name == "tensor.concat":
        return _rewrite_concatenation(match.root, *match.data)
    if match.root.name == SCAN:
        return _rewrite_scan(match.root, match.data)
    if match.root.name == "tensor.expand_shape":
        return _rewrite_expanded_slice(match.root, match.data)
    root, (groups, chain) = match.root, match.data
    result, element = root.results[0], ops.element_type(root.results[0])
    start = ops.constant(chain[0].operands[1])
    with ir.InsertionPoint(chain[0]), chain[0].location:
        whole = builders.empty(ops.shape(result), element)
        if start is not None:
            whole = builders.fill(builders.scalar_constant(start, element), whole)
    for insertion in chain:
        with ir.InsertionPoint(insertion), insertion.location:
            whole = _inserted(insertion, whole, groups).results[0]
    result.replace_all_uses_with(whole)
    root.erase()
    for insertion in reversed(chain):
        insertion.erase()
    last: ir.Operation = whole.owner.operation
    return last


def _inserted(insertion: ir.Operation, whole: ir.Value, groups: Groups) -> ir.Operation:
    bounds, part = ops.static_insert(insertion), insertion.operands[0]
    assert bounds is not None
    offsets = [sum(bounds[0][d] for d in group) for group in groups]
    sizes, steps = ops.shape(insertion.results[0]), list(insertion.attributes["static_strides"])
    strides = [max([steps[d] for d in group if sizes[d] != 1], default=1) for group in groups]
    if len(ops.shape(part)) != len(groups):
        part = builders.collapse(part, groups)
    return destination_builder.insert(part, whole, offsets, strides)


PASS = FusionPass(
    name="unit_dims_rewrite",
    summary="Concatenations, slices and scans have no dimensions of size one that are dropped",
    roots=(
        *("tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice", "tensor.concat"),
        SCAN,
    ),
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="MLIR folding of unit extent dimensions",
)
