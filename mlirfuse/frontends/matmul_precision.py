"""The precision of f32 contractions that a framework is set to, in the words of PyTorch.

PyTorch computes in f32 with `highest`, which is its default, and in TF32 with `high` and `medium`
on CUDA. Its convolutions have a setting of their own, which is TF32 by default. JAX leaves its
default to the backend, which is TF32 on CUDA: here it counts as `highest`.
"""

from __future__ import annotations

import sys

HIGHEST, HIGH, MEDIUM = "highest", "high", "medium"

_OF_JAX = {
    "high": HIGH,
    "tensorfloat32": HIGH,
    "bfloat16_3x": HIGH,
    "fastest": MEDIUM,
    "bfloat16": MEDIUM,
}
"""Values of `jax_default_matmul_precision` that are not f32."""


def of_framework(frontend: str) -> str:
    """The precision that the framework of a model is set to in this process.

    Args:
      frontend: `torch`, `jax`, `onnx` or `mlir`; the last two have no such setting.
    """
    if frontend == "torch":
        return _of_torch()
    return _of_jax() if frontend == "jax" else HIGHEST


def _of_torch() -> str:
    """PyTorch's setting: `set_float32_matmul_precision`, `allow_tf32`, or `fp32_precision`."""
    torch = sys.modules.get("torch")
    if torch is None:
        return HIGHEST
    try:
        found: str = torch.get_float32_matmul_precision()
    except RuntimeError:  # PyTorch refuses the question where its newer setting was changed
        newer = getattr(torch.backends.cuda.matmul, "fp32_precision", "")
        return HIGH if newer == "tf32" else HIGHEST
    return found if found in (HIGHEST, HIGH, MEDIUM) else HIGHEST


def of_torch_convolutions() -> str:
    """PyTorch's setting of convolutions on CUDA: `cudnn.conv.fp32_precision`, or `allow_tf32`."""
    torch = sys.modules.get("torch")
    if torch is None:
        return HIGHEST
    cudnn = torch.backends.cudnn
    newer = getattr(getattr(cudnn, "conv", None), "fp32_precision", None)
    if newer is None:
        return HIGH if cudnn.allow_tf32 else HIGHEST
    return HIGH if newer == "tf32" else HIGHEST


def _of_jax() -> str:
    jax = sys.modules.get("jax")
    if jax is None:
        return HIGHEST
    return _OF_JAX.get(str(jax.config.jax_default_matmul_precision), HIGHEST)
