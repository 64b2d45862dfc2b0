"""The kernel families: one line each, the only registration there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlirfuse.kernels.attention.family import ATTENTION
from mlirfuse.kernels.convolution.family import CONVOLUTION
from mlirfuse.kernels.data_movement.family import DATA_MOVEMENT
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.matmul.family import MATMUL
from mlirfuse.kernels.pointwise.family import POINTWISE
from mlirfuse.kernels.pooling.family import POOLING
from mlirfuse.kernels.reduction.family import REDUCTION

FAMILIES: Mapping[str, KernelFamily[Any, Any, Any]] = {
    family.name: family
    for family in (MATMUL, CONVOLUTION, ATTENTION, REDUCTION, POINTWISE, POOLING, DATA_MOVEMENT)
}
"""Name of a family -> the family."""

FAMILY_OF_ENTRY: Mapping[str, KernelFamily[Any, Any, Any]] = {
    **FAMILIES,
    "transpose": POINTWISE,
    "concat": DATA_MOVEMENT,
}
"""`Problem.family`, under which configurations are filed -> the family."""
