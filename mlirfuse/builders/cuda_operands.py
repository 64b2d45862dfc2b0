"""Ops that IREE 3.13 for CUDA may not compute in the dispatch of the op that reads them.

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

    %s = tensor.extract_slice %x[0, 0] [1, 9]
    %r = iree_linalg_ext.sort outs(%s : tensor<9xf32>)
  becomes
    %c = flow.dispatch.region {linalg.generic {copy} ins(%s)}
    %r = iree_linalg_ext.sort outs(%c : tensor<9xf32>)

A sort writes into its operand, and a slice in its dispatch is memory of another tensor: "failed to
bufferize".
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.regions import form_region, outside
from mlirfuse.builders.tensors import dynamic_sizes, empty, generic
from mlirfuse.structured.ir import ops

_READ_ANYWHERE = frozenset(f"iree_linalg_ext.{name}" for name in ("scatter", "sort", "topk"))
"""Ops whose operands are not tiled like their results."""

_SORT = "iree_linalg_ext.sort"

_COMPUTATIONS = ("linalg.", "iree_linalg_ext.")
"""Dialects of the ops that are not elementwise, and that IREE fuses with elementwise users."""


def repair(module: ir.Module) -> bool:
    """Puts all such ops in dispatches of their own; returns whether there is any."""
    found = list(ops.nested_ops(module.operation))
    generics = [op for op in found if op.name == "linalg.generic" and len(op.results) == 1]
    readers = [op for op in found if op.name in _READ_ANYWHERE]
    changed = any([_separate_complex(op) for op in generics])
    changed |= any([_copy_slices(op) for op in readers if op.name == _SORT])
    return any([_extend_operands_before(op) for op in readers]) or changed


def _separate_complex(op: ir.Operation) -> bool:
    """Puts an elementwise op with complex results in a dispatch of its own, after a reduction."""
    if not ops.element_type(op.results[0]).startswith("complex") or not ops.is_elementwise(op):
        return False
    if ops.in_region(op) or not _reads_reduction(op):
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
            if producer is None or producer.name == "linalg.fill" or ops.in_region(producer):
                continue
            if ops.is_elementwise(producer):
                work.append(producer)
            elif producer.name.startswith(_COMPUTATIONS):
                return True
    return False


def _copy_slices(op: ir.Operation) -> bool:
    """Copies the slices that a sort writes into in dispatches of their own."""
    changed = False
    for index, value in enumerate(op.operands):
        producer = ops.defining_op(ops.strip_views(value, ops.RESHAPES))
        if producer is None or producer.name != "tensor.extract_slice":
            continue
        identity = tuple(range(len(ops.shape(value))))
        with ir.InsertionPoint(outside(op, [value])), op.location:
            copied = generic(
                [value],
                [empty(ops.shape(value), ops.element_type(value), dynamic_sizes(value))],
                [identity, identity],
                ["parallel"] * len(identity),
                lambda arguments: arguments[:1],
            )
        op.operands[index] = copied.results[0]
        form_region([copied])
        changed = True
    return changed


def _extend_operands_before(op: ir.Operation) -> bool:
    """Computes what an op reads from narrower elements in a dispatch of its own."""
    changed = False
    for value in op.operands:
        producer = ops.defining_op(ops.strip_views(value, ops.RESHAPES))
        if producer is None or ops.in_region(producer):
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
