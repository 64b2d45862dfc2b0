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
    of_convolution: bool = False,
    block_m: int = 0,
    num_warps: int = 0,
    b_k_contiguous: bool = True,
) -> str:
    """The input precision of `tl.dot`; empty for element types that have no choice.

    Args:
      operand_type: element type of the operands.
      target: the machine, with the precisions that were asked for.
      of_convolution: whether the model has a convolution, which has a precision of its own.
      block_m: rows of A.
      num_warps: warps of a CTA.
      b_k_contiguous: whether elements of B along K are contiguous in memory.
    """
    if operand_type != "f32":
        return ""
    word = target.float32_conv_precision if of_convolution else target.float32_matmul_precision
    found = _PRECISIONS[target.name][word]
    six = not b_k_contiguous and uses_warpgroups(block_m, num_warps, target)
    return SIX_PRODUCTS if found == THREE_PRODUCTS and six else found


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
