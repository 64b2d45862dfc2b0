"""The dynamic sizes that a kernel has as arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import Axis
from mlirfuse.kernels.plan import Size
from mlirfuse.structured.ir import ops


def dynamic_sizes(
    values: Sequence[ir.Value], axes: Mapping[ir.Value, Sequence[Axis | None]], may: Sequence[Axis]
) -> tuple[Size, ...]:
    """The dynamic sizes of a kernel, in the order of its axes.

    Args:
      values: operands and results of the kernel.
      axes: value -> the axis along each of its dimensions.
      may: the axes that may be dynamic.

    Raises:
      Unsupported: another dimension is dynamic.
    """
    found: dict[Axis, Size] = {}
    for value in values:
        for dim, size in enumerate(ops.shape(value)):
            if size is not None:
                continue
            axis = axes[value][dim] if value in axes else None
            if axis is None or axis not in may:
                raise Unsupported(f"dimension {dim} of {value.type} is dynamic")
            found.setdefault(axis, Size(value, dim))
    return tuple(found[axis] for axis in sorted(found))
