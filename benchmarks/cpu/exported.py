"""The files of a row that its systems share: inputs, float64 results, and the ONNX export."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import torch

from benchmarks.cpu.rows import Row
from benchmarks.models import Inputs, in_precision
from mlirfuse.benchmarking.messages import without_folders

_PLACE = re.compile(r"(Exception from|Check 'false' failed at) \S+:\d+:\s*")
"""Lines of OpenVINO's messages that only name its source files."""

MESSAGE_CHARS = 300
"""Maximum length of a reason."""

INPUTS, EXPECTED, ONNX = "inputs.pt", "expected.pt", "model.onnx"


def export(row: Row, folder: Path) -> dict[str, Any]:
    """Writes the files.

    Returns:
      `onnx_said`, the reason why there is no ONNX file, if there is none.
    """
    module, inputs = row.model()
    torch.save(inputs, folder / INPUTS)
    with torch.inference_mode():
        wide, wide_inputs = in_precision(module, inputs, torch.float64)
        found = wide(*wide_inputs)
    torch.save(list(found) if isinstance(found, tuple) else [found], folder / EXPECTED)
    try:
        _onnx(row, module, inputs, folder / ONNX)
    except Exception as error:  # Exporters fail with errors of any type.
        return {"onnx_said": said(error)}
    return {}


def _onnx(row: Row, module: torch.nn.Module, inputs: Inputs, path: Path) -> None:
    plain = path.with_name("plain.onnx") if row.dtype == "i8" else path
    logging.disable(logging.CRITICAL)
    program = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
    assert program is not None
    program.save(plain)
    if plain != path:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(
            plain, path, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"]
        )


def read(folder: Path) -> tuple[Inputs, list[torch.Tensor]]:
    """The inputs, and the results in float64."""
    return torch.load(folder / INPUTS), torch.load(folder / EXPECTED)


def error(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Maximum absolute error over the largest magnitude of a result; infinite for NaN."""
    worst = 0.0
    for result, exact in zip(found, expected, strict=True):
        if result.shape != exact.shape:
            return float("inf")
        wrong = float((result.double() - exact).abs().max() / exact.abs().max())
        worst = max(worst, wrong) if wrong == wrong else float("inf")
    return worst


def said(error: BaseException) -> str:
    """The message of a failure on one line, without folders."""
    text = _PLACE.sub("", without_folders(str(error)))
    return f"{type(error).__name__}: {text}"[:MESSAGE_CHARS]
