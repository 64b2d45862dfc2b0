"""Forms of `recurrence_triton_kernel`: LSTM, GRU and RNN layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from benchmarks.gpu.check.case import FLOATS, Chance, Form, Input, Tensor, Work

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Layer -> gates of a cell."""

MIN_STEPS = 5
"""Shorter sequences are written out."""


def layer(chance: Chance) -> Work:
    """One layer, or one in both directions, from given states."""
    kind = chance.pick(*GATES)
    steps = MIN_STEPS + chance.size(60)
    batch, size, hidden = chance.size(90), chance.size(200), chance.size(700, 2)
    directions, first = chance.pick(1, 1, 2), chance.likely(0.5)
    biases = chance.likely(0.7)
    wide = GATES[kind] * hidden
    shapes = [(wide, size), (wide, hidden), *([(wide,), (wide,)] if biases else [])]
    states = 2 if kind == "lstm" else 1

    def program(x: Tensor, *rest: Tensor) -> Any:
        given = rest[:states] if states > 1 else rest[0]
        parameters = list(rest[states:])
        return getattr(torch, kind)(
            x, given, parameters, biases, 1, 0.0, False, directions == 2, first
        )

    inputs = [
        Input((batch, steps, size) if first else (steps, batch, size)),
        *(Input((directions, batch, hidden), "wave") for _ in range(states)),
    ]
    for _ in range(directions):
        inputs += [Input(shape, "weight" if len(shape) > 1 else "shift") for shape in shapes]
    said = f"{kind} of {steps} steps, {batch}x{size} to {hidden}"
    said += (", in both directions" if directions == 2 else "") + ("" if biases else ", no biases")
    return Work(program, tuple(inputs), chance.dtype(*FLOATS), said)


RECURRENCES: Mapping[str, Form] = {"layer": layer}
"""Forms by name."""
