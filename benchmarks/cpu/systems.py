"""Names of the systems and the environment of their processes; importable without PyTorch."""

from __future__ import annotations

from mlirfuse.runtime.devices import THREADS_VARIABLE
from mlirfuse.targets import cpu
from mlirfuse.targets.cpu_models import X86_64

OURS, STOCK, STOCK_BEST = "ours", "stock", "stock_best"

EAGER, TORCH_COMPILE, MAX_AUTOTUNE = "eager", "torch_compile", "max_autotune"

ONNX_RUNTIME, OPENVINO = "onnxruntime", "openvino"

EXPORT = "export"
"""The process that writes the files that the systems of a row read."""

IREE = (OURS, STOCK, STOCK_BEST)
"""Systems whose programs IREE compiles."""

FROM_ONNX = (ONNX_RUNTIME, OPENVINO)
"""Systems that read the ONNX export; IREE's read it in rows of `i8`."""

PEERS = (EAGER, TORCH_COMPILE, MAX_AUTOTUNE, ONNX_RUNTIME, OPENVINO)

LIMITED_PEERS = (EAGER, TORCH_COMPILE, MAX_AUTOTUNE)
"""Peers that a target can limit to AVX2: ONNX Runtime, and OpenVINO for matmuls, take the widest
instructions of the machine."""

SYSTEMS = (*IREE, *PEERS)

COLUMNS = {
    STOCK: "IREE",
    STOCK_BEST: "tiled",
    EAGER: "eager",
    TORCH_COMPILE: "compile",
    MAX_AUTOTUNE: "auto",
    ONNX_RUNTIME: "ORT",
    OPENVINO: "OV",
}
"""System -> its column."""

_AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
"""Variables of PyTorch's own code, of MKL and of oneDNN that limit them to AVX2."""


def limited_to_avx2(arch: str) -> bool:
    """Whether the target is a named CPU with AVX2 and nothing wider.

    Args:
      arch: LLVM's name of the CPU, or `host`.
    """
    return arch != "host" and cpu.instruction_set(cpu.device(arch, X86_64)) == "avx2"


def environment(threads: int, arch: str) -> dict[str, str]:
    """Variables of a system's process: its number of threads and its instruction set.

    Args:
      threads: number of threads.
      arch: LLVM's name of the CPU, or `host`.
    """
    count = str(threads)
    found = {
        THREADS_VARIABLE: count,
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        # Processes that compile would not stop with their parent.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    return found | (_AVX2 if limited_to_avx2(arch) else {})
