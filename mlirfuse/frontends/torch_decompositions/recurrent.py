"""LSTM, GRU and RNN layers as loops over time.

PyTorch's decompositions write every step out: 512 steps of six layers do not compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table
from mlirfuse.frontends.torch_decompositions.loops import Carried, repeat

if TYPE_CHECKING:
    import torch

UNROLLED_STEPS = 4
"""Sequences of up to this length are written out, so that steps fuse with their neighbours."""

Cell = Callable[["torch.Tensor", Carried, Carried], Carried]
"""From the input's part of the gates, the states and (weight, bias) for the state: new states."""


def table(default: Table) -> Table:
    """The decompositions; packed sequences remain those of `default`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.lstm.input: _layers(_lstm_cell),
        aten.gru.input: _layers(_gru_cell),
        aten.rnn_tanh.input: _layers(_rnn_cell(torch.tanh)),
        aten.rnn_relu.input: _layers(_rnn_cell(torch.relu)),
    }


def _lstm_cell(given: torch.Tensor, states: Carried, parameters: Carried) -> Carried:
    import torch
    from torch.nn import functional

    h, c = states
    weight, bias, *projection = parameters
    i, f, g, o = (given + functional.linear(h, weight, bias)).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return (functional.linear(h, projection[0]) if projection else h), c


def _gru_cell(given: torch.Tensor, states: Carried, parameters: Carried) -> Carried:
    import torch
    from torch.nn import functional

    (h,) = states
    reset, update, new = given.chunk(3, -1)
    h_reset, h_update, h_new = functional.linear(h, *parameters).chunk(3, -1)
    gate = torch.sigmoid(update + h_update)
    candidate = torch.tanh(new + torch.sigmoid(reset + h_reset) * h_new)
    return (candidate + gate * (h - candidate),)


def _rnn_cell(activation: Callable[[torch.Tensor], torch.Tensor]) -> Cell:
    def cell(given: torch.Tensor, states: Carried, parameters: Carried) -> Carried:
        from torch.nn import functional

        return (activation(given + functional.linear(states[0], *parameters)),)

    return cell


def _steps(
    x: torch.Tensor, states: Carried, parameters: Sequence[torch.Tensor], cell: Cell, reverse: bool
) -> tuple[torch.Tensor, Carried]:
    """One layer in one direction: outputs of all steps, and the last states.

    Args:
      x: (steps, batch, size).
      states: initial states (batch, hidden).
      parameters: weight and bias for the input, weight and bias for the state, projection.
      cell: one step.
      reverse: whether to go from the last step to the first.
    """
    import torch
    from torch.nn import functional

    w_input, w_state, b_input, b_state, *projection = parameters
    given = functional.linear(x, w_input, b_input)
    steps = x.shape[0]
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    held = (w_state, b_state, *projection)
    if steps <= UNROLLED_STEPS:
        outputs: list[Any] = [None] * steps
        for k in order:
            states = cell(given[k], states, held)
            outputs[k] = states[0]
        return torch.stack(outputs), states

    count = len(states)

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        outputs, given, *rest = carried
        old, held = tuple(rest[:count]), tuple(rest[count:])
        at = (steps - 1) - k if reverse else k
        at = at.view(1)
        new = cell(given.index_select(0, at).squeeze(0), old, held)
        outputs = torch.index_put(outputs, [at], new[0].unsqueeze(0))
        return outputs, given, *new, *held

    outputs = x.new_zeros((steps, *states[0].shape))
    found = repeat(steps, body, (outputs, given, *states, *held))
    return found[0], found[2 : 2 + count]


def _network(
    x: torch.Tensor,
    states: Carried,
    parameters: Sequence[torch.Tensor],
    cell: Cell,
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, Carried]:
    import torch

    if batch_first:
        x = x.transpose(0, 1)
    directions = 2 if bidirectional else 1
    each = len(parameters) // (layers * directions)
    finals: list[Carried] = []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            own = list(parameters[index * each : (index + 1) * each])
            if not has_biases:
                zero = own[0].new_zeros(own[0].shape[0])
                own = [*own[:2], zero, zero, *own[2:]]
            initial = tuple(state[index] for state in states)
            y, final = _steps(x, initial, own, cell, direction == 1)
            outputs.append(y)
            finals.append(final)
        x = torch.cat(outputs, -1) if directions == 2 else outputs[0]
    if batch_first:
        x = x.transpose(0, 1)
    return x, tuple(torch.stack(part) for part in zip(*finals, strict=True))


def _layers(cell: Cell) -> Callable[..., Any]:
    def decomposition(
        x: torch.Tensor,
        state: torch.Tensor | Sequence[torch.Tensor],
        parameters: Sequence[torch.Tensor],
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        if (dropout and train) or not isinstance(x.shape[1 if batch_first else 0], int):
            return NotImplemented
        states = tuple(state) if isinstance(state, list | tuple) else (state,)
        y, finals = _network(
            x, states, parameters, cell, has_biases, layers, bidirectional, batch_first
        )
        return y, *finals

    return decomposition
