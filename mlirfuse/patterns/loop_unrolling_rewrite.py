"""Let one iteration of a loop that the host counts do the work of several.

    %r = scf.for %n = 0 to 64 step 1 iter_args(%x) { A(%n, %x) }
  becomes
    %r = scf.for %n = 0 to 64 step 8 iter_args(%x) { A(%n, %x); ...; A(%n + 7, ...) }

The host submits the dispatches of an iteration together, and waits for none: with more of them in
a submission there are fewer. Equal dispatches are compiled once. Root: an `scf.for` over tensors
without a loop inside, from a constant to a constant. Iterations that are left over follow as one.
Numerics: exact.
Source: mlirfuse; a submission of IREE 3.13 to `local-task` takes about as long as three dispatches.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import loop_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import marks
from mlirfuse.structured.recognize import counted_loops

MAX_FACTOR = 8
"""Iterations in one: a submission is then less than a tenth of a call."""

MAX_OPS = 512
"""Ops of an unrolled iteration: passes, and IREE's, take time for each of them."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a loop whose iterations can be joined."""
    found = counted_loops.host_loop(root)
    if found is None or marks.UNROLLED_ATTRIBUTE in root.attributes:
        return None
    most = min(MAX_FACTOR, MAX_OPS // found.ops)
    if min(most, found.iterations) < 2:
        return NoMatch(Reason.NOT_PROFITABLE, "one iteration, or iterations of many ops")
    rounds = -(-found.iterations // most)
    return Match(root, (root,), (found, -(-found.iterations // rounds)))


PASS = FusionPass(
    name="loop_unrolling_rewrite",
    summary="Loops that the host counts do the work of several iterations in one submission",
    roots=("scf.for",),
    match=match,
    rewrite=lambda match, ctx: loop_builder.unrolled(*match.data),
    kind=Kind.REWRITE,
    source="mlirfuse",
)
