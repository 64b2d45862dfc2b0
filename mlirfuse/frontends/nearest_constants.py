"""Numbers of f64 that ops of f32 use, rounded to the nearest.

    %c = arith.constant 0.44444444444444442 : f64
    %r = arith.truncf %c : f64 to f32
  becomes
    %r = arith.constant 0.444444448 : f32

PyTorch's scalars are such numbers. Where IREE 3.13 makes f64 f32 it cuts constants off, here to
0.444444418: 4.5 times that is below two, and rounded down one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.builders.tensors import scalar_constant
from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir


def round_constants(module: ir.Module) -> bool:
    """Rewrites the conversions of constants; returns whether there are any."""
    from iree.compiler import ir

    changed = False
    for op in list(ops.nested_ops(module.operation)):
        if op.name != "arith.truncf" or ops.element_type(op.results[0]) != "f32":
            continue
        number = ops.constant(op.operands[0])
        if number is None or not isinstance(op.results[0].type, ir.F32Type):
            continue
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(scalar_constant(number, "f32"))
        op.erase()
        changed = True
    return changed
