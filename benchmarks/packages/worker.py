"""One network: compiled, compared with ONNX Runtime, timed beside it. A line of JSON in and out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import timing

TOLERANCE = 1e-3
"""Error of a result in the norm, above which it is wrong; relative to the norm, or to `SMALL` for
each element: a detector that finds nothing has results near zero."""

QUANTIZED_TOLERANCE = 2e-2
"""The same for networks that quantize activations, where a rounding moves a whole step."""

SMALL = 1e-3

ROUNDS = 15


def main() -> int:
    """Reads the request from standard input, and writes the outcome."""
    request = json.loads(sys.stdin.read())
    try:
        found = _measured(request)
    except Exception as error:  # of any kind: it is the outcome
        found = {"outcome": "failed", "said": f"{type(error).__name__}: {error}"[:300]}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def _measured(request: Mapping[str, Any]) -> dict[str, Any]:
    import onnx
    import onnxruntime

    import mlirfuse

    path, numbers = request["path"], request["numbers"]
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = timing.THREADS, 3
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    feeds = _arguments(session.get_inputs(), request["shapes"], numbers)
    expected = session.run(None, feeds)
    example = None
    if request["example"]:
        example = {name: numbers.get(name, value) for name, value in feeds.items()}
    program = mlirfuse.compile(path, example, target=request["target"], cache=False)
    taken = [feeds[spec.name] for spec in program.inputs]
    results = program(*taken)
    results = results if isinstance(results, tuple) else (results,)
    kinds = {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}
    tolerance = QUANTIZED_TOLERANCE if any("Quantize" in kind for kind in kinds) else TOLERANCE
    error = max(_error(*pair) for pair in zip(results, expected, strict=True))
    samples = timing.interleave(
        {"ours": lambda: program(*taken), "peer": lambda: session.run(None, feeds)},
        rounds=ROUNDS,
    )
    ratio = samples.ratio("peer", "ours")
    return {
        "outcome": "right" if error <= tolerance else "wrong",
        "error": error,
        "ours_ms": samples.milliseconds("ours"),
        "peer_ms": samples.milliseconds("peer"),
        "ratio": ratio.median,
        "kernels": len(program.kernels),
    }


def _arguments(
    inputs: Any, shapes: Mapping[str, list[int]], numbers: Mapping[str, int]
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    kinds = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(int64)": np.int64}
    made = {}
    for spec in inputs:
        kind = kinds[spec.type]
        if spec.name in numbers:
            made[spec.name] = np.array(numbers[spec.name], kind)
        elif np.issubdtype(kind, np.integer):
            made[spec.name] = rng.integers(0, 256, shapes.get(spec.name, spec.shape)).astype(kind)
        else:
            made[spec.name] = rng.standard_normal(shapes.get(spec.name, spec.shape)).astype(kind)
    return made


def _error(result: Any, expected: np.ndarray) -> float:
    got, wanted = np.asarray(result), expected.astype(np.float64)
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        return float("inf")
    scale = max(float(np.linalg.norm(wanted)), SMALL * np.sqrt(wanted.size))
    return float(np.linalg.norm(got.astype(np.float64) - wanted)) / scale


if __name__ == "__main__":
    sys.exit(main())
