"""Whether a kernel has to round products before it adds to them.

    m = max(x * s)        a reduction: of rounded products
    e = exp(x * s - m)    contracted: the product is not rounded here, and the difference not zero

The difference is then half a unit in the last place of m, which is 256 for a value of 7e9: its
exponential is infinite, or zero for all elements, and softmax is NaN.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.kernels.codegen.row_reductions import reduces
from mlirfuse.structured.ir import ops

_EXTREMES = frozenset({"arith.maximumf", "arith.maxnumf", "arith.minimumf", "arith.minnumf"})
_PRODUCTS = frozenset({"arith.mulf", "arith.divf"})
_EXPONENTIALS = frozenset({"math.exp", "math.exp2"})


def rounds_products(region: ir.Operation) -> bool:
    """Whether a region has exponentials, and an extreme value of products."""
    members = [view.operation for view in ops.body(region).operations]
    generics = {op for op in members if ops.is_generic(op)}
    if not any(_EXPONENTIALS & {*ops.scalar_names(op)} for op in generics):
        return False
    work = [op for op in generics if reduces(op) and _EXTREMES & {*ops.scalar_names(op)}]
    seen = set(work)
    while work:
        op = work.pop()
        if _PRODUCTS & {*ops.scalar_names(op)}:
            return True
        for value in ops.inputs(op):
            producer = ops.defining_op(value)
            if producer in generics and producer not in seen:
                seen.add(producer)
                work.append(producer)
    return False
