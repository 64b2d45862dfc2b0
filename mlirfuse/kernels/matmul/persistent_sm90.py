"""Warp-specialized persistent kernels for Hopper, in Gluon: which matmuls have one, their source.

The device code is `mlirfuse.kernels.device.matmul_sm90`. Convolutions use the same kernel as an
implicit GEMM: their A is an image, in which the functions `row_start` and `block_start` find rows
and blocks of K.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX
from mlirfuse.kernels.codegen.scalar_ops import LONG_FUNCTIONS
from mlirfuse.kernels.codegen.tile_writer import Launch, Tiles
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul.aligned_copies import ENTRY
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, problem_of
from mlirfuse.kernels.matmul.epilogue import write_parts
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.matmul.tile_space import KernelTiles, M, N, kernel_tiles
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.problem import Problem
from mlirfuse.structured.ir import ops
from mlirfuse.targets import cuda
from mlirfuse.targets.base import Target

WARPGROUP_WARPS = 4
"""Warps of a warpgroup; Triton reports those of all warpgroups when it has built the kernel."""

BLOCK_K = 64
"""Elements of K in a stage."""

MMA_M = 64
"""Rows of a `wgmma` instruction."""

MAX_MMA_N = 256
"""Columns of one `wgmma` instruction."""

PERMUTED_COLUMNS = 32
"""Columns that are permuted together, so that a thread holds eight contiguous ones."""

LOAD_ELEMENTS = 8
"""Elements of 16 bits in one vectorized load."""

LONG_EPILOGUE_N = 64
"""Columns of the slices of N for which an epilogue with a long function is called."""

LAYOUT = "layout"
"""Name of the layout of the tiles in an epilogue."""

OTHERS = "others"
"""Placeholder of the tuple of all arguments of a kernel, among those of its device function."""


def has_persistent(target: Target) -> bool:
    """Whether the target and the installed Triton have such kernels."""
    return target.arch == cuda.HOPPER and triton_compiler.has_gluon()


def tiles_divide(block_n: int, n: int, k: int, accumulators: int) -> bool:
    """Whether blocks divide N and K and fit an instruction; only M may have partial tiles."""
    divided = block_n % PERMUTED_COLUMNS == 0 and n % block_n == 0 and k % BLOCK_K == 0
    return accumulators <= 2 and block_n * accumulators <= MAX_MMA_N and divided


def can_load(value: ir.Value, index_map: ops.IndexMap, k_loop: int) -> bool:
    """Whether an operand is K-contiguous and its rows are aligned for vectorized loads.

    Args:
      value: the operand, perhaps a static slice.
      index_map: loop of the contraction along each of its dimensions.
      k_loop: the loop of K.
    """
    op = ops.defining_op(value)
    sliced = op is not None and op.name == "tensor.extract_slice"
    boxes = ops.static_slice(op) if op is not None and sliced else None
    size = ops.shape(op.operands[0] if op is not None and sliced else value)[-1]
    return (
        index_map[-1] == k_loop
        and size is not None
        and size % LOAD_ELEMENTS == 0
        and (not sliced or (boxes is not None and boxes[-1][0] % LOAD_ELEMENTS == 0))
    )


def can_run(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> bool:
    """Whether the kernel computes a region: operands in memory, whole blocks of N and K."""
    m_loop, maps = analysis.loops.m, analysis.maps
    indices = {index for part in analysis.parts for one in part for index in (one.a, one.b)}
    operands = [(analysis.operand(index), maps[index]) for index in indices]
    tensors = [*(value for value, _ in operands), *analysis.contraction.results]
    return (
        has_persistent(target)
        and analysis.operand_type in ("f16", "bf16")
        and not analysis.prologue
        and m_loop is not None
        and analysis.m is not None
        and all(size == 1 for size in analysis.batch)
        and tiles_divide(config.block_n, analysis.n, analysis.inner_k, analysis.accumulators)
        and all(can_load(value, index_map, analysis.loops.inner_k) for value, index_map in operands)
        and max(map(ops.num_elements, tensors)) < MAX_INDEX
    )


def plan(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """Plans the kernel of a region."""
    kernel = kernel_tiles(analysis, config, layout=LAYOUT)
    write_parts(kernel, "part", lambda kernel, part: None)
    outline = KernelOutline(ENTRY, analysis.results, problem_of(analysis), config, M, N)
    return plan_persistent(kernel.tiles, outline, _operands(kernel, target))


def _operands(kernel: KernelTiles, target: Target) -> PersistentMatmul:
    """The operands of a region's matmul, whose rows and blocks of K have strides."""
    analysis, tiles, maps = kernel.analysis, kernel.tiles, kernel.analysis.maps
    indices = [analysis.first.a, *(one.b for part in analysis.parts for one in part)]
    values = [analysis.operand(index) for index in indices]
    pointers = [
        tiles.element_pointers(value, tuple(None for _ in ops.shape(value))) for value in values
    ]
    a_stride, b_stride = (
        tiles.stride(values[n], maps[indices[n]].index(loop))
        for n, loop in enumerate((analysis.loops.m, analysis.loops.n))
    )
    return PersistentMatmul(
        pointers[0],
        pointers[1:],
        analysis.m or 1,
        analysis.n,
        analysis.inner_k,
        b_stride=b_stride,
        row_start=[f"return offs_m * {a_stride}, 0"],
        block_start=[f"return step * {BLOCK_K}, 0"],
        num_ctas=gpu_of(target).num_sms,
        parts=len(analysis.parts),
        accumulators=analysis.accumulators,
        long_epilogue=any(
            name in LONG_FUNCTIONS for op in analysis.epilogue for name in ops.scalar_names(op)
        ),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class KernelOutline:
    """The parts of a kernel that do not depend on how its tiles are computed.

    Attributes:
      entry: name of the kernel.
      results: values that it writes.
      problem: problem by which its configuration was chosen.
      config: configuration.
      m_group: index of the group of the axes of M in the iteration space.
      n_group: the same of N.
    """

    entry: str
    results: Sequence[ir.Value]
    problem: Problem
    config: MatmulConfig
    m_group: int
    n_group: int


@dataclasses.dataclass(frozen=True, slots=True)
class PersistentMatmul:
    """Operands and sizes of a persistent matmul.

    Attributes:
      a: expression of the pointer to A.
      bs: the same of the operands B, `accumulators` for each part.
      m: size along M.
      n: size along N of each B.
      k: contracted elements.
      b_stride: expression of the elements from one column of B to the next.
      row_start: body of the function from rows of A, named as the flat index of M, to their starts
        and a bit mask of the taps in memory.
      block_start: body of the function from `step`, a block of K, to its offset and tap.
      num_ctas: CTAs of the grid at most: the target's SMs.
      parts: matmuls of the same A that have tiles of their own.
      accumulators: operands B of a part.
      masked: whether blocks of some rows of A are zero and not in memory.
      long_epilogue: whether the epilogue has one of `LONG_FUNCTIONS`.
    """

    a: str
    bs: Sequence[str]
    m: int
    n: int
    k: int
    b_stride: str
    row_start: Sequence[str]
    block_start: Sequence[str]
    num_ctas: int
    parts: int = 1
    accumulators: int = 1
    masked: bool = False
    long_epilogue: bool = False


def plan_persistent(tiles: Tiles, outline: KernelOutline, matmul: PersistentMatmul) -> Plan:
    """Plans a persistent matmul whose epilogue is written.

    Args:
      tiles: the lines of the epilogue, which reads `accumulator0` and, of two, `accumulator1`.
      outline: the rest of the kernel.
      matmul: its operands and sizes.
    """
    config = outline.config
    num_tiles = -(-matmul.m // config.block_m) * (matmul.n // config.block_n) * matmul.parts
    num_ctas = min(matmul.num_ctas, num_tiles)
    spec = {
        "m": matmul.m,
        "n": matmul.n,
        "k": matmul.k,
        "b_stride": matmul.b_stride,
        "masked": matmul.masked,
        "parts": matmul.parts,
        "accumulators": matmul.accumulators,
        "block_m": config.block_m,
        "block_n": config.block_n,
        "num_stages": config.num_stages,
        "consumer_warpgroups": config.consumer_warpgroups,
        "ping_pong": config.ping_pong,
        "group_m": config.group_m,
        "num_ctas": num_ctas,
        "epilogue_n": (
            min(LONG_EPILOGUE_N, config.block_n) if matmul.long_epilogue else config.block_n
        ),
    }
    row = tiles.space.groups[outline.m_group].flat
    call = DeviceCall(
        module="matmul_sm90",
        function="persistent_matmul",
        arguments=(
            matmul.a,
            f"({', '.join(matmul.bs)},)",
            OTHERS,
            "row_start",
            "block_start",
            "epilogue",
            call_text("matmul_sm90.make_spec", spec),
        ),
        functions={
            f"row_start({row})": matmul.row_start,
            "block_start(step)": matmul.block_start,
        },
        num_ctas=num_ctas,
        accumulators=matmul.accumulators,
    )
    note = f"Matmul with K = {matmul.k}, tiles of {config.block_m} by {config.block_n}."
    return plan_around_epilogue(tiles, outline, call, note)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceCall:
    """The call of a function of the device code that computes all tiles of a CTA.

    Attributes:
      module: module of `mlirfuse.kernels.device`.
      function: its function.
      arguments: expressions; `OTHERS` stands for the tuple of all arguments of the kernel.
      functions: name and parameters -> body of the functions it is passed, without the epilogue.
      num_ctas: CTAs of the grid.
      accumulators: accumulators that the epilogue is passed.
    """

    module: str
    function: str
    arguments: Sequence[str]
    functions: Mapping[str, Sequence[str]]
    num_ctas: int
    accumulators: int = 1


def call_text(function: str, arguments: Mapping[str, object]) -> str:
    """The text of a call with keyword arguments."""
    return f"{function}({', '.join(f'{name}={value}' for name, value in arguments.items())})"


def plan_around_epilogue(tiles: Tiles, outline: KernelOutline, call: DeviceCall, note: str) -> Plan:
    """Plans a kernel in Gluon that passes its epilogue to a function of the device code.

    Args:
      tiles: the lines of the epilogue.
      outline: the rest of the kernel.
      call: the call that computes the tiles.
      note: description of the kernel, one line.
    """
    groups = outline.m_group, outline.n_group
    accumulators = [f"accumulator{n} = accumulators[{n}]" for n in range(call.accumulators)]
    lines = [
        *accumulators,
        f"{LAYOUT}: gl.constexpr = accumulator0.type.layout",
        "batch = 0",
        *tiles.space.inside(*groups),
        *tiles.body.writer.lines,
    ]
    flats = [tiles.space.groups[group].flat for group in groups]
    return tiles.plan(
        outline.entry,
        lines,
        outline.results,
        note,
        launch=Launch(
            grid=(Extent(call.num_ctas), Extent(1), Extent(1)),
            first=(outline.m_group, 0),
            num_warps=outline.config.num_warps,
        ),
        problem=outline.problem,
        text=functools.partial(
            _module_text,
            call=call,
            epilogue=f"epilogue(accumulators, {', '.join(flats)}, part, {OTHERS})",
        ),
    )


_IMPORTS = """\
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from mlirfuse.kernels.device import {}, library


"""


def _module_text(
    entry: str,
    arguments: Sequence[tuple[str, str]],
    lines: Sequence[str],
    note: str,
    *,
    call: DeviceCall,
    epilogue: str,
) -> str:
    """The module of a kernel: its epilogue, the other functions, and the call."""
    names = ", ".join(name for name, _ in arguments)
    functions = {epilogue: [f"{names} = {OTHERS}", *lines], **call.functions}
    text = f'"""{note}"""\n\n{_IMPORTS.format(call.module)}'
    for signature, written in functions.items():
        body = "".join(f"    {line}\n" for line in written)
        text += f"@gluon.jit\ndef {signature}:\n{body}\n\n"
    passed = [f"({names})" if name == OTHERS else name for name in call.arguments]
    body = "".join(f"        {name},\n" for name in passed)
    called = f"{call.module}.{call.function}"
    return f"{text}@gluon.jit\ndef {entry}({names}):\n    {called}(\n{body}    )\n"
