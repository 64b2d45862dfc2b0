"""RNN, GRU and LSTM as loops over the steps of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Builder, Node
from mlirfuse.frontends.onnx_repairs.loops import repeat, written, zeros
from mlirfuse.frontends.onnx_repairs.values import Refused, Unsupported, Value

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

_DEFAULTS = {
    "RNN": ["Tanh"],
    "GRU": ["Sigmoid", "Tanh"],
    "LSTM": ["Sigmoid", "Tanh", "Tanh"],
}

_ALPHA = {"LeakyRelu": 0.01, "ThresholdedRelu": 1.0, "HardSigmoid": 0.2, "Elu": 1.0}
"""Default parameters of activations."""

Activation = Callable[[Value], Value]


def recurrent(node: Node) -> list[Value | None]:
    """All directions of a recurrent operator."""
    builder, kind = node.builder, node.kind
    value, weight, recurrence = (node.operand(i) for i in range(3))
    bias, lengths, initial = node.input(3), node.input(4), node.input(5)
    cells, peepholes = node.input(6), node.input(7)
    whole = all(size is not None for size in (*value.sizes, *weight.sizes, *recurrence.sizes))
    if not whole and (peepholes is not None or lengths is not None):
        raise Refused(f"{kind} of a dynamic size with peepholes or lengths, which IREE ignores")
    batch_first = bool(node.attribute("layout", 0))
    if batch_first:
        value = value.transpose([1, 0, 2])
        initial = initial and initial.transpose([1, 0, 2])
        cells = cells and cells.transpose([1, 0, 2])
    direction = node.attribute("direction", "forward")
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    per = len(_DEFAULTS[kind])
    names = node.attribute("activations") or _DEFAULTS[kind] * len(backwards)
    names = [name.decode() if isinstance(name, bytes) else name for name in names]
    hidden = recurrence.static[2]
    steps, batch, _ = value.static
    results: list[list[Value]] = []
    for index, reverse in enumerate(backwards):

        def part(tensor: Value | None, at: int = index) -> Value | None:
            return None if tensor is None else tensor.take(at, 0)

        activations = _activations(node, names, index * per, per)
        empty = zeros(builder, value.dtype, (batch, hidden))
        state = [part(initial) or empty]
        if kind == "LSTM":
            state.append(part(cells) or empty)
        results.append(
            _direction(
                node,
                value,
                weight.take(index, 0),
                recurrence.take(index, 0),
                part(bias),
                part(peepholes),
                lengths,
                state,
                activations,
                reverse=reverse,
                shape=(steps, batch, hidden),
            )
        )
    stacked = [
        _stacked([result[i] for result in results], 1 if i == 0 else 0)
        for i in range(len(results[0]))
    ]
    if batch_first:
        stacked = [
            stacked[0].transpose([2, 0, 1, 3]),
            *(part.transpose([1, 0, 2]) for part in stacked[1:]),
        ]
    return list(stacked)


def _stacked(parts: Sequence[Value], axis: int) -> Value:
    """Directions along a new axis."""
    wide = [part.unsqueeze(axis) for part in parts]
    if len(wide) == 1:
        return wide[0]
    return wide[0].builder.add("Concat", *wide, axis=axis)


def _activations(node: Node, names: Sequence[str], start: int, count: int) -> list[Activation]:
    alphas = list(node.attribute("activation_alpha") or [])
    betas = list(node.attribute("activation_beta") or [])
    clip = node.attribute("clip")

    def activation(name: str, index: int) -> Activation:
        attributes: dict[str, Any] = {}
        alpha = alphas[index] if index < len(alphas) else _ALPHA.get(name)
        if name in _ALPHA and alpha is not None:
            attributes["alpha"] = alpha
        if name == "HardSigmoid" and index < len(betas):
            attributes["beta"] = betas[index]
        if name in ("Affine", "ScaledTanh"):
            raise Unsupported(name)

        def apply(value: Value) -> Value:
            if clip:
                raised = value.builder.add("Max", value, value.lifted(-clip))
                value = value.builder.add("Min", raised, value.lifted(clip))
            return value.builder.add(name, value, **attributes)

        return apply

    return [activation(name, i) for i, name in enumerate(names) if start <= i < start + count]


def _direction(
    node: Node,
    value: Value,
    weight: Value,
    recurrence: Value,
    bias: Value | None,
    peepholes: Value | None,
    lengths: Value | None,
    state: list[Value],
    activations: Sequence[Activation],
    *,
    reverse: bool,
    shape: tuple[int, int, int],
) -> list[Value]:
    """One direction: all hidden states, and the last state."""
    builder, kind = node.builder, node.kind
    steps, batch, hidden = shape
    width = _GATES[kind] * hidden
    projected = value @ weight.transpose([1, 0])
    after = bool(node.attribute("linear_before_reset", 0))
    recurrent_bias: Value | None = None
    if bias is not None:
        projected = projected + bias.slice(0, 0, width)
        recurrent_bias = bias.slice(0, width, 2 * width)
        if kind != "GRU":
            projected = projected + recurrent_bias
    turned = recurrence.transpose([1, 0])
    # The hidden states of all steps, where they are a result.
    collected = [zeros(builder, value.dtype, shape)] if node.wants(0) else []
    count = len(state)

    def iteration(child: Builder, step: Value, current: Sequence[Value]) -> list[Value]:
        place = steps - 1 - step if reverse else step
        inner = child.values
        x = inner[projected.name].take(place, 0)
        w = inner[turned.name]
        rb = None if recurrent_bias is None else inner[recurrent_bias.name]
        if kind == "RNN":
            new = [activations[0](x + current[0] @ w)]
        elif kind == "GRU":
            new = [_gru(x, current[0], w, rb, activations, hidden, after=after)]
        else:
            p = None if peepholes is None else inner[peepholes.name]
            new = _lstm(x, current[0], current[1], w, p, activations, hidden, node)
        out = new[0]
        if lengths is not None:
            # Steps beyond the end of a sequence keep its state, and are zero in the result.
            ends = inner[lengths.name].cast(TensorProto.INT64).reshape([batch, 1])
            active = ends > place
            new = [active.where(n, old) for n, old in zip(new, current, strict=False)]
            out = active.where(out, 0.0)
        return [*new, *(written(buffer, place, out) for buffer in current[count:])]

    results = repeat(builder, steps, [*state, *collected], iteration)
    return [results[-1], *results[:count]]


def _gates(value: Value, hidden: int, count: int) -> list[Value]:
    return [value.slice(1, i * hidden, (i + 1) * hidden) for i in range(count)]


def _gru(
    x: Value,
    h: Value,
    w: Value,
    bias: Value | None,
    activations: Sequence[Activation],
    hidden: int,
    *,
    after: bool,
) -> Value:
    """A step of a GRU; gates are update, reset, hidden."""
    f, g = activations
    xz, xr, xh = _gates(x, hidden, 3)
    wz, wr, wh = _gates(w, hidden, 3)
    rz, rr = h @ wz, h @ wr
    bh: Value | None = None
    if bias is not None:
        bz, br, bh = (bias.slice(0, i * hidden, (i + 1) * hidden) for i in range(3))
        rz, rr = rz + bz, rr + br
    z, r = f(xz + rz), f(xr + rr)
    if after:
        rh = h @ wh
        candidate = g(xh + r * (rh if bh is None else rh + bh))
    else:
        rh = (r * h) @ wh
        candidate = g(xh + (rh if bh is None else rh + bh))
    return (1.0 - z) * candidate + z * h


def _lstm(
    x: Value,
    h: Value,
    c: Value,
    w: Value,
    peepholes: Value | None,
    activations: Sequence[Activation],
    hidden: int,
    node: Node,
) -> list[Value]:
    """A step of an LSTM; gates are input, output, forget, cell."""
    f, g, last = activations
    i, o, forget, cell = _gates(x + h @ w, hidden, 4)
    pi = po = pf = None
    if peepholes is not None:
        pi, po, pf = (peepholes.slice(0, k * hidden, (k + 1) * hidden) for k in range(3))
    opened = f(i if pi is None else i + pi * c)
    if node.attribute("input_forget", 0):
        kept = 1.0 - opened
    else:
        kept = f(forget if pf is None else forget + pf * c)
    new = kept * c + opened * g(cell)
    shown = f(o if po is None else o + po * new)
    return [shown * last(new), new]
