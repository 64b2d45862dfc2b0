"""Whether the ops behind the products of a tile need registers beside those of its accumulators.

With 128 accumulators a thread of 255 registers has too few for the operands of such ops: the object
code of a 128x256 tile of f16 with eight warps spills (ptxas, for Triton 3.6)

    epilogue                            rows aligned to 16 bytes    not aligned
    bias; bias and SiLU                 0                           0
    bias and GELU; bias and mish        0                           548; 252 bytes of a thread
    one tensor of the result's size     0                           1276
    the same and mish                   752                         2392
    two and three such tensors          604, 636                    1140, 2286

and that of a 128x128 tile at most 64. On an H200 the last one, of 3840x929x784, took 79 us in tiles
of 128x256, where torch.compile's two kernels take 29. Functions without other operands spill, too,
where they are long (mish 190 registers, the logarithm of an error function 118): on an H100
`mish(x @ w)` of 4096x256x4096 took 81 us in tiles of 128x256, and 53 to 62 in those of half the
accumulators.
"""

from __future__ import annotations

from mlirfuse import cost
from mlirfuse.builders.numbers import HALVES
from mlirfuse.kernels.codegen.instructions import instructions as scalar_instructions
from mlirfuse.kernels.matmul.analysis import OPERAND_BITS, MatmulAnalysis
from mlirfuse.kernels.matmul.cost_model import vector_bytes
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES
from mlirfuse.structured.ir import ops

MAX_SPILLING_K = 4096
"""K from which products take so long that an epilogue may spill: on an H200 a gate, a logarithm and
a comparison behind 6x1216x8192x416 f16 took 124 us in tiles of 128x128, and 98 in those of
128x256."""

MAX_TENSORS = 2
"""Tensors of the result's size that are too many in any epilogue."""

FUNCTION_OPS, LONG_EPILOGUE = 16, 32
"""Ops that a function, a division or a root counts as, and ops of an epilogue that spill, of
operands of 16 bits: two functions. Tiles of f32 have half of the accumulators anyway."""


def instructions(analysis: MatmulAnalysis) -> int:
    """Instructions of the epilogue of a region for each element of the contraction."""
    elements = max(1, ops.num_elements(analysis.contraction.results[0]))
    short = all(ops.element_type(value) in HALVES for value in analysis.results)
    return (
        sum(
            ops.num_elements(op.results[0]) * scalar_instructions(op, short=short)
            for op in analysis.epilogue
            if op.results and ops.is_generic(op)
        )
        // elements
    )


def _is_long(analysis: MatmulAnalysis) -> bool:
    """Whether an epilogue has two functions, or as many other ops."""
    elements = max(1, ops.num_elements(analysis.contraction.results[0]))
    parts = [cost.computation(op) for op in analysis.epilogue]
    counted = sum(part.vector + FUNCTION_OPS * part.special for part in parts)
    return counted // elements >= LONG_EPILOGUE


def has_wide_epilogue(analysis: MatmulAnalysis) -> bool:
    """Whether the epilogue of a region needs half of the registers, and its time counts."""
    if analysis.k >= MAX_SPILLING_K:
        return False
    if OPERAND_BITS[analysis.operand_type] == 16 and _is_long(analysis):
        return True
    own = {value for op in analysis.epilogue for value in op.results}
    own |= set(analysis.contraction.results)
    size = ops.num_elements(analysis.contraction.results[0])
    read = {value for op in analysis.epilogue for value in ops.inputs(op) if value not in own}
    tensors = sum(ops.num_elements(value) >= size for value in read)
    called = {name for op in analysis.epilogue for name in ops.scalar_names(op)}
    calls = any(name.startswith("math.") for name in called)
    bits = ops.element_bits(analysis.results[0])
    aligned = vector_bytes(analysis.n, bits) == VECTOR_BYTES
    if not aligned:
        return tensors > 0 or calls
    return tensors >= MAX_TENSORS or (tensors > 0 and calls)
