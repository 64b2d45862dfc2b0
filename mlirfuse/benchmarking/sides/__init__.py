"""The systems that `mlirfuse-bench` compares, each in a process of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

OURS, CONTROL = "ours", "ours again"

STOCK, EAGER, INDUCTOR, ORT, OPENVINO, XLA = (
    *("stock", "eager", "inductor"),
    *("ort", "openvino", "xla"),
)

TORCH, JAX, ONNX, MLIR = "torch", "jax", "onnx", "mlir"
"""Kinds of models."""

_NAMES = {TORCH: "PyTorch", JAX: "JAX", ONNX: "ONNX", MLIR: "MLIR"}


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """A system that a program of ours is compared with.

    Attributes:
      summary: the system, for the help.
      kinds: kinds of the models that it takes.
      needs: modules of Python that it is made of -> how to get each.
      devices: names of the targets on which it runs; empty for all.
      packages: distributions whose versions are told.
    """

    summary: str
    kinds: tuple[str, ...]
    needs: Mapping[str, str]
    devices: tuple[str, ...]
    packages: tuple[str, ...]


_BENCH = "pip install 'mlirfuse[bench]'"
_TORCH = {"torch": "pip install 'mlirfuse[torch]'"}
_GPUS_OF_TORCH = ("cpu", "cuda", "rocm")

SIDES: Mapping[str, Side] = {
    STOCK: Side(
        "IREE without our passes", (TORCH, JAX, ONNX, MLIR), {}, (), ("iree-base-compiler",)
    ),
    EAGER: Side("PyTorch as it stands", (TORCH,), _TORCH, _GPUS_OF_TORCH, ("torch",)),
    INDUCTOR: Side("torch.compile", (TORCH,), _TORCH, _GPUS_OF_TORCH, ("torch",)),
    ORT: Side(
        "ONNX Runtime", (TORCH, ONNX), {"onnxruntime": _BENCH}, ("cpu", "cuda"), ("onnxruntime",)
    ),
    OPENVINO: Side("OpenVINO", (TORCH, ONNX), {"openvino": _BENCH}, ("cpu",), ("openvino",)),
    XLA: Side(
        "XLA, by jax.jit", (JAX,), {"jax": "pip install 'mlirfuse[jax]'"}, ("cpu", "cuda"), ("jax",)
    ),
}
"""Name -> the system, in the order in which they are shown."""


def unsuited(name: str, kind: str, target: str) -> str | None:
    """The reason why a side does not take a model, or does not run on a target; None otherwise.

    Args:
      name: a key of `SIDES`.
      kind: kind of the model.
      target: name of the target.
    """
    side = SIDES[name]
    if kind not in side.kinds:
        taken = " and ".join(_NAMES[taken] for taken in side.kinds)
        return f"takes models of {taken}; this one is of {_NAMES[kind]}"
    if side.devices and target not in side.devices:
        return f"runs on {', '.join(side.devices)} alone, not on {target}"
    return None
