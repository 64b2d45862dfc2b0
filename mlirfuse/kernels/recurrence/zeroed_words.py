"""The memory in which the CTAs of a recurrence meet, zeroed by a kernel instead of by IREE.

IREE writes zeros just before the kernel that updates them, and so between two recurrences; it then
schedules the second one later, and may give its results the memory that the first one reads.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import POINTERS
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.structured.ir import ops

ENTRY = "zero_kernel"

BLOCK, WARPS = 1024, 4
"""Elements that a CTA writes, and its warps."""


def plan(zeros: ir.Value, operand: ir.Value) -> Plan:
    """Plans a kernel that writes zeros of a tensor's static shape, of one dimension.

    Args:
      zeros: the tensor.
      operand: any other one, which is not read: IREE makes a dispatch without operands again in
        front of each of its users.
    """
    (elements,) = ops.shape(zeros)
    assert elements is not None
    kind = ops.element_type(zeros)
    lines = [
        f"offs = tl.program_id(0) * {BLOCK} + tl.arange(0, {BLOCK})",
        f"tl.store(y0 + offs, offs * 0, mask=offs < {elements})",
    ]
    arguments = (("x0", POINTERS[ops.element_type(operand)]), ("y0", POINTERS[kind]))
    text = text_of(ENTRY, arguments, lines, f"{elements} zeros.")
    return Plan(
        Program(ENTRY, text, arguments, WARPS, 1),
        (operand,),
        (),
        (Extent(elements, BLOCK), Extent(1), Extent(1)),
        scratch=((Extent(elements),),),
        scratch_types=(kind,),
    )
