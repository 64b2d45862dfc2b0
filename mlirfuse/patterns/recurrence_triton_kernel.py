"""Let a Triton kernel compute all iterations of a loop that carries states.

    %r:2 = scf.for %n = 0 to 512 iter_args(%h = %h0, %c = %c0) { an LSTM cell }
  becomes
    %r:2 = hal.dispatch.extern "recurrence_kernel"(%x, %w, %h0, %c0) { iterations, barriers }

Root: an `scf.for` with a constant number of iterations, whose carried values are states of one
shape, and stacks of which each iteration writes a slice. Iterations have elementwise ops, and
contractions of a state, or of a computed value of a state's shape, with weights. Each CTA keeps its
tile of the states; CTAs that exchange states wait for each other, so at most half as many as the
device has SMs. Static sizes; contractions of f16, bf16, f32. Numerics: reassociating (states are
f32 in registers).
Source: Diamos et al., Persistent RNNs, ICML 2016.
"""

from __future__ import annotations

from mlirfuse.kernels import passes
from mlirfuse.kernels.calls import LOOP
from mlirfuse.kernels.recurrence.family import PASS_NAME, plan_loop

PASS = passes.kernel_pass(
    name=PASS_NAME,
    summary="Loop that carries states, as an LSTM, as one Triton kernel",
    supports=plan_loop,
    source="Diamos et al. 2016",
    root=LOOP,
)
