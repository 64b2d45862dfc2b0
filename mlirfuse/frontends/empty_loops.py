"""Ops of linalg whose loops are empty, as their inits.

    %r = linalg.matmul ins(%x, %y : tensor<3x0xf32>, tensor<0x2xf32>) outs(%zeros : tensor<3x2xf32>)
  users of %r become users of
    %zeros

IREE 3.13 divides by zero in its search for a form of such a product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir


def drop_empty_loops(module: ir.Module) -> bool:
    """Replaces each op that reads a tensor without elements; returns whether there is any."""
    found = [
        op
        for op in ops.nested_ops(module.operation)
        if op.name.startswith("linalg.")
        and len(op.results) > 0
        and any(0 in ops.shape(value) for value in ops.inputs(op))
    ]
    for op in found:
        inits = list(op.operands)[-len(op.results) :]
        for result, init in zip(op.results, inits, strict=True):
            result.replace_all_uses_with(init)
        op.erase()
    return bool(found)
