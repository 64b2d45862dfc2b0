"""Batch norm with the statistics of the batch, and activation: a forward pass of training."""

import numpy as np

from mlirfuse.plan import FusionPlan, TensorSpec

plan = FusionPlan(input=TensorSpec((8, 4, 14, 14), "f32"), target="cpu")
norm = plan.batch_norm_forward_training()
plan.activation("relu")
plan.compile()

random = np.random.default_rng(0)
channels = norm.tensors["scale"].shape
scale, bias = random.standard_normal((2, *channels), dtype=np.float32)
running = np.zeros(channels, np.float32), np.ones(channels, np.float32)
args = plan.args()
for step in range(3):
    args.set_batch_norm_training(norm, scale, bias, *running, momentum=0.1)
    x = random.standard_normal(plan.input.shape, dtype=np.float32) + 2
    y, mean, inverse_deviation, *running = plan.execute(x, args=args)
    print(f"step {step}: mean {mean.mean():.3f}, running mean {running[0].mean():.3f}")

gradient = FusionPlan(input=TensorSpec((8, 4, 14, 14), "f32"), target="cuda:sm_90")
gradient.activation_backward("relu")
gradient.batch_norm_backward()
print("the gradients:", gradient.check())
