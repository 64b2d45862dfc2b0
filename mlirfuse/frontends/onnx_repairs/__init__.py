"""Repairs of ONNX graphs before IREE's importer: operators that IREE 3.13 has no lowering for, or a
wrong one, as operators that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlirfuse.frontends.onnx_repairs.accumulation import ACCUMULATING, accumulate_wide
from mlirfuse.frontends.onnx_repairs.builder import Repair
from mlirfuse.frontends.onnx_repairs.functions import expand
from mlirfuse.frontends.onnx_repairs import shapes

__all__ = ["REPAIRS"]

_TABLE: dict[str, Sequence[Repair]] = {
    "Expand": (shapes.expand,),
    "Reshape": (shapes.reshape,),
}

_FUNCTIONS = (
    "AffineGrid",
    "Attention",
    "BlackmanWindow",
    "CausalConvWithState",
    "CenterCropPad",
    "FlexAttention",
    "LinearAttention",
)

REPAIRS: Mapping[str, Sequence[Repair]] = {
    kind: (
        *((accumulate_wide,) if kind in ACCUMULATING else ()),
        *_TABLE.get(kind, ()),
        *((expand,) if kind in _FUNCTIONS else ()),
    )
    for kind in {*_TABLE, *ACCUMULATING, *_FUNCTIONS}
}
"""Repairs by operator, in the order in which they are tried."""
