"""Sorts whole rows in registers by a bitonic network, with the index in the low bits of each key.

No two keys are equal then, so the order is stable. For few of the elements a partial selection
keeps the first ones of each part.
"""

from __future__ import annotations

import math

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import POINTERS
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.kernels.sort import heuristics
from mlirfuse.kernels.sort.analysis import KEY_BITS, SortAnalysis, problem_of
from mlirfuse.kernels.sort.problem import SortConfig
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

ENTRY = "sort_kernel"

_INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000}
"""Element type -> the bits of infinity; those of NaN, without the sign, are greater."""


def plan(analysis: SortAnalysis, config: SortConfig, target: Target) -> Plan | NoMatch:
    """Plans the kernel of a sort, or gives the reason why there is none."""
    source, result = analysis.order.source, analysis.order.root.results[0]
    longest = heuristics.max_columns(KEY_BITS[ops.element_type(source)], target)
    if analysis.columns > longest:
        return NoMatch(
            Reason.STRUCTURE, f"rows of {analysis.columns} elements, the limit is {longest}"
        )
    arguments = (
        ("x0", POINTERS[ops.element_type(source)]),
        ("y0", POINTERS[ops.element_type(result)]),
    )
    note = f"Rows of {analysis.block_columns}, {config.block_rows} at a time."
    text = text_of(ENTRY, arguments, _lines(analysis, config.block_rows), note)
    program = Program(ENTRY, text, arguments, config.num_warps, 1)
    grid = (Extent(analysis.rows, config.block_rows), Extent(1), Extent(1))
    return Plan(program, (source,), (result,), grid, problem=problem_of(analysis))


def _lines(analysis: SortAnalysis, rows: int) -> list[str]:
    """The body of the kernel."""
    columns, order = analysis.block_columns, analysis.order
    shape = tuple(size or 0 for size in ops.shape(order.root.results[0]))
    axes = range(len(analysis.sizes))
    given = [_stride(analysis.sizes, n) for n in axes]
    written = [_stride(shape, order.axes[n]) for n in axes]
    # A network of exchanges has at least two elements.
    kept = min(columns, max(2, power_of_two(order.count)))
    inside = f"(row < {analysis.rows})"
    chosen = "tl.sort(packed)" if kept == columns else f"~tl.topk(~packed, {kept})"
    index = f"({chosen} & {columns - 1}).to(tl.int32)"
    return [
        f"row = tl.program_id(0) * {rows} + tl.arange(0, {rows})[:, None]",
        f"column = tl.arange(0, {columns})[None, :]",
        f"inside = {inside} & (column < {analysis.columns})",
        f"x = tl.load(x0 + {_offset(analysis, given, 'column')}, mask=inside, other=0)",
        *_keys(ops.element_type(order.source), descending=order.descending),
        *_packed(analysis),
        f"index = {index}",
        f"place = tl.arange(0, {kept})[None, :]",
        f"written = {inside} & (place < {order.count})",
        f"tl.store(y0 + {_offset(analysis, written, 'place')}, index, mask=written)",
    ]


def _stride(sizes: tuple[int, ...], dimension: int) -> int:
    return math.prod(sizes[dimension + 1 :])


def _offset(analysis: SortAnalysis, strides: list[int], column: str) -> str:
    """The offset of an element of a row in a tensor with these strides."""
    terms = [f"{column} * {strides[analysis.order.dimension]}"]
    inner = 1
    for n in reversed(range(len(strides))):
        if n != analysis.order.dimension:
            terms.append(f"row // {inner} % {analysis.sizes[n]} * {strides[n]}")
            inner *= analysis.sizes[n]
    return " + ".join(terms)


def _keys(kind: str, *, descending: bool) -> list[str]:
    """The lines that compute integers in the order of the elements."""
    bits = KEY_BITS[kind]
    lines = ["key = x"]
    if not kind.startswith("i"):
        most = 2 ** (bits - 1) - 1
        lines = [
            f"key = x.to(tl.int{bits}, bitcast=True).to(tl.int32)",
            f"size = key & {most}",
            # A negative zero gets the key of zero, as the negative of its size.
            "key = tl.where(key < 0, -size, size)",
            f"key = tl.where(size > {_INFINITY[kind]}, {most}, key)",
        ]
    return [*lines, "key = ~key"] if descending else lines


def _packed(analysis: SortAnalysis) -> list[str]:
    """The lines that put the index below each key; what is not in the row comes last."""
    columns, wide = analysis.block_columns, f"tl.int{analysis.packed_bits}"
    most = 2 ** (KEY_BITS[ops.element_type(analysis.order.source)] - 1) - 1
    return [
        f"key = tl.where(column < {analysis.columns}, key.to({wide}), {most})",
        f"packed = key.to({wide}) * {columns} + column",
    ]
