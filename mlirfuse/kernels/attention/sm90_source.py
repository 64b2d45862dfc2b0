"""Parts that the strategies for Hopper share: conditions, and the call of a kernel in Gluon."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.kernels.attention.analysis import AttentionAnalysis, Memory
from mlirfuse.kernels.attention.heuristics import tile_columns
from mlirfuse.kernels.attention.problem import AttentionConfig
from mlirfuse.kernels.attention.scores import LOG2E
from mlirfuse.kernels.attention.sizes import BATCH_SIZE, KEY_SIZE, QUERY_SIZE
from mlirfuse.kernels.attention.tiles import attention_program, pointer_types
from mlirfuse.kernels.codegen.iteration_space import Group, Space, known_product
from mlirfuse.kernels.codegen.tile_writer import Tiles, returned
from mlirfuse.kernels.plan import Program
from mlirfuse.structured.ir import ops
from mlirfuse.targets import cuda
from mlirfuse.targets.base import Target

WARPS_PER_WARPGROUP = 4

VECTOR_BYTES = 16
"""Bytes of a vector that a thread loads."""


def can_run(analysis: AttentionAnalysis, target: Target) -> bool:
    """Whether kernels in Gluon for Hopper can compute an attention.

    They have no mask but the causal one, no epilogue, and heads that a tile holds, whose elements
    are contiguous, at static strides, in q, k, v and the result; rows of slices start at whole
    vectors.
    """
    sizes, loops = analysis.sizes, analysis.loops
    vector = VECTOR_BYTES * 8 // ops.element_bits(analysis.op.operands[0])
    maps = ops.plain_maps(analysis.op)
    last = (loops.qk_head, loops.qk_head, loops.v_head, loops.v_head)
    return (
        target.arch == cuda.HOPPER
        and analysis.operand_type != "f32"
        and (analysis.causal or analysis.mask is None)
        and not (analysis.epilogue or analysis.score_body)
        and sizes.queries == analysis.query_sizes[-1]
        and analysis.scale > 0
        and sizes.qk_head_size == sizes.v_head_size
        and tile_columns(sizes.v_head_size) > 0
        and all(m[-1] == loop for m, loop in zip((*maps[:3], maps[-1]), last, strict=True))
        and None not in _strides(analysis)
        and all(memory.is_aligned(vector) for memory, *_ in _tensors(analysis))
    )


def _tensors(
    analysis: AttentionAnalysis,
) -> list[tuple[Memory, tuple[int | None, ...], int]]:
    """q, k, v and the result: each with its indexing map, and its loop of queries or keys."""
    maps = ops.plain_maps(analysis.op)
    query, key = analysis.loops.queries[-1], analysis.loops.key
    loops = {0: query, 1: key, 2: key, -1: query}
    return [(analysis.memory(n), maps[n], loop) for n, loop in loops.items()]


def _strides(analysis: AttentionAnalysis) -> list[int | None]:
    """Elements between neighboring queries or keys of q, k, v and the result; None for dynamic."""
    strides = []
    for memory, index_map, loop in _tensors(analysis):
        inner = memory.shape[index_map.index(loop) + 1 :]
        strides.append(None if None in inner else known_product(inner))
    return strides


def sm90_program(
    analysis: AttentionAnalysis, config: AttentionConfig, module: str
) -> tuple[Program, tuple[ir.Value, ...]]:
    """The program that calls a kernel in Gluon, and its operands.

    Args:
      analysis: the attention.
      config: the configuration.
      module: the module of `kernels.device` with the kernel, `attention`.
    """
    sizes = analysis.sizes
    groups = (
        Group("head", analysis.batch_sizes, size=BATCH_SIZE),
        Group("", (sizes.queries,), size=QUERY_SIZE),
        Group("", (sizes.keys,), size=KEY_SIZE),
    )
    tiles = Tiles(Space(groups), {})
    axes = {loop: (0, n) for n, loop in enumerate(analysis.loops.batch)}
    axes |= {analysis.loops.queries[-1]: (1, 0), analysis.loops.key: (2, 0)}
    pointers, offsets = [], []
    for memory, index_map, _ in _tensors(analysis):
        known = [None if loop is None else axes.get(loop) for loop in index_map]
        is_result = memory.value == analysis.op.results[0]
        pointers.append("y0" if is_result else tiles.pointer(memory.value))
        offset = tiles.space.offset(memory.shape, known, memory.taken)
        offsets.append(f"{offset} + {memory.offset}" if memory.offset else offset)
    counts = f"({sizes.heads_text}, {sizes.queries_text}, {sizes.keys_text})"
    called = ", ".join([*pointers, counts, "head_offsets", _spec(analysis, config)])
    tiles.body.writer.line(f"{module}.attention({called})")
    program = attention_program(
        tiles,
        config,
        sizes.dynamic,
        pointer_types(returned(analysis.region)),
        f"Flash attention, {config.block_m} queries and {config.block_n} keys at a time.",
        imported=_IMPORTED.format(module=module),
        functions=_HEAD_OFFSETS.format(offsets=", ".join(offsets)),
        gluon=True,
    )
    return program, tuple(tiles.operands)


_IMPORTED = """\
from triton.experimental import gluon

from mlirfuse.kernels.device import attention_softmax_sm90, {module}


"""

_HEAD_OFFSETS = '''\
@gluon.jit
def head_offsets(head, query_size, key_size):
    """Offsets of a head in q, k, v and the result."""
    return {offsets}


'''


def _spec(analysis: AttentionAnalysis, config: AttentionConfig) -> str:
    """The `AttentionSpec` of a kernel, as text."""
    sizes = analysis.sizes
    q_stride, k_stride, v_stride, y_stride = _strides(analysis)
    fields = {
        "q_stride": q_stride,
        "k_stride": k_stride,
        "v_stride": v_stride,
        "y_stride": y_stride,
        "block_n": config.block_n,
        "head_size": tile_columns(sizes.v_head_size),
        "head_elements": sizes.v_head_size,
        "query_tail": sizes.has_query_tail(config.block_m),
        "key_tail": sizes.has_key_tail(config.block_n),
        "wide_offsets": bool(sizes.dynamic),
        "causal": analysis.causal,
        "heads_first": config.heads_first,
        "scale": analysis.scale * LOG2E,
    }
    named = ", ".join(f"{name}={value}" for name, value in fields.items())
    return f"attention_softmax_sm90.attention_spec({named})"
