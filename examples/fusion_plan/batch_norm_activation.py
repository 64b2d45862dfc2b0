"""Batch norm in inference and activation in one kernel, in both modes of statistics."""

import numpy as np

from mlirfuse.plan import FusionPlan, TensorSpec

random = np.random.default_rng(0)
for mode in ("spatial", "per_activation"):
    plan = FusionPlan(input=TensorSpec((4, 8, 14, 14), "f32"), target="cpu")
    norm = plan.batch_norm_inference(mode)
    activation = plan.activation("clipped_relu")
    plan.compile()
    shape = norm.tensors["scale"].shape
    scale, bias, mean = random.standard_normal((3, *shape), dtype=np.float32)
    variance = np.abs(random.standard_normal(shape, dtype=np.float32)) + 0.5
    args = plan.args()
    args.set_batch_norm(norm, scale, bias, mean, variance, epsilon=1e-3)
    args.set_activation(activation, alpha=1.5)
    y = plan.execute(random.standard_normal(plan.input.shape, dtype=np.float32), args=args)
    print(f"{mode}: {plan.kernel.name}, results from {y.min()} to {y.max()}")
