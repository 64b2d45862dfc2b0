"""Scan, and the results that a Loop collects, as state of a Loop; conditions of a Loop.

IREE 3.13 has no lowering for Scan, takes a Loop's state alone, and ignores its condition. A
collected result becomes a tensor of the state that each iteration writes one element of; a state
stays as it is once the condition has failed:

    ys = Scan(xs){ y = f(x) }    becomes    ys = Loop(zeros){ ys[i] = f(xs[i]) }
    s = Loop(s){ s = f(s), c(s) }  becomes  s, h = Loop(s, true){ s = h ? f(s) : s, h & c(s) }
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from mlirfuse.frontends.onnx_repairs.builder import Builder, Node
from mlirfuse.frontends.onnx_repairs.rewrite import Scope, live, walk
from mlirfuse.frontends.onnx_repairs.values import (
    Refused,
    Unsupported,
    Value,
    numpy_type,
    type_proto,
)

MAX_TRIPS = 1 << 20
"""Most iterations of a Loop with a condition, whose later iterations change nothing."""

Body = Callable[[Builder, Value, Sequence[Value]], Sequence[Value]]
"""Builds the next state into a graph, from the number of the iteration and the state."""


def repeat(builder: Builder, count: int | Value, state: Sequence[Value], body: Body) -> list[Value]:
    """A loop whose number of iterations is known before it.

    Args:
      builder: takes the loop.
      count: number of iterations.
      state: the state before the first one.
      body: builds an iteration; element types and shapes of the state stay.
    """
    child = Builder(builder.opsets, builder.repairs, builder)
    step = child.declare(builder.fresh("step"), type_proto(TensorProto.INT64, ()))
    held = child.declare(builder.fresh("held"), type_proto(TensorProto.BOOL, ()))
    formals = [
        child.declare(builder.fresh("state"), type_proto(value.dtype, value.shape))
        for value in state
    ]
    outputs = []
    for value in (held, *body(child, step, formals)):
        name = builder.fresh("next")
        child.nodes.append(onnx.helper.make_node("Identity", [value.name], [name]))
        outputs.append(onnx.helper.make_value_info(name, type_proto(value.dtype, value.shape)))
    graph = onnx.helper.make_graph(
        live(child.nodes, {value.name for value in outputs}),
        "body",
        [
            onnx.helper.make_value_info(value.name, type_proto(value.dtype, value.shape))
            for value in (step, held, *formals)
        ],
        outputs,
    )
    graph.value_info.extend(child.infos(graph))
    results = [builder.fresh("Loop") for _ in state]
    node = onnx.helper.make_node("Loop", [], results, builder.location, body=graph)
    types = [type_proto(value.dtype, value.shape) for value in state]
    trips = count if isinstance(count, Value) else builder.constant(np.array(count, np.int64))
    made = builder.emit_node(node, [trips, builder.constant(np.array(True)), *state], types)
    return [value for value in made if value is not None]


def written(buffer: Value, step: Value, row: Value) -> Value:
    """The buffer with a row of its first axis replaced."""
    index = step.reshape([1, 1])
    return buffer.builder.add("ScatterND", buffer, index, row.unsqueeze(0))


def zeros(builder: Builder, dtype: int, shape: Sequence[int]) -> Value:
    """A tensor of zeros."""
    return builder.constant(np.zeros((), numpy_type(dtype))).expand(list(shape))


def loop(node: Node) -> list[Value | None] | None:
    """A Loop that collects results, whose number, that of its iterations, their types know."""
    builder, body = node.builder, node.attribute("body")
    states = [value for value in node.inputs[2:] if value is not None]
    collected = len(body.output) - 1 - len(states)
    if not collected:
        return None if _always_holds(node) else _conditional(node, states)
    zero = builder.constant(np.array(0, np.int64))
    held = builder.constant(np.array(True))
    _, *probe = _results(builder, node, [zero, held, *states], [])
    buffers, count = [], 0
    for index, row in enumerate(probe[len(states) :]):
        shape = node.result_shape(len(states) + index) or (None,)
        known = _trips(node) if shape[0] is None else shape[0]
        if known is None:
            raise Unsupported("the number of iterations is not known")
        count = known
        sizes = row.static if None in shape else [int(size or 0) for size in shape[1:]]
        buffers.append(zeros(builder, row.dtype, (count, *sizes)))

    def iteration(child: Builder, step: Value, state: Sequence[Value]) -> list[Value]:
        # The condition holds in each iteration.
        held = child.constant(np.array(True))
        _, *results = _results(child, node, [step, held, *state[: len(states)]], [])
        rows = zip(state[len(states) :], results[len(states) :], strict=True)
        return [
            *map(_fitted, results, states),
            *(written(buffer, step, row.reshape(buffer.static[1:])) for buffer, row in rows),
        ]

    return list(repeat(builder, count, [*states, *buffers], iteration))


def _trips(node: Node) -> int | None:
    """The number of iterations of a Loop that its condition does not end; None if not known."""
    trips = node.known(0)
    return None if trips is None or not _always_holds(node) else int(trips.item())


def _always_holds(node: Node) -> bool:
    """Whether the condition of a Loop is true before it and after each iteration."""
    first = node.input(1)
    if first is not None and (first.array is None or not first.array.all()):
        return False
    body: onnx.GraphProto = node.attribute("body")
    made = {name: inner for inner in body.node for name in inner.output}
    name = body.output[0].name
    while name in made and made[name].op_type == "Identity":
        name = made[name].input[0]
    if name in made:
        constant = made[name].op_type == "Constant" and made[name].attribute[0]
        return bool(constant and constant.name == "value" and numpy_helper.to_array(constant.t))
    own = {tensor.name: bool(numpy_helper.to_array(tensor)) for tensor in body.initializer}
    outer = node.scope.get(name)
    return name == body.input[1].name or own.get(
        name, outer is not None and outer.array is not None and bool(outer.array)
    )


def _conditional(node: Node, states: Sequence[Value]) -> list[Value | None]:
    """A Loop that goes on to its last iteration, without effect once its condition has failed.

    Raises:
      Refused: nothing but the condition ends it.
    """
    builder, trips, first = node.builder, node.input(0), node.input(1)
    if trips is None or (trips.array is not None and trips.array > MAX_TRIPS):
        raise Refused("IREE ignores the condition of a Loop, and only the condition ends this one")
    goes_on = builder.constant(np.array(True)) if first is None else first.reshape([])

    def iteration(child: Builder, step: Value, state: Sequence[Value]) -> list[Value]:
        goes_on, *before = state
        held = child.constant(np.array(True))
        condition, *results = _results(child, node, [step, held, *before], [])
        pairs = zip(results, before, strict=True)
        return [
            goes_on & condition.reshape([]),
            *(goes_on.where(_fitted(result, state), state) for result, state in pairs),
        ]

    _, *results = repeat(builder, trips.reshape([]), [goes_on, *states], iteration)
    return list(results)


def _fitted(value: Value, state: Value) -> Value:
    """A next state whose shape is less known than that of the state."""
    if value.shape == state.shape or state.shape is None:
        return value
    known = zip(value.sizes, state.sizes, strict=False)
    if value.rank != state.rank or any(a is not None and a != b for a, b in known):
        raise Unsupported("the shape of the state changes")
    return value.reshape(state.static)


def scan(node: Node) -> list[Value | None]:
    """Scan as a Loop over the first axes."""
    builder = node.builder
    count = node.attribute("num_scan_inputs")
    body: onnx.GraphProto = node.attribute("body")
    given = [value for value in node.inputs if value is not None]
    if len(given) != len(body.input):
        raise Unsupported("Scan of operator set 8")
    states, scanned = given[: len(given) - count], given[len(given) - count :]
    collected = len(body.output) - len(states)
    axes = node.attribute("scan_input_axes") or [0] * count
    backwards = node.attribute("scan_input_directions") or [0] * count
    out_axes = node.attribute("scan_output_axes") or [0] * collected
    out_backwards = node.attribute("scan_output_directions") or [0] * collected
    moved = [_moved(value, axis, 0) for value, axis in zip(scanned, axes, strict=True)]
    length = moved[0].static[0]
    probe = _results(builder, node, states, [value.take(0, 0) for value in moved])
    buffers = [zeros(builder, v.dtype, (length, *v.static)) for v in probe[len(states) :]]

    def iteration(child: Builder, step: Value, state: Sequence[Value]) -> list[Value]:
        rows = []
        for value, reverse in zip(moved, backwards, strict=True):
            inner = dataclasses.replace(value, builder=child)
            rows.append(inner.take(length - 1 - step if reverse else step, 0))
        results = _results(child, node, state[: len(states)], rows)
        for buffer, row, reverse in zip(
            state[len(states) :], results[len(states) :], out_backwards, strict=True
        ):
            place = length - 1 - step if reverse else step
            results.append(written(buffer, place, row))
        return [*results[: len(states)], *results[len(states) + collected :]]

    results = repeat(builder, length, [*states, *buffers], iteration)
    stacked = [
        _moved(value, 0, axis) for value, axis in zip(results[len(states) :], out_axes, strict=True)
    ]
    return [*results[: len(states)], *stacked]


def _results(
    builder: Builder, node: Node, states: Sequence[Value], rows: Sequence[Value]
) -> list[Value]:
    """The results of the body of a Loop or Scan, whose nodes are built into a graph."""
    body: onnx.GraphProto = node.attribute("body")
    scope: Scope = {
        name: value and dataclasses.replace(value, builder=builder)
        for name, value in node.scope.items()
    }
    for tensor in body.initializer:
        scope[tensor.name] = builder.constant(numpy_helper.to_array(tensor))
    scope |= dict(zip((value.name for value in body.input), (*states, *rows), strict=True))
    walk(builder, body.node, scope, {})
    return [value for name in (v.name for v in body.output) if (value := scope[name]) is not None]


def _moved(value: Value, source: int, target: int) -> Value:
    order = list(range(value.rank))
    order.insert(target % value.rank, order.pop(source % value.rank))
    return value.transpose(order)
