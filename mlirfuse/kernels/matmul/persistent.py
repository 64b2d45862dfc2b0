"""Products whose workgroups stay, on Hopper: which ones there are, and their text.

What they do is in `triton/hopper_products.py`; the epilogue's lines are those of `matmul.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.matmul.tilings import PROGRAMS, SOME_ROWS
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.problem import Problem
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

WARPS = 4
"""Of each group of warps; a kernel is launched with those of all, Triton says how many."""

BLOCK = 64
"""Terms at a time."""

WIDEST = 256
"""Columns of one matrix instruction."""

TOGETHER = 32
"""Columns that are loaded in an order of their own, so that a thread has eight side by side."""

ALIGNED = 8
"""Elements of 16 bits that are loaded at once."""

LONG = frozenset({"math.erf", "math.tanh"})
"""Functions that make the code of an epilogue long."""

_PIECE = 64
"""Columns for which a long epilogue is called."""

LAYOUT = "layout"
"""Name of the layout of the tiles in an epilogue."""

_SHAPES = (
    # height, width, stages, groups, alternate
    (128, 256, 4, 2, 0),
    (192, 128, 5, 3, 0),
    (64, 256, 5, 2, 1),
    (128, 128, 6, 2, 1),
    (64, 128, 8, 3, 1),
)
_LOW_SHAPES = ((64, 128, 8, 2, 1), (64, 64, 12, 2, 1))
"""The same of so few rows that each workgroup has one tile or two."""

_BANDS = (4, 8, 32)


def candidates(
    rows: int, columns: int, depth: int, sums: int, more: Sequence[tuple[int, ...]] = ()
) -> list[MatmulConfig]:
    """The tilings that a search measures, as far as they fit.

    Args:
      rows: of the result.
      columns: the same.
      depth: terms of a sum.
      sums: that a workgroup holds.
      more: shapes beside the usual ones.
    """
    if rows < 128:
        return []
    shapes = (*_SHAPES, *(_LOW_SHAPES if rows < SOME_ROWS else ()), *more)
    return [
        MatmulConfig(height, width // sums, BLOCK, WARPS, stages, band, 1, groups, bool(alternate))
        for height, width, stages, groups, alternate in shapes
        for band in (_BANDS if rows >= SOME_ROWS else _BANDS[:1])
        if fits(width // sums, columns, depth, sums)
    ]


def fits(width: int, columns: int, depth: int, sums: int) -> bool:
    """Whether a product consists of whole tiles and blocks, apart from its rows."""
    whole = width % TOGETHER == 0 and columns % width == 0 and depth % BLOCK == 0
    return sums <= 2 and width * sums <= WIDEST and whole


def reads(value: ir.Value, index_map: ops.IndexMap, term: int) -> bool:
    """Whether an operand can be loaded: its terms side by side, aligned, also in a slice."""
    op = ops.defining_op(value)
    sliced = op is not None and op.name == "tensor.extract_slice"
    boxes = ops.static_slice(op) if op is not None and sliced else None
    size = ops.shape(op.operands[0] if op is not None and sliced else value)[-1]
    return (
        index_map[-1] == term
        and size is not None
        and size % ALIGNED == 0
        and (not sliced or (boxes is not None and boxes[-1][0] % ALIGNED == 0))
    )


def supports(target: Target) -> bool:
    """Whether a target and the Triton that is installed have such kernels."""
    return target.arch == triton_compiler.HOPPER and triton_compiler.has_gluon()


def planned(
    tiles: Tiles,
    entry: str,
    results: Sequence[ir.Value],
    problem: Problem,
    tiling: MatmulConfig,
    operands: tuple[str, Sequence[str]],
    *,
    sizes: tuple[int, int, int],
    step: str,
    begin: Sequence[str],
    at: Sequence[str],
    groups: tuple[int, int],
    parts: tuple[int, int] = (1, 1),
    masked: bool = False,
    long: bool = False,
) -> Plan:
    """The plan of a kernel whose workgroups stay, when its epilogue is written.

    Args:
      tiles: hold the lines of the epilogue.
      entry: the kernel's name.
      results: what it writes.
      problem: the problem that its tiles were chosen by.
      tiling: its tiles.
      operands: names of the left operand and of the right ones.
      sizes: rows, columns and terms.
      step: elements from one column to the next of the right operands.
      begin: the lines of the function `begin` of `hopper_products.products`, of `row`.
      at: those of its function `at`, of `step`.
      groups: of the axes of rows and of columns.
      parts: how many there are, and the sums of each.
      masked: whether terms of the left operand are zero and not in memory.
      long: whether the epilogue has functions that are `LONG`.
    """
    rows, columns, depth = sizes
    count = -(-rows // tiling.block_m) * (columns // tiling.block_n) * parts[0]
    programs = min(PROGRAMS, count)
    shape = (
        tiling.block_m,
        tiling.block_n,
        tiling.num_stages,
        tiling.consumer_warpgroups,
        int(tiling.ping_pong),
    )
    piece = min(_PIECE, tiling.block_n) if long else tiling.block_n
    numbers = (*sizes, step, masked, *parts, *shape, tiling.group_m, programs, piece)
    left, rights = operands
    return staying(
        tiles,
        entry,
        results,
        problem,
        tiling,
        f"Products over {depth} terms, tiles of {tiling.block_m} by {tiling.block_n}.",
        called=("matmul_sm90", "products"),
        functions={"begin(row)": begin, "at(step)": at},
        given=(left, f"({', '.join(rights)},)", OTHERS, "begin", "at", "epilogue"),
        numbers=numbers,
        programs=programs,
        groups=groups,
        sums=parts[1],
    )


OTHERS = "others"
"""What stands for the tuple of a kernel's arguments in its text."""


def staying(
    tiles: Tiles,
    entry: str,
    results: Sequence[ir.Value],
    problem: Problem,
    tiling: MatmulConfig,
    note: str,
    *,
    called: tuple[str, str],
    functions: Mapping[str, Sequence[str]],
    given: Sequence[str],
    numbers: Sequence[object],
    programs: int,
    groups: tuple[int, int],
    sums: int = 1,
) -> Plan:
    """The plan of a kernel in Gluon whose workgroups stay, when its epilogue is written.

    Args:
      tiles: hold the lines of the epilogue.
      entry: the kernel's name.
      results: what it writes.
      problem: the problem that its tiles were chosen by.
      tiling: its tiles.
      note: what it computes, in one line.
      called: the module that computes it, and the function.
      functions: name and arguments -> lines, beside those of the epilogue.
      given: what that function is given, with `OTHERS` for what the epilogue is given beside.
      numbers: of its shape.
      programs: workgroups.
      groups: of the axes of rows and of columns.
      sums: of a tile.
    """
    return tiles.plan(
        entry,
        [*_start(tiles.space.inside(*groups), sums), *tiles.body.lines],
        results,
        note,
        grid=(Extent(programs), Extent(1), Extent(1)),
        problem=problem,
        first=(groups[0], 0),
        num_warps=tiling.num_warps,
        text=functools.partial(
            _text,
            called=called,
            functions=functions,
            given=given,
            numbers=", ".join(map(str, numbers)),
        ),
    )


def _start(inside: Sequence[str], totals: int) -> list[str]:
    """The lines before an epilogue.

    Args:
      inside: those that compute which rows there are.
      totals: sums that it is given.
    """
    return [
        *(f"total{n} = totals[{n}]" for n in range(totals)),
        f"{LAYOUT}: gl.constexpr = total0.type.layout",
        "batch = 0",
        *inside,
    ]


_HEAD = """\
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from mlirfuse.kernels.device import {}, library


"""


def _text(
    entry: str,
    arguments: Sequence[tuple[str, str]],
    lines: Sequence[str],
    note: str,
    *,
    called: tuple[str, str],
    functions: Mapping[str, Sequence[str]],
    given: Sequence[str],
    numbers: str,
) -> str:
    """The module of a kernel: its epilogue, the other functions, and the call."""
    names = ", ".join(name for name, _ in arguments)
    module, function = called
    epilogue = [f"{names} = others", *lines]
    all_functions = {"epilogue(totals, row, column, part, others)": epilogue, **functions}
    text = f'"""{note}"""\n\n{_HEAD.format(module)}'
    for name, written in all_functions.items():
        body = "".join(f"    {line}\n" for line in written)
        text += f"@gluon.jit\ndef {name}:\n{body}\n\n"
    passed = [f"({names})" if name == OTHERS else name for name in given]
    passed.append(f"{module}.shaped({numbers})")
    body = "".join(f"        {name},\n" for name in passed)
    return f"{text}@gluon.jit\ndef {entry}({names}):\n    {module}.{function}(\n{body}    )\n"
