"""Let the host count the iterations of a loop whose counter is in a tensor.

    %r:3 = scf.while (%i = dense<0>, %x = ...) {            tensor<i64>, tensor<MxNxT>
      %y = iree_linalg_ext.scatter ins(%row, %i) outs(%x)
      %j = linalg.generic {addi} ins(%i)
      %c = tensor.extract (linalg.generic {cmpi slt, %j, 64})
      scf.condition(%c) %j, %y
    } do { yield }
  becomes
    %r:2 = scf.for %n = 0 to 64 iter_args(%x = ...) {
      %y = tensor.insert_slice %row into %x[%n, 0]
      scf.yield %y
    }

PyTorch's `while_loop`, and with it recurrent layers, tests a tensor: each iteration computes the
condition in a dispatch, the host waits for it, and starts the next. Root: an `scf.while` whose
iteration precedes its condition; the counter is one integer from a constant in constant steps to a
constant. Ops that read the counter take the number; a scatter of one row at it is an insertion in
place. On CPUs a copy of the part of a tensor at the counter is a slice, which kernels read as an
operand.
Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import loop_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.recognize import counted_loops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch:
    """Finds a loop of a known number of iterations."""
    found = counted_loops.counted_loop(root)
    if found is None:
        return NoMatch(
            Reason.CONSTANT_UNVERIFIED, "the condition is not that a counter is below a constant"
        )
    return Match(root, (root,), found)


PASS = FusionPass(
    name="counted_loop_rewrite",
    summary="Loops that count in a tensor are counted by the host, which waits for no condition",
    roots=(counted_loops.LOOP,),
    match=match,
    rewrite=lambda match, ctx: loop_builder.host_counted(
        match.data, slices=ctx.target.cpu is not None
    ),
    kind=Kind.REWRITE,
    inner_first=True,
    source="mlirfuse",
)
