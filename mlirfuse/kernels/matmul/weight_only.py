"""Weight-only quantized matmuls with a small M (W4A16, W8A16), in Gluon.

Weights of 4 or 8 bits go from global memory to registers, are dequantized there and are the left
operand of matrix instructions, without shared memory. The device code is
`mlirfuse.kernels.device.matmul_weight_only`.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, Axis, Group, Space, known_product
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, Part
from mlirfuse.kernels.matmul.dequantization import (
    BITS,
    DequantizedWeights,
    QuantParameter,
    dequantized_weights,
)
from mlirfuse.kernels.matmul.persistent_sm90 import LAYOUT, call_text
from mlirfuse.kernels.matmul.problem import LINE_BYTES, MAX_STREAMED_M, MIN_STREAMED_M, MatmulConfig
from mlirfuse.kernels.matmul.tile_program import plan_tiles
from mlirfuse.kernels.matmul.tile_space import KernelTiles, M, N, kernel_tiles
from mlirfuse.kernels.plan import Plan
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

THREAD_BYTES = 16
"""Bytes along K that a thread loads at once; they share a scale."""


def has_weight_only(target: Target) -> bool:
    """Whether the target and the installed Triton have such kernels."""
    return target.name == "cuda" and triton_compiler.has_gluon()


def can_run(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> bool:
    """Whether the kernel computes a region."""
    if not has_weight_only(target) or analysis.m is None or analysis.m > MAX_STREAMED_M:
        return False
    weights = dequantized_weights(analysis)
    kind = ops.element_type(analysis.operand(analysis.first.a))
    return weights is not None and _is_exact(weights, kind) and _is_aligned(weights, analysis.k)


def _is_aligned(weights: DequantizedWeights, k: int) -> bool:
    """Whether K is a multiple of a word, and a group of a thread's load."""
    return (
        k % (32 // weights.bits) == 0
        and weights.group_size % (THREAD_BYTES * 8 // weights.bits) == 0
        and known_product(ops.shape(weights.value)) < MAX_INDEX
    )


def _is_exact(weights: DequantizedWeights, kind: str) -> bool:
    """Whether a weight less its zero point is exact in the element type of A."""
    zero, bits = weights.zero, weights.bits
    if kind not in ("f16", "bf16"):
        return False
    if zero is None:
        return True
    if zero.value is None:
        return -(1 << bits - 1) <= zero.constant < 1 << bits - 1
    return BITS[ops.element_type(zero.value)] <= bits and (kind == "f16" or bits == 4)


def plan(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """Plans the kernel."""
    weights = dequantized_weights(analysis)
    assert weights is not None
    kernel = kernel_tiles(analysis, _without_masked_rows(config, analysis.m or 1), layout=LAYOUT)
    source = _WeightOnly(kernel, weights)
    return plan_tiles(
        kernel,
        source.accumulate,
        placement=_placement(kernel),
        text=lambda *arguments: text_of(
            *arguments, gluon=True, imported=_IMPORTS, functions="".join(source.functions)
        ),
    )


def _without_masked_rows(config: MatmulConfig, m: int) -> MatmulConfig:
    """The configuration with `block_m` limited to the next power of two of M."""
    limit = max(MIN_STREAMED_M, 1 << (m - 1).bit_length())
    return dataclasses.replace(config, block_m=min(config.block_m, limit))


def _placement(kernel: KernelTiles) -> list[str]:
    """The lines that compute the indices of a CTA's tile in the layout of the epilogue."""
    analysis, config = kernel.analysis, kernel.config
    block_m, block_n = config.block_m, config.block_n
    return [
        f"pid_m, pid_n = library.swizzle_tile(gl.program_id(0), "
        f"tl.cdiv({analysis.m}, {block_m}), {-(-analysis.n // block_n)}, {config.group_m})",
        "batch = 0",
        f"{LAYOUT}: gl.constexpr = "
        f"matmul_weight_only.epilogue_layout({block_n}, {config.num_warps})",
        f"offs_m = (pid_m * {block_m} + gl.arange(0, {block_m}, gl.SliceLayout(1, {LAYOUT})))"
        "[:, None]",
        f"offs_n = (pid_n * {block_n} + gl.arange(0, {block_n}, gl.SliceLayout(0, {LAYOUT})))"
        "[None, :]",
        *kernel.tiles.space.inside(M, N),
    ]


class _WeightOnly:
    """Writes the main loop of a kernel.

    Attributes:
      functions: source of the functions that read zero points and scales, once it is written.
    """

    def __init__(self, kernel: KernelTiles, weights: DequantizedWeights) -> None:
        self.weights = weights
        self.functions: list[str] = []
        # Scales per channel multiply accumulators, without a rounding of weights.
        self.scales_in_loop = weights.group_size > 0 and weights.scale is not None

    def accumulate(self, kernel: KernelTiles, part: Part) -> None:
        """Writes the accumulator of the only part."""
        analysis, config, tiles = kernel.analysis, kernel.config, kernel.tiles
        weights, writer = self.weights, kernel.tiles.body.writer
        a = analysis.operand(analysis.first.a)
        a_pointer, b_pointer = tiles.pointer(a), tiles.pointer(weights.value)
        tiles.axes[a] = tuple(kernel.axes[n] for n in (analysis.loops.m or 0, *analysis.loops.k))
        parameters = self._write_functions(kernel)
        spec = {
            "bits": weights.bits,
            "n": analysis.n,
            "k": analysis.k,
            "group_size": weights.group_size,
            "scaled": self.scales_in_loop,
            "block_m": config.block_m,
            "block_n": config.block_n,
            "split_k": config.split_k,
            "lines": config.block_k * weights.bits // 8 // LINE_BYTES // config.split_k,
        }
        writer.line(f"words = {b_pointer}.to(gl.pointer_type(gl.int32), bitcast=True)")
        writer.line(
            f"accumulator0 = matmul_weight_only.accumulate({a_pointer}, {analysis.k}, "
            f"{analysis.m}, words, {parameters}, pid_m, pid_n, zero_point, scale, "
            f"{call_text('matmul_weight_only.make_spec', spec)})"
        )
        writer.line(f"accumulator0 = gl.convert_layout(accumulator0.permute((1, 0)), {LAYOUT})")
        scale = weights.scale
        if scale is not None and scale.value is not None and not self.scales_in_loop:
            axes = tuple(None if n is None else kernel.axes[n] for n in scale.loops)
            writer.line(f"accumulator0 = accumulator0 * {tiles.read(scale.value, axes)}")

    def _write_functions(self, kernel: KernelTiles) -> str:
        """Writes functions from indices along N and of groups to zero points and scales.

        Returns:
          Expression of their first argument, a tuple of pointers.
        """
        pointers: list[str] = []
        for name, parameter, kind in (
            ("zero_point", self.weights.zero, "int32"),
            ("scale", self.weights.scale, "float32"),
        ):
            lines = ["return offs_n * 0 + k_group * 0"]
            if parameter is not None and parameter.value is None:
                lines = [f"{lines[0]} + {parameter.constant}"]
            elif parameter is not None and parameter.value is not None:
                pointer = kernel.tiles.pointer(parameter.value)
                pointers.append(pointer)
                *loads, name_of_tile = _read(kernel, parameter.value, parameter)
                lines = [f"{pointer} = pointers[{len(pointers) - 1}]", *loads]
                lines.append(f"return {name_of_tile}.to(tl.{kind})")
            body = "".join(f"    {line}\n" for line in lines)
            self.functions.append(f"@gluon.jit\ndef {name}(pointers, offs_n, k_group):\n{body}\n\n")
        return f"({', '.join(pointers)}{',' if pointers else ''})"


def _read(kernel: KernelTiles, value: ir.Value, parameter: QuantParameter) -> list[str]:
    """The lines that load scales or zero points per channel and group; last the tile's name."""
    sizes, n_loop = kernel.analysis.sizes, kernel.analysis.loops.n
    groups = tuple(sizes[loop] for loop in parameter.loops if loop is not None and loop != n_loop)
    space = Space((Group("offs_n", (sizes[n_loop],)), Group("k_group", groups or (1,))))
    tiles = Tiles(space, {})
    tiles.operands = kernel.tiles.operands
    axes: list[Axis | None] = [
        None if loop is None else (int(loop != n_loop), 0) for loop in parameter.loops
    ]
    name = tiles.read(value, tuple(axes))
    return [*tiles.body.writer.lines, name]


_IMPORTS = """\
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from mlirfuse.kernels.device import library, matmul_weight_only


"""
