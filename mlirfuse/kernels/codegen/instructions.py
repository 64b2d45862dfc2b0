"""Instructions of NVIDIA's GPUs for scalar ops, in the forms that kernels have them.

Counted in the machine code of sm_90 for the forms of `scalar_forms` (Triton 3.6, ptxas 12.8), the
second number for each element of a tile less that of a tile half as large.
"""

from __future__ import annotations

from collections.abc import Mapping

from iree.compiler import ir

from mlirfuse.cost import FREE
from mlirfuse.kernels.codegen.scalar_expressions import constant_divisor
from mlirfuse.structured.ir import ops

_OF_FUNCTIONS: Mapping[str, tuple[int, int]] = {
    "arith.divf": (2, 9),
    "arith.remf": (30, 30),
    "math.cos": (20, 82),
    "math.erf": (16, 18),
    "math.exp": (2, 5),
    "math.exp2": (1, 4),
    "math.expm1": (7, 11),
    "math.log": (13, 25),
    "math.log10": (14, 26),
    "math.log1p": (8, 25),
    "math.log2": (13, 27),
    "math.powf": (87, 87),
    "math.roundeven": (2, 6),
    "math.rsqrt": (1, 1),
    "math.sin": (20, 82),
    "math.sqrt": (1, 1),
    "math.tanh": (10, 12),
}
"""Op -> its instructions where the result is rounded to 16 bits, and in f32."""

_OF_OTHERS = 30
"""Those of another function of `math`, an estimate."""

INSTRUCTIONS_PER_BYTE = 6
"""Instructions that lanes of a GPU complete while the memory moves a byte, fewer than of an H100
(9) and an H200 (7): 132 SMs of 128 lanes at 1.75 GHz beside 3.35 and 4.1 TB/s."""

LAUNCH_BYTES = 4 * 1024 * 1024
"""Bytes that the memory moves in the time of one more kernel, one microsecond."""

_ONE = frozenset(f"math.{name}" for name in ("absf", "absi", "ceil", "clampf", "floor", "fma"))


def instructions(op: ir.Operation, *, short: bool) -> int:
    """The instructions of an elementwise op for each element.

    Args:
      op: an op with a body.
      short: whether its functions are those whose results are rounded to 16 bits.
    """
    return sum(_of(each.operation, short) for each in ops.body(op).operations)


def _of(op: ir.Operation, short: bool) -> int:
    if op.name in FREE:
        return 0
    if op.name in _OF_FUNCTIONS and constant_divisor(op) is None:
        return _OF_FUNCTIONS[op.name][0 if short else 1]
    return _OF_OTHERS if op.name.startswith("math.") and op.name not in _ONE else 1


def is_repeated_cheaply(each: int, times: int, size: int) -> bool:
    """Whether a GPU computes elements where they are read in less time than it moves them.

    Args:
      each: instructions of an element.
      times: reads of elements.
      size: bytes of the tensor that is neither written nor read then.
    """
    return each * times <= INSTRUCTIONS_PER_BYTE * (2 * size + LAUNCH_BYTES)
