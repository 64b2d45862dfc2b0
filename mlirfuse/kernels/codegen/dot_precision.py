"""The input precision of `tl.dot` for operands of f32.

`tf32x3` splits each operand into two numbers of TF32 and adds three products on tensor cores: its
error is about that of f32. `bf16x6` splits them into three of bf16 and adds six products, which
take as long. Where an operand is infinite or NaN only the product of the first parts counts, so
results that are not finite are those of f32. AMD's matrix instructions take f32 itself.

Warps compute the products from registers. Warpgroups of Hopper read the parts of B in shared
memory: those of TF32 along K only, so that the threads of a warp store elements of a B that is
loaded along N to the same banks, and those of bf16 along either dimension. On an H100 a product of
4096x4096x1024 took 0.64 ms with parts of TF32 and 0.53 ms with parts of bf16; with a B that is
loaded along K, one of 2048x2048x2048 took 0.21 and 0.26 ms.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlirfuse.targets import cuda
from mlirfuse.targets.base import Target

HIGHEST = "highest"
"""The value of `Target.float32_matmul_precision` that keeps the accuracy of f32."""

THREE_PRODUCTS = "tf32x3"

SIX_PRODUCTS = "bf16x6"

MIN_TF32_OPERATIONS = 2e8
"""Operations from which a convolution is computed in TF32, where that is allowed: fewer take about
10 us with three products. cuDNN, too, computes small convolutions in f32 (seven of 29 of random
programs on an H200, six of them below this number)."""

WARPGROUP_ROWS, WARPGROUP_WARPS = 64, 4
"""Rows of the instructions of a warpgroup, and its warps."""

_PRECISIONS: Mapping[str, Mapping[str, str]] = {
    "cuda": {HIGHEST: THREE_PRODUCTS, "high": "tf32", "medium": "tf32"},
    "rocm": {HIGHEST: "ieee", "high": "tf32", "medium": "tf32"},
}
"""Target -> `Target.float32_matmul_precision`, or that of convolutions -> input precision."""


def dot_precision(
    operand_type: str,
    target: Target,
    *,
    word: str = "",
    block_m: int = 0,
    num_warps: int = 0,
    b_k_contiguous: bool = True,
) -> str:
    """The input precision of `tl.dot`; empty for element types that have no choice.

    Args:
      operand_type: element type of the operands.
      target: the machine, with the precisions that were asked for.
      word: the precision that was asked for; empty for that of contractions.
      block_m: rows of A.
      num_warps: warps of a CTA.
      b_k_contiguous: whether elements of B along K are contiguous in memory.
    """
    if operand_type != "f32":
        return ""
    found = _PRECISIONS[target.name][word or target.float32_matmul_precision]
    six = not b_k_contiguous and uses_warpgroups(block_m, num_warps, target)
    return SIX_PRODUCTS if found == THREE_PRODUCTS and six else found


def of_convolution(operations: float, target: Target) -> str:
    """The precision of a convolution of f32: TF32 is for those that take long.

    Args:
      operations: its operations, twice its multiply-adds.
      target: the machine, with the precision that was asked for.
    """
    return HIGHEST if operations < MIN_TF32_OPERATIONS else target.float32_conv_precision


def is_one_product(target: Target) -> bool:
    """Whether matmuls of f32 are single products, of TF32, and no sums of several."""
    return target.float32_matmul_precision != HIGHEST


def uses_warpgroups(block_m: int, num_warps: int, target: Target) -> bool:
    """Whether warpgroups compute `tl.dot` together, with B in shared memory."""
    whole = block_m >= WARPGROUP_ROWS and num_warps % WARPGROUP_WARPS == 0
    return whole and target.arch == cuda.HOPPER


def precision_argument(precision: str) -> str:
    """The last argument of a call of `tl.dot`, or of a function around it; empty for none."""
    return f', input_precision="{precision}"' if precision else ""
