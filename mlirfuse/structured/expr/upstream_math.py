"""Which functions are computed above an op, up to the next contraction: what most patterns need.

An op without a square root above it ends no norm, one without an exponential no softmax. To know
that costs a look at each op once; to ask what it computes costs many.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.ir import analysis_cache, ops

ROOT = 1
"""A square root, its reciprocal, or a power."""

EXPONENTIAL = 2
"""An exponential, or a softmax that is one op."""

DIFFERENCE = 4
"""A subtraction of floating-point numbers."""

_BITS = {
    "arith.subf": DIFFERENCE,
    "math.sqrt": ROOT,
    "math.rsqrt": ROOT,
    "math.powf": ROOT,
    "math.exp": EXPONENTIAL,
    "math.exp2": EXPONENTIAL,
}


def holds(value: ir.Value, bit: int) -> bool:
    """Whether `bit` may be computed above the value. No is certain."""
    op = ops.defining_op(value)
    return op is not None and computes(op, bit)


def computes(op: ir.Operation, bit: int) -> bool:
    """Whether `bit` may be computed by the op or above it. No is certain."""
    return _above(op) & bit != 0


def _above(root: ir.Operation) -> int:
    """The bits of the op and of what it is computed from; none of what a contraction reads."""
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
