"""Iteration space, operands and program of attention kernels.

Groups of axes and their indices in a kernel: heads (`head`), queries (`offs_m`), keys (`offs_n`)
and elements of a value (`offs_dv`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.attention.analysis import AttentionAnalysis
from mlirfuse.kernels.attention.problem import AttentionConfig, AttentionProblem
from mlirfuse.kernels.attention.sizes import BATCH_SIZE, KEY_SIZE, QUERY_SIZE, padded_head
from mlirfuse.kernels.codegen.element_types import POINTERS
from mlirfuse.kernels.codegen.iteration_space import Axis, Group, Space, loop_axes
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.codegen.tile_writer import Tiles, returned
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.structured.ir import ops

ENTRY = "attention_kernel"

HEAD, QUERY, KEY, V_HEAD = 0, 1, 2, 3
"""Indices of the groups of the iteration space."""

_IMPORTED = """\
import triton
import triton.language as tl

from mlirfuse.kernels.device import attention, library


"""


def axes_of(analysis: AttentionAnalysis) -> dict[int, Axis]:
    """Loop of the attention op -> its axis; none for the loop that q and k contract."""
    loops = analysis.loops
    axes: dict[int, Axis] = {loop: (HEAD, n) for n, loop in enumerate(loops.batch)}
    axes |= {loop: (QUERY, n) for n, loop in enumerate(loops.queries)}
    return axes | {loops.key: (KEY, 0), loops.v_head: (V_HEAD, 0)}


def operand_axes(analysis: AttentionAnalysis, operand: int) -> tuple[Axis | None, ...]:
    """The axis along each dimension of an operand or, with -1, of the result."""
    axes = axes_of(analysis)
    index_map = ops.indexing_maps(analysis.op)[operand] or ()
    return tuple(None if loop is None else axes.get(loop) for loop in index_map)


def iteration_space(analysis: AttentionAnalysis, block_m: int) -> Space:
    """The iteration space of a kernel in Triton with tiles of `block_m` queries."""
    sizes = analysis.sizes
    query_mask = "mask_m" if sizes.has_query_tail(block_m) else ""
    v_mask = "mask_dv" if padded_head(sizes.v_head_size) != sizes.v_head_size else ""
    return Space(
        (
            Group("head", analysis.batch_sizes, size=BATCH_SIZE),
            Group("offs_m", analysis.query_sizes, query_mask, QUERY_SIZE),
            Group("offs_n", (sizes.keys,), size=KEY_SIZE),
            Group("offs_dv", (sizes.v_head_size,), v_mask),
        )
    )


def attention_tiles(analysis: AttentionAnalysis, block_m: int) -> Tiles:
    """The writer of a kernel in Triton, which knows the loops of prologue and epilogue.

    Raises:
      Conflict: prologue or epilogue have loops that the attention has not.
    """
    tiles = Tiles(iteration_space(analysis, block_m), {})
    mask_axes: tuple[Axis | None, ...] = ()
    written = {}
    if analysis.mask is not None:
        mask_axes = operand_axes(analysis, 4)
        written = {analysis.mask: _known(mask_axes)}
    out_axes = _known(operand_axes(analysis, -1))
    tiles.loops = {
        **loop_axes(tiles.space, analysis.prologue, _known(mask_axes), written=written),
        **loop_axes(
            tiles.space, analysis.epilogue, out_axes, written={analysis.op.results[0]: out_axes}
        ),
    }
    return tiles


def _known(axes: Sequence[Axis | None]) -> tuple[Axis, ...]:
    return tuple(axis for axis in axes if axis is not None)


@dataclasses.dataclass(frozen=True, slots=True)
class OperandTile:
    """Pointers to q, k or v in a kernel.

    Attributes:
      pointers: text of the pointers, without the elements of a query or key.
      head_stride: elements between neighboring elements of a query or key; `0` for v.
    """

    pointers: str
    head_stride: str


def operand_tile(tiles: Tiles, analysis: AttentionAnalysis, operand: int) -> OperandTile:
    """The pointers of q, k or v: operand 0, 1 or 2."""
    axes, memory = operand_axes(analysis, operand), analysis.memory(operand)
    index_map = ops.indexing_maps(analysis.op)[operand] or ()
    tiles.axes[analysis.op.operands[operand]] = axes
    offset = tiles.space.offset(memory.shape, axes, memory.taken)
    first = f" + {memory.offset}" if memory.offset else ""
    pointers = f"{tiles.pointer(memory.value)}{first} + {offset}"
    stride = "0"
    if analysis.loops.qk_head in index_map:
        stride = tiles.space.stride(memory.shape, axes, index_map.index(analysis.loops.qk_head))
    return OperandTile(pointers, stride)


def pointer_types(values: Sequence[ir.Value]) -> list[str]:
    """Types of the pointers to some tensors."""
    return [POINTERS[ops.element_type(value)] for value in values]


def attention_program(
    tiles: Tiles,
    config: AttentionConfig,
    dynamic: Sequence[str],
    results: Sequence[str],
    note: str,
    *,
    scratch: int = 0,
    imported: str = _IMPORTED,
    functions: str = "",
    gluon: bool = False,
) -> Program:
    """The program of a kernel whose lines are written.

    Args:
      tiles: the writer of the lines.
      config: the configuration, of which warps and stages count.
      dynamic: names of the dynamic sizes.
      results: types of the pointers to the results.
      note: docstring of the module.
      scratch: number of f32 tensors, written by the kernel before, that come first.
      imported: import statements.
      functions: functions that the lines call.
      gluon: whether the lines are Gluon's.
    """
    arguments = [(f"s{n}", "*fp32") for n in range(scratch)]
    arguments += tiles.pointer_arguments(())
    arguments += [(f"y{n}", kind) for n, kind in enumerate(results)]
    arguments += [(name, "i32") for name in dynamic]
    lines = tiles.body.writer.lines
    text = text_of(
        ENTRY, arguments, lines, note, gluon=gluon, imported=imported, functions=functions
    )
    return Program(ENTRY, text, tuple(arguments), config.num_warps, config.num_stages)


def results_plan(
    tiles: Tiles,
    analysis: AttentionAnalysis,
    config: AttentionConfig,
    note: str,
    *,
    problem: AttentionProblem | None = None,
    before: Plan | None = None,
) -> Plan:
    """The plan of a kernel in Triton that writes a region's results, whose lines are written.

    One CTA computes a tile of `config.block_m` queries of one head.

    Args:
      tiles: the writer of the lines.
      analysis: the attention.
      config: the configuration.
      note: docstring of the kernel's module.
      problem: the problem that the configuration was chosen by.
      before: a kernel that runs first, whose scratch this one reads.
    """
    results = returned(analysis.region)
    program = attention_program(
        tiles,
        config,
        analysis.sizes.dynamic,
        pointer_types(results),
        note,
        scratch=0 if before is None else len(before.scratch),
    )
    return Plan(
        program,
        tuple(tiles.operands),
        tuple(results),
        (analysis.query_tiles(config.block_m), Extent(1), Extent(1)),
        analysis.dynamic_sizes,
        problem,
        before=before,
    )
