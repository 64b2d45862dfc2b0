"""Let a kernel in the vector dialect compute all iterations of a loop that carries states.

    %r:2 = scf.for %n = 0 to 512 iter_args(%h = %h0, %c = %c0) { an LSTM cell }
  becomes
    %r:2 = flow.dispatch @vector_kernel::@recurrence(%x, %w, %h0, %c0)

Root: an `scf.for` with a constant number of iterations, whose carried values are states of one
shape, and stacks of which each iteration writes a slice. Iterations have elementwise ops, and
contractions of states with weights: LSTM, GRU, RNN. Workgroups have rows of the states of their
own, or share the columns of rows and wait for each other behind each iteration; where the model of
the device finds all of that slower, the host starts each iteration. Static sizes, f32.
Numerics: reassociating (the order of the sums).
Source: Diamos et al., Persistent RNNs, ICML 2016.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels.calls import LOOP
from mlirfuse.kernels.vector import passes, recurrence


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a loop for which there is a kernel."""
    found = passes.match_region(root, ctx, recurrence.plan)
    return Match(root, (root,)) if isinstance(found, Match) else found


PASS = passes.kernel_pass(
    name="recurrence_vector_kernel",
    summary="Loop that carries states, as an LSTM, as one kernel for CPUs",
    plan=recurrence.plan,
    replace=recurrence.replace,
    source="Diamos et al. 2016",
    roots=(LOOP,),
    match=match,
    inner_first=True,
)
