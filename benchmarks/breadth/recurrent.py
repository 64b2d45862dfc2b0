"""Random recurrent layers."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.breadth.drawing import Argument, Draw, Drawn

Tensor = torch.Tensor

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1}
"""Layer -> gates of a cell."""


def recurrent(draw: Draw) -> Drawn:
    """One or two layers over time, perhaps in both directions, from states of zeros."""
    kind = draw.random.choice([*GATES])
    size, hidden = draw.size(16, 1024), draw.size(32, 1024)
    batch, steps = draw.size(1, int(draw.limit(128))), draw.size(8, int(draw.limit(512)))
    layers, both = draw.random.choice([1, 1, 2]), draw.random.random() < 0.25
    directions, wide = 1 + both, GATES[kind] * hidden
    arguments = [Argument((batch, steps, size))]
    for layer in range(layers):
        read = hidden * directions if layer else size
        for _ in range(directions):
            shapes = [(wide, read), (wide, hidden), (wide,), (wide,)]
            arguments += [Argument(shape, "weight", hidden) for shape in shapes]

    def call(x: Tensor, *parameters: Tensor) -> Any:
        state = x.new_zeros((layers * directions, batch, hidden))
        first = (state, state) if kind == "lstm" else state
        # As a module: Dynamo leaves a layer whole that it would write out step by step.
        layer = torch.compiler.disable(getattr(torch, kind))
        return layer(x, first, list(parameters), True, layers, 0.0, False, both, True)[0]

    said = f"{kind}, {layers} layers{', both directions' if both else ''}, {hidden} wide"
    terms = size + hidden + (layers - 1) * (directions + 1) * hidden
    return Drawn(said, call, tuple(arguments), 2.0 * batch * steps * directions * wide * terms)
