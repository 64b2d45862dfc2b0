"""The input precision of `tl.dot` for operands of f32.

`tf32x3` splits each operand into two numbers of TF32 and adds three products on tensor cores: its
error is about that of f32. Where an operand is infinite or NaN only the product of the first parts
counts, so results that are not finite are those of f32. AMD's matrix instructions take f32 itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlirfuse.targets.base import Target

HIGHEST = "highest"
"""The value of `Target.float32_matmul_precision` that keeps the accuracy of f32."""

THREE_PRODUCTS = "tf32x3"

_PRECISIONS: Mapping[str, Mapping[str, str]] = {
    "cuda": {HIGHEST: THREE_PRODUCTS, "high": "tf32", "medium": "tf32"},
    "rocm": {HIGHEST: "ieee", "high": "tf32", "medium": "tf32"},
}
"""Target -> `Target.float32_matmul_precision` -> input precision."""


def dot_precision(operand_type: str, target: Target) -> str:
    """The input precision of `tl.dot`; empty for element types that have no choice.

    Args:
      operand_type: element type of the operands.
      target: the machine, with the precision that was asked for.
    """
    if operand_type != "f32":
        return ""
    return _PRECISIONS[target.name][target.float32_matmul_precision]


def precision_argument(precision: str) -> str:
    """The last argument of a call of `tl.dot`, or of a function around it; empty for none."""
    return f', input_precision="{precision}"' if precision else ""
