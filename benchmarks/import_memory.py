"""Peak memory of importing a large model, as multiples of the model's size.

    python -m benchmarks.import_memory --gb=1 --frontend=torch

The import runs in a fresh process that holds the model, like a user's. The output is the peak of
that process, of its largest child, and of all of them together, with and without pages of mapped
files, which the system can drop at any time. Shared pages count in proportion.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SAMPLE_SECONDS = 0.005
WIDTH = 4096
"""K and N of one float32 weight: 64 MiB."""

_MARK = "importing"


@dataclasses.dataclass(slots=True)
class Peaks:
    """Peak memory, in bytes; `anonymous` excludes mapped files."""

    own: int = 0
    child: int = 0
    together: int = 0
    anonymous: int = 0
    before: int = 0


def measure(gigabytes: float, frontend: str) -> Peaks:
    """Imports a stack of matmuls in a separate process.

    Args:
      gigabytes: size of the weights, in 10^9 bytes.
      frontend: `torch`, `jax` or `onnx`.
    """
    layers = max(1, round(gigabytes * 1e9 / (4 * WIDTH * WIDTH)))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.import_memory", "--child", folder]
        process = subprocess.Popen(
            [*command, f"--frontend={frontend}", f"--layers={layers}"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        assert process.stdout is not None
        if process.stdout.readline().strip() != _MARK:
            raise RuntimeError(f"building the {frontend} model failed")
        peaks = Peaks(before=_memory(process.pid)[0])
        while process.poll() is None:
            own = _memory(process.pid)
            children = [_memory(pid) for pid in _descendants(process.pid) if _runs_a_tool(pid)]
            peaks.own = max(peaks.own, own[0])
            peaks.child = max([peaks.child, *(c[0] for c in children)])
            peaks.together = max(peaks.together, own[0] + sum(c[0] for c in children))
            peaks.anonymous = max(peaks.anonymous, own[1] + sum(c[1] for c in children))
            time.sleep(SAMPLE_SECONDS)
        process.stdout.close()
    if process.returncode:
        raise RuntimeError(f"importing the {frontend} model failed")
    return peaks


def _memory(pid: int) -> tuple[int, int]:
    """Proportional and anonymous memory of a process, in bytes; zeros if it has ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0, 0
    fields = dict(line.split(":", 1) for line in rollup.splitlines()[1:])
    return int(fields["Pss"].split()[0]) * 1024, int(fields["Pss_Anon"].split()[0]) * 1024


def _descendants(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(c) for t in tasks for c in (t / "children").read_text().split()]
    except OSError:
        return []
    return children + [d for child in children for d in _descendants(child)]


def _runs_a_tool(pid: int) -> bool:
    """Whether a child runs another executable; before exec it shares its parent's memory."""
    try:
        return os.readlink(f"/proc/{pid}/exe") != os.readlink("/proc/self/exe")
    except OSError:
        return False


def _import(frontend: str, layers: int, folder: Path) -> None:
    """The measured process: builds the model, prints the mark, imports it."""
    from mlirfuse.frontends import import_model

    if frontend == "torch":
        import torch

        model = torch.nn.Sequential(
            *(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers))
        ).eval()
        arguments = (model, (torch.zeros(1, WIDTH),))
    elif frontend == "jax":
        import jax
        import numpy as np

        weights = [np.full((WIDTH, WIDTH), i, np.float32) for i in range(layers)]
        for weight in weights:
            weight[0, 0] = -1

        def matmuls(x: jax.Array) -> jax.Array:
            for weight in weights:
                x = x @ weight
            return x

        arguments = (jax.jit(matmuls), (jax.ShapeDtypeStruct((1, WIDTH), np.float32),))
    else:
        arguments = (_write_onnx(layers, folder), None)
    print(_MARK, flush=True)
    import_model(*arguments)


def _write_onnx(layers: int, folder: Path) -> str:
    """Writes the model in a child process, since users of ONNX have only the file in memory."""
    path = folder / "model.onnx"
    if pid := os.fork():
        os.waitpid(pid, 0)
        return str(path)
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    node = helper.make_node
    value = helper.make_tensor_value_info
    weights = [np.random.default_rng(i).random((WIDTH, WIDTH), np.float32) for i in range(layers)]
    graph = helper.make_graph(
        [node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(layers)],
        "g",
        [value("x0", onnx.TensorProto.FLOAT, [1, WIDTH])],
        [value(f"x{layers}", onnx.TensorProto.FLOAT, [1, WIDTH])],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    os._exit(0)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=1.0, help="size of the weights, 10^9 bytes")
    parser.add_argument("--frontend", choices=("torch", "jax", "onnx"), default="torch")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--layers", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        _import(options.frontend, options.layers, options.child)
        return
    peaks = measure(options.gb, options.frontend)
    size = max(1, round(options.gb * 1e9 / (4 * WIDTH * WIDTH))) * 4 * WIDTH * WIDTH
    print(json.dumps({"frontend": options.frontend, "model_bytes": size}))
    for field in dataclasses.fields(peaks):
        peak = getattr(peaks, field.name)
        print(f"{field.name:10s} {peak / 1e9:7.3f} GB  {peak / size:5.2f} x the weights")


if __name__ == "__main__":
    main()
