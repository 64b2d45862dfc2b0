"""Indices along the dimensions of a tensor, as functions of the axes of an iteration space.

(0, 2)                          the index of axis 2 of group 0
Shifted((0, 2), -1, 2999)       2999 minus it: a flip
Shifted(None, 0, 4)             element 4
Named("v7")                     computed in the kernel: a gather
None                            element 0
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.iteration_space import Axis
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class Shifted:
    """An index that is linear in one axis: `axis * step + start`.

    Attributes:
      axis: the axis; None for a constant index.
      step: its factor, not zero unless the index is constant.
      start: the index where the axis is 0.
    """

    axis: Axis | None
    step: int
    start: int


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """An index that the kernel computes.

    Attributes:
      text: its name, or an expression of names in parentheses.
    """

    text: str


Index = Axis | Shifted | Named | None
"""An index along one dimension of a tensor."""


def parts(index: Index) -> tuple[Axis | None, int, int]:
    """Axis, step and start of an index that is not `Named`."""
    assert not isinstance(index, Named)
    if isinstance(index, Shifted):
        return index.axis, index.step, index.start
    return index, int(index is not None), 0


def linear(index: Index, step: int, start: int) -> Index:
    """The index times `step`, plus `start`."""
    if isinstance(index, Named):
        return index if (step, start) == (1, 0) else Named(f"({index.text} * {step} + {start})")
    axis, own_step, own_start = parts(index)
    step, start = own_step * step, own_start * step + start
    if axis is None or step == 0:
        return Shifted(None, 0, start) if start else None
    return axis if (step, start) == (1, 0) else Shifted(axis, step, start)


def axis_of(index: Index) -> Axis | None:
    """The axis that an index is linear in; None for a constant and a computed one."""
    return None if isinstance(index, Named) else parts(index)[0]


def of_scalar(value: ir.Value, loops: Sequence[Index], names: Callable[[ir.Value], str]) -> Index:
    """The index that a value of a scalar body is.

    Args:
      value: a value of type `index` or an integer in the body.
      loops: the index along each loop of the op.
      names: the name of a value that the kernel computes.
    """
    op = ops.defining_op(value)
    number = ops.constant(value)
    if isinstance(number, int):
        return linear(None, 0, number)
    if op is not None and op.name == "linalg.index":
        return loops[int(op.attributes["dim"].value)]
    if op is not None and op.name in ("arith.addi", "arith.subi", "arith.muli"):
        found = _arithmetic(op, loops, names)
        if found is not None:
            return found
    return Named(names(value))


def _arithmetic(
    op: ir.Operation, loops: Sequence[Index], names: Callable[[ir.Value], str]
) -> Index | None:
    """A sum, difference or product of a linear index and a constant; None for others."""
    first, second = op.operands
    left, right = ops.constant(first), ops.constant(second)
    if isinstance(right, int) and not isinstance(left, int):
        index = of_scalar(first, loops, names)
        if isinstance(index, Named):
            return None
        step, start = {
            "arith.addi": (1, right),
            "arith.subi": (1, -right),
            "arith.muli": (right, 0),
        }[op.name]
        return linear(index, step, start)
    if isinstance(left, int) and not isinstance(right, int):
        index = of_scalar(second, loops, names)
        if isinstance(index, Named):
            return None
        step, start = {
            "arith.addi": (1, left),
            "arith.subi": (-1, left),
            "arith.muli": (left, 0),
        }[op.name]
        return linear(index, step, start)
    return None


def sliced(cut: ir.Operation, index: Sequence[Index]) -> tuple[Index, ...] | None:
    """The index in the source of a static `tensor.extract_slice`; None for a dynamic one.

    Args:
      cut: the slice, which may drop dimensions of size one.
      index: the index in the slice.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    offsets, sizes, strides = (
        [int(n) for n in cut.attributes[f"static_{name}"]]
        for name in ("offsets", "sizes", "strides")
    )
    if dynamic in offsets or dynamic in strides:
        return None
    kept = ops.kept_dimensions(
        [None if n == dynamic else n for n in sizes], ops.shape(cut.results[0])
    )
    found: list[Index] = []
    for dim, (offset, stride) in enumerate(zip(offsets, strides, strict=True)):
        inner = index[kept.index(dim)] if dim in kept else None
        found.append(linear(inner, stride, offset))
    return tuple(found)
