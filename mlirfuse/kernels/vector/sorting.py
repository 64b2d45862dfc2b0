"""Sorts of rows: the form of the kernel, by the number of rows, their length and what is kept."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.vector import (
    executable,
    merge_sort,
    network_sort,
    radix_sort,
    row_insertion,
    row_selection,
)
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.memory import ELEMENT_TYPES
from mlirfuse.kernels.vector.merge_network import comparators
from mlirfuse.kernels.vector.row_sort import RowSort, SortOutput, View
from mlirfuse.kernels.vector.sort_keys import INFINITY, INTEGERS, Key
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.sorts import Sort
from mlirfuse.targets.base import CpuDevice


def plan(found: Sort, device: CpuDevice) -> VectorKernel | NoMatch:
    """Plans the kernel of a sort, or gives the reason why there is none."""
    key = _key(found)
    if isinstance(key, NoMatch):
        return key
    for value in (found.source, *(one.value for one in found.results)):
        if ops.element_type(value) not in ELEMENT_TYPES:
            return NoMatch(Reason.ELEMENT_TYPE, f"a tensor of {ops.element_type(value)}")
    sizes = tuple(size or 0 for size in ops.shape(found.source))
    if 0 in sizes or not found.count:
        return NoMatch(Reason.NOT_PROFITABLE, "a sort of no elements")
    if ops.num_elements(found.source) >= MAX_INDEX:
        return NoMatch(Reason.STRUCTURE, "a sort of more elements than 32-bit offsets have")
    source = _view(found.source)
    outputs = tuple(
        SortOutput(
            View.of(one.value, one.axes),
            None if one.payload is None else _view(one.payload),
        )
        for one in found.results
    )
    problem = RowSort(sizes, found.dimension, found.count, key, source, outputs)
    return attempted(lambda: _kernel(problem, device), "rows")


def replace(region: ir.Operation, kernel: VectorKernel) -> ir.Operation:
    """Replaces a region by a call of its kernel; returns the call."""
    return executable.replace(region, kernel, {})


def _key(found: Sort) -> Key | NoMatch:
    """The key of an element."""
    order, element = found.comparator, ops.element_type(found.source)
    key = Key(element, order.descending, order.signed, order.function)
    compared = element if order.function is None else str(order.function[2].type)
    if compared not in INTEGERS and compared not in INFINITY:
        return NoMatch(Reason.ELEMENT_TYPE, f"a sort of {compared}")
    return key


def _view(value: ir.Value) -> View:
    """A tensor in memory: that of which it is a transpose, where it is one."""
    op, axes = ops.defining_op(value), list(range(len(ops.shape(value))))
    while op is not None and ops.is_projection(op) and None not in ops.indexing_maps(op):
        read, written = ops.plain_maps(op)
        if sorted(map(str, read)) != sorted(map(str, written)) or None in read:
            break
        axes = [read.index(written[axis]) for axis in axes]
        value = op.operands[0]
        op = ops.defining_op(value)
    return View.of(value, axes)


def _kernel(problem: RowSort, device: CpuDevice) -> VectorKernel:
    """Writes the kernel in the form that is modelled to be the fastest."""
    lanes = network_sort.lanes(problem, device)
    rows, groups = (-(-n // device.cores) for n in (problem.rows, -(-problem.rows // lanes)))
    forms: list[tuple[float, Callable[[RowSort, str, CpuDevice], VectorKernel]]]
    forms = [(rows * radix_sort.cycles(problem, problem.columns), radix_sort.kernel)]
    if row_selection.selects(problem):
        forms.append((rows * row_selection.cycles(problem, device), row_selection.kernel))
    if row_insertion.selects(problem, device):
        forms.append((rows * row_insertion.cycles(problem, device), row_insertion.kernel))
    if problem.is_packed and _has_network(problem):
        forms.append((groups * network_sort.cycles(problem, device), network_sort.kernel))
    elif problem.is_packed and merge_sort.held_bytes(problem, device) <= device.l2_bytes // 2:
        forms.append((groups * merge_sort.cycles(problem, device), merge_sort.kernel))
    _, write = min(forms, key=lambda form: form[0])
    return write(problem, "sort", device)


def _has_network(problem: RowSort) -> bool:
    """Whether a row can be sorted by a network that is written out."""
    limit = merge_sort.MAX_NETWORK_EXCHANGES
    if problem.columns > limit:
        return False
    return len(comparators(problem.columns, problem.count)) <= limit
