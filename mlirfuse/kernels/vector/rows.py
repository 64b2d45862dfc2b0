"""Groups that reduce rows or columns: norms, softmax, sums and extremes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.tile_writer import attempted, computing, returned
from mlirfuse.kernels.vector import column_kernel, row_kernel, row_split, short_rows, stages
from mlirfuse.kernels.vector.column_layout import layout
from mlirfuse.kernels.vector.memory import ELEMENT_TYPES
from mlirfuse.kernels.vector.row_analysis import analyze, reducing
from mlirfuse.kernels.vector.stages import Stages
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

EXPONENTIAL_REGISTERS = 32
"""Vector registers from which on the kernel of a softmax in IREE's tiles is not slower than these.
Measured on a Zen 4 with two threads, and not explained: softmax of 1536x128 takes 75 us with AVX2,
whose registers are 16, IREE's code 70; with AVX-512, whose are 32, they take 56 and 57."""


def plan(region: ir.Operation, device: CpuDevice) -> Stages | NoMatch | None:
    """Plans the kernel of a region that reduces rows; None for a region without reductions."""
    return plan_group(computing(region), returned(region), device, list(region.operands))


def plan_group(
    group: Sequence[ir.Operation],
    results: Sequence[ir.Value],
    device: CpuDevice,
    sizes: Sequence[ir.Value] = (),
) -> Stages | NoMatch | None:
    """Plans the kernel of ops that reduce; None for ops without reductions.

    Args:
      group: the ops, in block order.
      results: the values of which a region of them has results.
      device: the CPU.
      sizes: the dynamic sizes of the results.
    """
    generics = [op for op in group if ops.is_generic(op)]
    if not reducing(generics) or any(map(ops.is_contraction, group)):
        return None
    if len(generics) != len(group):
        other = next(op for op in group if op not in generics)
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(other)}")
    if sizes or any(None in ops.loop_sizes(op) for op in group):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel's sizes are static")
    return attempted(lambda: _plan(group, results, device), "rows and columns")


def replace(region: ir.Operation, kernels: Stages) -> ir.Operation:
    """Replaces a region by calls of its kernels; returns the last one."""
    return stages.replace(region, kernels)


def _plan(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], device: CpuDevice
) -> Stages | NoMatch:
    if any(0 in ops.loop_sizes(op) for op in group):
        raise Unsupported("an empty tensor")
    made = {value for op in group for value in op.results}
    if not set(results) <= made:
        raise Unsupported("a result that no op of the region computes")
    for value in results:
        if ops.element_type(value) not in ELEMENT_TYPES:
            raise Unsupported(f"a result of {ops.element_type(value)}")
    analysis = analyze(group, results)
    kept = None if analysis.by_lanes else layout(analysis)
    if kept is not None:
        found = column_kernel.kernels(analysis, kept, "columns", device)
        detail = f"few reductions of {kept.extent} contiguous elements"
        return found or NoMatch(Reason.NOT_PROFITABLE, detail)
    if analysis.by_lanes and device.num_registers < EXPONENTIAL_REGISTERS:
        return NoMatch(Reason.NOT_PROFITABLE, "IREE's tiles of this softmax are as fast")
    if analysis.segment_axes == len(analysis.column_sizes):
        raise Unsupported("an operand whose columns are not contiguous")
    columns = analysis.contiguous_columns
    # Combining lanes costs more than the work on such rows: lanes are rows there.
    least = (2 if analysis.num_segments == 1 else 1) * device.lanes
    if columns < least:
        if analysis.num_segments == 1 and math.prod(analysis.row_sizes) >= device.lanes:
            return stages.alone(short_rows.kernel(analysis, "short_rows", device))
        detail = f"rows of {columns} columns, fewer than {least}"
        return NoMatch(Reason.NOT_PROFITABLE, detail)
    divided = row_split.kernels(analysis, "rows", device)
    return divided or stages.alone(row_kernel.kernel(analysis, "rows", device))
