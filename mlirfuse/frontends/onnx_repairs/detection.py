"""NonMaxSuppression as a loop that takes the best box of all batches and classes in each step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Builder, Node
from mlirfuse.frontends.onnx_repairs.indexing import places_of
from mlirfuse.frontends.onnx_repairs.loops import repeat, written, zeros
from mlirfuse.frontends.onnx_repairs.values import Value


def non_max_suppression(node: Node) -> Value:
    """The state of the loop: scores, -inf for boxes that are out, and the boxes that were taken."""
    builder, boxes, scores = node.builder, node.operand(0), node.operand(1)
    batches, classes, count = scores.static
    most = node.input(2)
    steps = 0 if most is None else count
    if most is not None and most.array is not None:
        steps = min(max(int(most.array.reshape(-1)[0]), 0), count)
    least, overlap = node.input(4), node.input(3)
    left = scores if least is None else (scores > least).where(scores, -math.inf)
    corners = _corners(boxes, bool(node.attribute("center_point_box", 0)))
    wide = [corner.unsqueeze(1).expand([batches, classes, count]) for corner in corners]
    if not steps:
        return builder.constant(np.zeros((0, 3), np.int64))

    def step(child: Builder, k: Value, state: Sequence[Value]) -> list[Value]:
        left, taken = state
        best = child.add("ArgMax", left, axis=2, keepdims=1)
        found = left.reduce("ReduceMax", [2], keep=True) > -math.inf
        if most is not None and most.array is None:
            found = found & (k < most.reshape([]))
        chosen = [child.add("GatherElements", corner, best, axis=2) for corner in wide]
        out = _overlap(chosen, wide) > (0.0 if overlap is None else overlap)
        out = (out | best.equals(np.arange(count))) & found
        return [out.where(-math.inf, left), written(taken, k, found.where(best, -1).squeeze(2))]

    start = zeros(builder, TensorProto.INT64, (steps, batches, classes))
    _, taken = repeat(builder, steps, [left, start], step)
    box = taken.transpose([1, 2, 0]).reshape([-1])
    grids = np.indices((batches, classes, steps), np.int64)[:2].reshape(2, -1)
    rows = builder.add(
        "Concat", *(builder.constant(g).unsqueeze(1) for g in grids), box.unsqueeze(1), axis=1
    )
    shape = node.result_shape()
    return rows.take(places_of(box >= 0, None if shape is None else shape[0]), 0)


def _corners(boxes: Value, has_centers: bool) -> list[Value]:
    """The least and the largest coordinates: two of one axis, two of the other."""
    first, second, third, fourth = (boxes.take(k, 2) for k in range(4))
    if has_centers:
        ends = [(first - third / 2.0, first + third / 2.0)]
        ends.append((second - fourth / 2.0, second + fourth / 2.0))
    else:
        ends = [(first, third), (second, fourth)]
    add = boxes.builder.add
    return [add(kind, *pair) for pair in ends for kind in ("Min", "Max")]


def _overlap(one: Sequence[Value], other: Sequence[Value]) -> Value:
    """The area of the intersection of boxes over that of their union; 0 for empty boxes."""
    add = one[0].builder.add
    sides, areas = [], []
    for axis in (0, 2):
        low = add("Max", one[axis], other[axis])
        side = add("Min", one[axis + 1], other[axis + 1]) - low
        sides.append((side > 0.0).where(side, 0.0))
        areas.append([box[axis + 1] - box[axis] for box in (one, other)])
    common = sides[0] * sides[1]
    union = areas[0][0] * areas[1][0] + areas[0][1] * areas[1][1] - common
    return (common > 0.0).where(common / union, 0.0)
