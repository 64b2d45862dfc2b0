"""`verify` compares with the framework: a fault of the import is in every program of ours."""

import jax.numpy as jnp
import numpy as np
import onnx
import onnx.helper
import onnx.parser
import torch

import mlirfuse
from mlirfuse.frontends import lowering, torch_boundary
from mlirfuse.tools.compile import main as compile_main


def clamp(x):
    return torch.clamp(x, -1.0, 1.0), x.to(torch.uint8)


INPUTS = [np.array([[0.5, float("nan"), 250.0]], np.float32)]


def test_torch():
    checked = mlirfuse.verify(clamp, (torch.zeros(1, 3),))
    assert checked.ok
    assert [d.against for d in checked.framework] == ["torch", "torch"]
    assert "against torch" in checked.text()


def test_a_wrong_import_is_found(monkeypatch):
    """The unfused program and the float64 reference have the fault too."""
    monkeypatch.setattr(lowering, "propagate_nan", lambda module: False)
    checked = mlirfuse.verify(clamp, (torch.zeros(1, 3),), inputs=INPUTS)
    assert all(d.ok for d in checked.outputs)
    assert not checked.ok
    assert not checked.framework[0].ok
    assert "against torch" in checked.failure()


def test_another_element_type_is_found(monkeypatch):
    monkeypatch.setattr(torch_boundary, "_unsigned", lambda node, dtype: dtype)
    checked = mlirfuse.verify(clamp, (torch.zeros(1, 3),))
    assert [d.ok for d in checked.framework] == [True, False]
    assert "ui8 in torch" in checked.failure()


def test_jax():
    def model(x):
        return {"a": jnp.sin(x), "b": x.astype(jnp.uint8)}

    checked = mlirfuse.verify(model, (np.ones((2, 3), np.float32),))
    assert checked.ok, checked.text()
    assert [d.against for d in checked.framework] == ["jax", "jax"]


def test_onnx(tmp_path, capsys):
    graph = onnx.parser.parse_graph("m (float[2, 3] x) => (float[2, 3] y) { y = Softmax(x) }")
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset), str(tmp_path / "m.onnx"))
    output = str(tmp_path / "m.vmfb")
    assert compile_main([str(tmp_path / "m.onnx"), "-o", output, "--verify"]) == 0
    assert "against onnx" in capsys.readouterr().err


def test_mlir_and_state_have_no_framework():
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    checked = mlirfuse.verify(text)
    assert checked.ok
    assert checked.framework == ()
    assert "not compared with the framework" in checked.text()
