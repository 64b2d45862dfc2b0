"""Fusion plans under their short name; see `mlirfuse.fusion_plan`."""

from mlirfuse.fusion_plan import (
    ACTIVATIONS,
    Check,
    Code,
    FusionOp,
    FusionPlan,
    FusionPlanError,
    PlanArguments,
    TensorSpec,
)

__all__ = [
    "ACTIVATIONS",
    "Check",
    "Code",
    "FusionOp",
    "FusionPlan",
    "FusionPlanError",
    "PlanArguments",
    "TensorSpec",
]
