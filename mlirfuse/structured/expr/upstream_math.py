"""A fast filter for patterns: functions computed upstream of an op, up to the next contraction.

An op without a square root upstream ends no norm, one without an exponential no softmax. The filter
inspects each op once; expanding its expression inspects many.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.ir import analysis_cache, ops

ROOT = 1
"""Bit of a square root, its reciprocal, or a power."""

EXPONENTIAL = 2
"""Bit of an exponential, or of a `linalg.softmax`."""

DIFFERENCE = 4
"""Bit of a floating-point subtraction."""

GATHER = 8
"""Bit of an element that is read at computed indices."""

_BITS = {
    "arith.subf": DIFFERENCE,
    "math.sqrt": ROOT,
    "math.rsqrt": ROOT,
    "math.powf": ROOT,
    "math.exp": EXPONENTIAL,
    "math.exp2": EXPONENTIAL,
    "tensor.extract": GATHER,
}


def holds(value: ir.Value, bit: int) -> bool:
    """Whether the producers of the value may compute `bit`. No is certain."""
    op = ops.defining_op(value)
    return op is not None and computes(op, bit)


def computes(op: ir.Operation, bit: int) -> bool:
    """Whether the op or its producers may compute `bit`. No is certain."""
    return _upstream(op) & bit != 0


def _upstream(root: ir.Operation) -> int:
    """The bits of the op and its transitive producers, without those of contractions' operands."""
    known: dict[ir.Operation, int] = analysis_cache.upstream_table(_own)
    if root in known:
        return known[root]
    work = [root]
    while work:
        op = work[-1]
        if op in known:
            work.pop()
            continue
        producers = [] if _ends(op) else [p for _, p in ops.operand_producers(op) if p is not None]
        missing = [p for p in producers if p not in known]
        work += missing
        if not missing:
            bits = _own(op)
            for producer in producers:
                bits |= known[producer]
            known[op] = bits
    return known[root]


def _ends(op: ir.Operation) -> bool:
    return op.name == ops.REGION or ops.is_contraction(op)


def _own(op: ir.Operation) -> int:
    if op.name == "linalg.softmax":
        return EXPONENTIAL
    bits = 0
    for name in ops.scalar_names(op) if ops.is_generic(op) else ():
        bits |= _BITS.get(name, 0)
    return bits
