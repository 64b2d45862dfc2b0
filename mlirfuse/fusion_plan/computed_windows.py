"""Writes convolutions and poolings that compute the position of each element they read.

    %y = linalg.generic ins(%w) {
      %i = linalg.index, ...                    // position in the image, from output and filter tap
      %x = tensor.extract %image[clamped %i]
      select (%i inside), %x, padding
    }

There is no padded copy of the image and no transposed operand, so that one kernel is left of any
stride, dilation, padding, grouping and of transposed convolutions. The elements are gathered: where
another form is one kernel too, that one is faster.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlirfuse.fusion_plan import ops
from mlirfuse.fusion_plan.chain import Chain, loops
from mlirfuse.fusion_plan.image_ops import averaged, scaled, split
from mlirfuse.fusion_plan.mlir_text import Body, Read, Tensor
from mlirfuse.fusion_plan.tensors import TensorSpec


@dataclasses.dataclass(frozen=True, slots=True)
class _Index:
    """Arithmetic on values of type index in a body."""

    body: Body

    def constant(self, value: int) -> str:
        return self.body.line(f"arith.constant {value} : index")

    def op(self, name: str, left: str, right: str | int) -> str:
        other = self.constant(right) if isinstance(right, int) else right
        return self.body.op(f"arith.{name}", left, other, dtype="index")

    def scaled(self, value: str, factor: int) -> str:
        return value if factor == 1 else self.op("muli", value, factor)

    def compare(self, predicate: str, left: str, right: int) -> str:
        return self.body.line(f"arith.cmpi {predicate}, {left}, {self.constant(right)} : index")


def _position(
    index: _Index, geometry: ops.Geometry, axis: int, out: str, tap: str, transposed: bool
) -> tuple[str, list[str]]:
    """The position of an element along a spatial dimension, and what has to hold for it to exist.

    Args:
      index: writes the arithmetic.
      geometry: the windows.
      axis: the spatial dimension, counted from the first one.
      out: index of the output.
      tap: index of the filter.
      transposed: whether the window is one of the output.
    """
    stride, padding = geometry.stride[axis], geometry.padding[axis]
    reach = index.scaled(tap, geometry.dilation[axis])
    if not transposed:
        found = index.op("addi", index.scaled(out, stride), reach)
        return (index.op("subi", found, padding) if padding else found), []
    found = index.op("subi", index.op("addi", out, padding) if padding else out, reach)
    if stride == 1:
        return found, []
    # A negative number is divided towards zero, and would count as inside.
    exists = [
        index.compare("eq", index.op("remsi", found, stride), 0),
        index.compare("sge", found, 0),
    ]
    return index.op("divsi", found, stride), exists


def _element(
    b: Body,
    image: Tensor,
    given: TensorSpec,
    op: ops.ConvForward | ops.Pool,
    indices: Mapping[str, str],
    outside: float,
) -> str:
    """The element of the image for an output and a tap, as f32; `outside` where there is none.

    Args:
      b: the body.
      image: the tensor.
      given: its description.
      op: the op.
      indices: batch `n` and channel `c` of the element, outputs `o0`, ... and taps `k0`, ...
      outside: the value of the padding.
    """
    index = _Index(b)
    geometry = ops.Geometry.of(op, given)
    transposed = isinstance(op, ops.ConvForward) and op.is_transposed
    needed: list[str] = []
    at = {0: indices["n"], given.channel_axis: indices["c"]}
    for i, axis in enumerate(given.spatial_axes):
        out, tap = indices[f"o{i}"], indices[f"k{i}"]
        found, exists = _position(index, geometry, i, out, tap, transposed)
        size = given.shape[axis]
        needed += [*exists, index.compare("sge", found, 0), index.compare("slt", found, size)]
        at[axis] = index.op("minsi", index.op("maxsi", found, 0), size - 1)
    inside = needed[0]
    for condition in needed[1:]:
        inside = b.op("arith.andi", inside, condition, dtype="i1")
    listed = ", ".join(at[axis] for axis in range(given.rank))
    value = b.line(f"tensor.extract {image.name}[{listed}] : {image.type}")
    return b.select(inside, b.widened(value, image.dtype), b.constant(outside))


def _indices(b: Body, names: Sequence[str]) -> dict[str, str]:
    return {name: b.line(f"linalg.index {i} : index") for i, name in enumerate(names)}


def _conv(chain: Chain, op: ops.ConvForward, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    chain.flush(given.dtype)
    m, image, groups = chain.module, chain.value, op.groups
    rank, axis = len(given.spatial_axes), given.channel_axis
    output = op.derive(given).output
    last = given.layout.endswith("C")
    outs, taps = [f"o{i}" for i in range(rank)], [f"k{i}" for i in range(rank)]
    weights, shape = own["weights"], output.shape
    group = ["g"] if groups > 1 else []
    if group:
        weights = m.reshaped(weights, *split(weights.shape, 0, groups))
        shape = split(output.shape, axis, groups)[1]
    outer, inner = ("c", "f") if op.is_transposed else ("f", "c")
    w = (*group, outer, *taps, inner) if last else (*group, outer, inner, *taps)
    y = ("n", *outs, *group, "f") if last else ("n", *group, "f", *outs)
    reduced = [*taps, "c"] if last else ["c", *taps]
    names = [*y, *reduced]
    part = given.channels // groups

    def body(b: Body, values: list[str], sums: list[str]) -> Sequence[str]:
        indices = _indices(b, names)
        if group:
            index = _Index(b)
            indices["c"] = index.op("addi", index.scaled(indices["g"], part), indices["c"])
        x = _element(b, image, given, op, indices, 0.0)
        return (b.op("arith.addf", sums[0], b.op("arith.mulf", x, values[0])),)

    init = Read(m.filled(0.0, shape), y)
    (made,) = m.generic(names, reduced, [Read(weights, w)], [init], body)
    if group:
        made = m.reshaped(made, split(output.shape, axis, groups)[0], output.shape)
    scaled(chain, made, own["alpha"])


def _pool(chain: Chain, op: ops.Pool, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    chain.flush(given.dtype)
    m, image = chain.module, chain.value
    geometry = ops.Geometry.of(op, given)
    output = op.derive(given).output
    outputs = loops(given.rank)
    taps = [f"k{i}" for i in range(len(given.spatial_axes))]
    largest = op.mode == "max"
    outside = -math.inf if largest else 0.0
    combine = "arith.maximumf" if largest else "arith.addf"
    roles = {0: "n", given.channel_axis: "c"}
    roles |= {axis: f"o{i}" for i, axis in enumerate(given.spatial_axes)}
    names = [*(roles[axis] for axis in range(given.rank)), *taps]

    def body(b: Body, values: list[str], sums: list[str]) -> Sequence[str]:
        x = _element(b, image, given, op, _indices(b, names), outside)
        return (b.op(combine, sums[0], x),)

    init = Read(m.filled(outside, output.shape), tuple(outputs))
    window = Read(m.empty(geometry.kernel), tuple(taps))
    (made,) = m.generic([*outputs, *taps], taps, [window], [init], body)
    chain.become(made)
    averaged(chain, op, given)


WRITERS: Mapping[str, Any] = {"conv_forward": _conv, "pool": _pool}
