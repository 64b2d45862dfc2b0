"""Convolution, bias and activation in one kernel, run twice with other arguments."""

import numpy as np

from mlirfuse.plan import FusionPlan, TensorSpec

plan = FusionPlan(input=TensorSpec((1, 8, 28, 28), "f32"), direction="vertical", target="cpu")

# The order of the ops is that of the data.
conv = plan.conv_forward(16, 3, padding=1)
bias = plan.bias()
activation = plan.activation("leaky_relu")

answer = plan.check()
if not answer:
    raise SystemExit(f"no single kernel: {answer}")
print("output", plan.output, "weights", conv.tensors["weights"])

plan.compile()
print("kernel", plan.kernel.name)

random = np.random.default_rng(0)
x = random.standard_normal(plan.input.shape, dtype=np.float32)
y = np.empty(plan.output.shape, np.float32)

args = plan.args()
args.set_conv(conv, 1.0, 0.0, random.standard_normal((16, 8, 3, 3), dtype=np.float32))
args.set_bias(bias, random.standard_normal(16, dtype=np.float32))
for alpha in (0.01, 0.3):  # run-time arguments: nothing is compiled again
    args.set_activation(activation, alpha=alpha)
    plan.execute(x, y, args)
    print(f"alpha {alpha}: smallest {y.min():.3f}, largest {y.max():.3f}")
