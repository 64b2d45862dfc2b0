"""Products whose workgroups stay, on Hopper: which ones there are, and their text.

What they do is in `triton/hopper_products.py`; the epilogue's lines are those of `matmul.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels import building
from mlirfuse.structured import ops
from mlirfuse.targets.base import Target

FORM = "16 bits, k inside, k inside"
"""How the form of a key begins."""

PROGRAMS = 132
"""Workgroups, one on each multiprocessor of an H100 SXM or an H200."""

WARPS = 4
"""Of each group of warps; a kernel is launched with those of all, Triton says how many."""

BLOCK = 64
"""Terms at a time."""

WIDEST = 256
"""Columns of one matrix instruction."""

ALIGNED = 8
"""Elements of 16 bits that are loaded at once."""

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
_BANDS = (4, 8, 16)


def candidates(rows: int, columns: int, depth: int, sums: int) -> list[tuple[int, ...]]:
    """The numbers of tilings that a search measures, as far as they fit.

    Args:
      rows: of the result.
      columns: the same.
      depth: terms of a sum.
      sums: that a workgroup holds.
    """
    if rows < 128:
        return []
    return [
        (height, width // sums, BLOCK, WARPS, stages, band, 1, groups, alternate)
        for height, width, stages, groups, alternate in _SHAPES
        for band in (_BANDS if rows >= 1024 else _BANDS[:1])
        if fits(width // sums, columns, depth, sums)
    ]


def fits(width: int, columns: int, depth: int, sums: int) -> bool:
    """Whether a product consists of whole tiles and blocks, apart from its rows."""
    return sums <= 2 and width * sums <= WIDEST and columns % width == 0 and depth % BLOCK == 0


def reads(value: ir.Value, index_map: ops.IndexMap, term: int) -> bool:
    """Whether an operand can be loaded: its terms side by side, aligned, also in a slice."""
    op = ops.defining_op(value)
    sliced = op is not None and op.name == "tensor.extract_slice"
    boxes = ops.slice_of(op) if op is not None and sliced else None
    size = ops.shape(op.operands[0] if op is not None and sliced else value)[-1]
    return (
        index_map[-1] == term
        and size is not None
        and size % ALIGNED == 0
        and (not sliced or (boxes is not None and boxes[-1][0] % ALIGNED == 0))
    )


def supports(target: Target) -> bool:
    """Whether a target and the Triton that is installed have such kernels."""
    return target.arch == building.HOPPER and building.has_gluon()


def start(inside: Sequence[str], totals: int) -> list[str]:
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

from mlirfuse.kernels.triton import hopper_products, library


@gluon.jit
def epilogue(totals, row, column, part, others):
"""


def text(
    entry: str,
    arguments: Sequence[tuple[str, str]],
    lines: Sequence[str],
    note: str,
    *,
    left: str,
    rights: Sequence[str],
    sizes: Sequence[int],
    steps: Sequence[str],
    parts: Sequence[int],
    tiles: Sequence[int],
    order: Sequence[int],
) -> str:
    """The module of a kernel.

    Args:
      entry: the kernel's name.
      arguments: name and type of each.
      lines: its epilogue.
      note: what it computes, in one line.
      left: name of the left operand.
      rights: the same of the right ones.
      sizes: rows, columns and terms.
      steps: elements from one row to the next of the left operand, and columns of the right ones.
      parts: how many there are, and the sums of each.
      tiles: height, width, stages, groups, and whether these alternate.
      order: rows of tiles that follow each other, and workgroups.
    """
    names = ", ".join(name for name, _ in arguments)
    body = "".join(f"    {line}\n" for line in [f"{names} = others", *lines])
    numbers = ", ".join(map(str, (*sizes, *steps, *parts, *tiles, *order)))
    return (
        f'"""{note}"""\n\n{_HEAD}{body}\n\n'
        f"@gluon.jit\ndef {entry}({names}):\n"
        f"    hopper_products.products(\n"
        f"        {left},\n"
        f"        ({', '.join(rights)},),\n"
        f"        ({names}),\n"
        f"        epilogue,\n"
        f"        hopper_products.shaped({numbers}),\n"
        f"    )\n"
    )
