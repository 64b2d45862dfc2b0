"""Ops that IREE 3.13 compiles wrong for CUDA, or not at all, in a form that it compiles right.

    %m = linalg.generic {arith.minsi} ins(%x : tensor<64x4096xi32>)
  becomes
    %f = flow.dispatch.region {linalg.generic {arith.sitofp} ins(%x)}
    %r = linalg.generic {arith.minimumf} ins(%f : tensor<64x4096xf64>)
    %m = linalg.generic {arith.fptosi} ins(%r)

A reduction of rows by `minsi` or `maxsi` in at most 32 bits starts its lanes with the identity of
the unsigned op: the minimum of positive numbers is -1, the maximum of negative ones 0.

    %s = linalg.generic {arith.extsi, arith.addi} ins(%x : tensor<64x4096xi32>)
  becomes
    %e = flow.dispatch.region {linalg.generic {arith.extsi} ins(%x)}
    %s = linalg.generic {arith.addi} ins(%e : tensor<64x4096xi64>)

A sum of rows in a wider type is refused: "failed to distribute".

    %i = linalg.generic {linalg.index, arith.select, arith.minimumf} ins(%x)
  becomes
    %k = flow.dispatch.region {linalg.generic {linalg.index, arith.select} ins(%x)}
    %i = linalg.generic {arith.minimumf} ins(%k)

A reduction that reads the index of its own loop is refused for some sizes in the same way.

    %y = linalg.generic {mulf, addf} ins(%x : channels first, %w : channels last)
  becomes
    %t = linalg.generic {transpose} ins(%x)
    %y = flow.dispatch.region {linalg.generic {mulf, addf} ins(%t, %w)}

A convolution in half precision whose image has its channels before the pixels, and whose filter
and result have them last, is computed as if the image had them last.

    %u = linalg.generic {arith.extui} ins(%x : tensor<30xi1>)
    %r = iree_linalg_ext.scatter ins(%u, %i : tensor<30xi64>, tensor<30xi32>)
  becomes
    %u = flow.dispatch.region {linalg.generic {arith.extui} ins(%x)}

An op that extends elements is copied into the dispatch of a scatter, where it is refused: "failed
to apply fusion + hoisting patterns"; in that of a sort or `topk` threads read elements of others
before they are computed.

    %c = linalg.generic {complex.create} ins(%re, %im)
  becomes
    %c = flow.dispatch.region {linalg.generic {complex.create} ins(%re, %im)}

In the dispatch of the reduction that computes its operands, an op with complex results crashes the
compiler.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.regions import form_region, ungroup
from mlirfuse.builders.tensors import (
    body_of,
    dynamic_sizes,
    empty,
    generic,
    scalar,
    tensor_type,
    transpose,
)
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.strided_access import StridedDim
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops, classify

_AS_FLOATS = {"arith.minsi": "arith.minimumf", "arith.maxsi": "arith.maximumf"}

_FLOATS = {"i8": "f32", "i16": "f32", "i32": "f64"}
"""Integer type -> the float type that holds all of its numbers."""

_HALF = ("f16", "bf16")

_READ_ANYWHERE = frozenset(f"iree_linalg_ext.{name}" for name in ("scatter", "sort", "topk"))
"""Ops whose operands are not tiled like their results."""

_COMPUTATIONS = ("linalg.", "iree_linalg_ext.")
"""Dialects of the ops that are not elementwise, and that IREE fuses with elementwise users."""

_MEMOIZED = "linalg.memoized_indexing_maps"


def repair(module: ir.Module) -> bool:
    """Rewrites all such ops; returns whether there is any."""
    changed = False
    for form in (
        _extend_before,
        _reduce_floats,
        _compute_before,
        _transpose_image,
        _separate_complex,
    ):
        generics = [op for op in ops.nested_ops(module.operation) if op.name == "linalg.generic"]
        changed = any([form(op) for op in generics if len(op.results) == 1]) or changed
    readers = [op for op in ops.nested_ops(module.operation) if op.name in _READ_ANYWHERE]
    return any([_extend_operands_before(op) for op in readers]) or changed


def _separate_complex(op: ir.Operation) -> bool:
    """Puts an elementwise op with complex results in a dispatch of its own, after a reduction."""
    if not ops.element_type(op.results[0]).startswith("complex") or not ops.is_elementwise(op):
        return False
    if _enclosing(op) is not None or not _reads_reduction(op):
        return False
    form_region([op])
    return True


def _reads_reduction(op: ir.Operation) -> bool:
    """Whether elementwise ops, which IREE fuses, read what another computation has made."""
    seen, work = {op.results[0]}, [op]
    while work:
        for value in set(ops.inputs(work.pop())) - seen:
            seen.add(value)
            producer = ops.defining_op(ops.strip_views(value, ops.RESHAPES))
            if producer is None or producer.name == "linalg.fill" or _enclosing(producer):
                continue
            if ops.is_elementwise(producer):
                work.append(producer)
            elif producer.name.startswith(_COMPUTATIONS):
                return True
    return False


def _extend_operands_before(op: ir.Operation) -> bool:
    """Computes what an op reads from narrower elements in a dispatch of its own."""
    changed = False
    for value in op.operands:
        producer = ops.defining_op(ops.strip_views(value, ops.RESHAPES))
        if producer is None or _enclosing(producer) is not None:
            continue
        if ops.is_elementwise(producer) and _extends(producer, ops.element_bits(value)):
            form_region([producer])
            changed = True
    return changed


def _extends(op: ir.Operation, bits: int) -> bool:
    """Whether the op, or it and elementwise producers, reads one tensor of narrower elements.

    IREE fuses some of the producers.
    """
    rank, fused = len(ops.shape(op.results[0])), [op]
    while fused:
        read = dict.fromkeys(value for each in fused for value in ops.inputs(each))
        whole = [v for v in read if len(ops.shape(v)) == rank and ops.constant(v) is None]
        if len(whole) == 1 and ops.element_bits(whole[0]) < bits:
            return True
        producers = [producer for v in whole if (producer := ops.defining_op(v)) is not None]
        fused = [producer for producer in producers if ops.is_elementwise(producer)]
    return False


def _extend_before(op: ir.Operation) -> bool:
    """Extends the integers of a reduction in a dispatch of their own."""
    if "reduction" not in ops.iterator_types(op):
        return False
    changed = False
    for index, value in enumerate(ops.inputs(op)):
        argument = ops.body(op).arguments[index]
        users = [use.owner.operation for use in argument.uses]
        if len(users) != 1 or users[0].name not in ("arith.extsi", "arith.extui"):
            continue
        if ops.element_type(value) == "i1":
            continue
        extension, kind = users[0], str(users[0].results[0].type)
        if _convert_before(op, index, extension.name, kind):
            extension.results[0].replace_all_uses_with(argument)
            extension.erase()
            changed = True
    return changed


def _convert_before(op: ir.Operation, index: int, conversion: str, kind: str) -> bool:
    """Converts an input in a dispatch of its own; False where that cannot come before the op's."""
    value, outer = ops.inputs(op)[index], _enclosing(op) or op
    if _enclosing(ops.defining_op(value)) is not None:
        return False
    with ir.InsertionPoint(outer), op.location:
        converted = _converted(value, conversion, kind)
    op.operands[index] = converted
    form_region([_operation(converted)])
    ops.body(op).arguments[index].set_type(ir.Type.parse(kind, op.context))
    return True


def _operation(value: ir.Value) -> ir.Operation:
    found = ops.defining_op(value)
    assert found is not None
    return found


def _converted(value: ir.Value, conversion: str, kind: str) -> ir.Value:
    """The tensor with its elements converted, at the current insertion point."""
    identity = tuple(range(len(ops.shape(value))))
    return generic(
        [value],
        [empty(ops.shape(value), kind, dynamic_sizes(value))],
        [identity, identity],
        ["parallel"] * len(identity),
        lambda arguments: [scalar(conversion, arguments[:1], kind)],
    ).results[0]


def _compute_before(op: ir.Operation) -> bool:
    """Computes the elements of a reduction that reads an index in a dispatch of their own."""
    kinds, maps, body = ops.iterator_types(op), ops.indexing_maps(op), ops.body(op)
    if "reduction" not in kinds or None in maps or not ops.reads_index(op):
        return False
    combiner = list(body.operations)[-1].operands[0].owner
    accumulator = body.arguments[-1]
    if isinstance(combiner, ir.Block) or len(list(accumulator.uses)) != 1:
        return False
    elements = [operand for operand in combiner.operands if operand != accumulator]
    if len(combiner.operands) != 2 or len(elements) != 1 or None in ops.loop_sizes(op):
        return False
    kind, name = str(elements[0].type), combiner.name
    identity, outer = tuple(range(len(kinds))), _enclosing(op) or op
    with ir.InsertionPoint(op), op.location:
        computed = generic(
            ops.inputs(op),
            [empty(ops.loop_sizes(op), kind)],
            [*ops.plain_maps(op)[:-1], identity],
            ["parallel"] * len(kinds),
            lambda arguments: [_element(op, arguments)],
        )
        reduced = generic(
            [computed.results[0]],
            ops.inits(op),
            [identity, ops.plain_maps(op)[-1]],
            kinds,
            lambda a: [scalar(name, a, str(a[1].type))],
        )
    op.results[0].replace_all_uses_with(reduced.results[0])
    op.erase()
    if outer is op:
        form_region([computed])
    return True


def _element(op: ir.Operation, arguments: list[ir.Value]) -> ir.Value:
    """The element that a reduction combines with its accumulator, from other arguments."""
    copied = body_of(op)(arguments)[0].owner
    value = next(operand for operand in copied.operands if operand != arguments[-1])
    copied.operation.erase()
    return value


def _reduce_floats(op: ir.Operation) -> bool:
    """Reduces integers by a signed maximum or minimum as floats that hold all of them."""
    body, kind = ops.body(op), ops.element_type(op.results[0])
    if "reduction" not in ops.iterator_types(op) or kind not in _FLOATS:
        return False
    if None in ops.indexing_maps(op):
        return False  # windows: a thread reduces each alone
    combiner = list(body.operations)[-1].operands[0].owner
    if isinstance(combiner, ir.Block) or combiner.name not in _AS_FLOATS:
        return False
    accumulator, wide = body.arguments[-1], _FLOATS[kind]
    elements = [operand for operand in combiner.operands if operand != accumulator]
    if len(elements) != 1 or len(list(accumulator.uses)) != 1:
        return False
    element = elements[0]
    alone = len(list(body.operations)) == 2 and isinstance(element.owner, ir.Block)
    if not alone or not _convert_before(op, 0, "arith.sitofp", wide):
        with ir.InsertionPoint(combiner), combiner.location:
            element = scalar("arith.sitofp", [element], wide)
    last = len(op.operands) - 1
    with ir.InsertionPoint(op), op.location:
        op.operands[last] = _converted(op.operands[last], "arith.sitofp", wide)
    accumulator.set_type(ir.Type.parse(wide, op.context))
    with ir.InsertionPoint(combiner), combiner.location:
        combined = scalar(_AS_FLOATS[combiner.name], [element, accumulator], wide)
    combiner.results[0].replace_all_uses_with(combined)
    combiner.operation.erase()
    result = op.results[0]
    with op.location:
        result.set_type(tensor_type(ops.shape(op.operands[last]), wide))
    with ir.InsertionPoint.after(op), op.location:
        narrow = _converted(result, "arith.fptosi", kind)
    result.replace_all_uses_except(narrow, [_operation(narrow)])
    return True


def _transpose_image(op: ir.Operation) -> bool:
    """Transposes the image of a convolution whose result has its channels last."""
    loops = classify(op) if ops.num_inputs(op) == 2 else None
    if not isinstance(loops, ConvolutionLoops) or not loops.tap_loops:
        return False
    image, last = op.operands[loops.image], len(loops.image_dims) - 1
    found = [d for d, terms in enumerate(loops.image_dims) if _reads(terms, loops.channel_loop)]
    written = ops.indexing_maps(op)[-1] or ()
    half = ops.element_type(image) in _HALF and None not in ops.shape(image)
    if not half or not found or found[0] == last or written[-1] != loops.n_loop:
        return False
    region = _enclosing(op)
    if region is not None and _enclosing(ops.defining_op(image)) is not None:
        ungroup(region)
        region = None
    if region is None:
        region = form_region([op])
        op = next(o for o in ops.nested_ops(region) if o.name == "linalg.generic")
    order = [*(d for d in range(last + 1) if d != found[0]), found[0]]
    with ir.InsertionPoint(region), op.location:
        op.operands[loops.image] = transpose(image, [order.index(d) for d in range(last + 1)])
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    old = maps[loops.image]
    with op.context:
        new = ir.AffineMap.get(old.n_dims, old.n_symbols, [old.results[d] for d in order])
        maps[loops.image] = new
        op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
    if _MEMOIZED in op.attributes:
        del op.attributes[_MEMOIZED]
    return True


def _reads(terms: StridedDim, loop: int | None) -> bool:
    return any(term == loop for term, _ in terms)


def _enclosing(op: ir.Operation | None) -> ir.Operation | None:
    """The dispatch region around an op; None without one."""
    while op is not None and op.name != ops.REGION:
        parent = op.parent
        op = parent.operation if parent is not None else None
    return op
