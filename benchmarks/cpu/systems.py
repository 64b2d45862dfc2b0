"""Names of the systems and of their worker; importable without PyTorch."""

from __future__ import annotations

WORKER = "benchmarks.cpu.worker"
"""The module that runs as the process of a system."""

OURS, STOCK, STOCK_BEST = "ours", "stock", "stock_best"

EAGER, TORCH_COMPILE, MAX_AUTOTUNE = "eager", "torch_compile", "max_autotune"

ONNX_RUNTIME, OPENVINO = "onnxruntime", "openvino"

EXPORT = "export"
"""The process that writes the files that the systems of a row read."""

IREE = (OURS, STOCK, STOCK_BEST)
"""Systems whose programs IREE compiles."""

FROM_ONNX = (ONNX_RUNTIME, OPENVINO)
"""Systems that read the ONNX export; IREE's read it in rows of `i8`. They alone can be limited to
AVX2 there: PyTorch's quantized layers take the widest instructions of the machine."""

PEERS = (EAGER, TORCH_COMPILE, MAX_AUTOTUNE, ONNX_RUNTIME, OPENVINO)

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
