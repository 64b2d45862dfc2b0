"""Keeps programs from writing into their arguments.

    %r = iree_linalg_ext.sort outs(%x)
    return %r
  becomes
    %r = iree_linalg_ext.sort outs(%x)
    util.optimization_barrier %x           // a use after all writes: %x is copied before
    return %r

IREE 3.13 computes in place in the memory of an argument without later users. Where that memory is
shared with the caller, this overwrites the caller's array: by sort, scatter, `index_put`, or an
update of a slice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir

_FUNCTIONS = ("func.func", "util.func")

_VIEWS = (
    "tensor.cast",
    "tensor.bitcast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.reshape",
)
"""Ops whose result may alias their first operand."""

_UPDATES = ("tensor.insert", "tensor.insert_slice", "tensor.scatter")
"""Ops that write into their second operand."""

_STRUCTURED = ("linalg.", "iree_linalg_ext.", "tm_tensor.")
"""Dialects whose ops write into their last operands, one for each result."""


def keep_arguments(module: ir.Module) -> bool:
    """Makes IREE copy arguments that ops may write into; returns whether there are any."""
    from iree.compiler import ir

    changed = False
    for function in module.body.operations:
        if function.operation.name not in _FUNCTIONS or not function.regions[0].blocks:
            continue
        blocks = function.regions[0].blocks
        written = [
            argument
            for argument in blocks[0].arguments
            if isinstance(argument.type, ir.RankedTensorType) and _may_be_written(argument)
        ]
        ends = [list(block.operations)[-1] for block in blocks] if written else []
        for end in ends:
            if end.operation.name.endswith(".return"):
                for argument in written:
                    ir.Operation.create(
                        "util.optimization_barrier",
                        results=[argument.type],
                        operands=[argument],
                        ip=ir.InsertionPoint(end),
                        loc=ir.Location.unknown(module.context),
                    )
        changed = changed or bool(written)
    return changed


def _may_be_written(value: ir.Value) -> bool:
    for use in value.uses:
        op = use.owner.operation
        if op.name.startswith(_STRUCTURED):
            if use.operand_number >= ops.num_inputs(op):
                return True
        elif op.name in _UPDATES:
            if use.operand_number == 1:
                return True
        elif op.name in _VIEWS:
            if _may_be_written(op.results[0]):
                return True
        elif op.regions or op.successors or op.name.endswith(".call"):
            return True
    return False
