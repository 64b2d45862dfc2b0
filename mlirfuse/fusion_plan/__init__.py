"""Fusion plans: ops in a row that become one kernel, asked for before anything is compiled.

plan = FusionPlan(input=TensorSpec((1, 64, 56, 56)), target="cpu")
conv, bias, relu = plan.conv_forward(64, 3, padding=1), plan.bias(), plan.activation("relu")
print(plan.check())                                 one kernel, or the reason and the nearest
plan.compile()
args = plan.args()
args.set_conv(conv, weights=w)
args.set_bias(bias, b)
y = plan.execute(x, args=args)
"""

from mlirfuse.fusion_plan.activations import ACTIVATIONS
from mlirfuse.fusion_plan.arguments import PlanArguments
from mlirfuse.fusion_plan.codes import Check, Code, FusionPlanError
from mlirfuse.fusion_plan.description import Description
from mlirfuse.fusion_plan.plan import FusionOp, FusionPlan
from mlirfuse.fusion_plan.tensors import TensorSpec

__all__ = [
    "ACTIVATIONS",
    "Check",
    "Code",
    "Description",
    "FusionOp",
    "FusionPlan",
    "FusionPlanError",
    "PlanArguments",
    "TensorSpec",
]
