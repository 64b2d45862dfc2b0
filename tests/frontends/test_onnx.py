"""ONNX files: the networks in the onnx wheel, numbers against ONNX's reference, refusals."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from helpers.stock_program import relative_error, stock_program, text
from mlirfuse.core import ImportFailedError, UsageError
from mlirfuse.frontends import import_model

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.parametrize("name", ["squeezenet", "resnet50", "shufflenet"])
def test_network_of_the_onnx_wheel(name):
    """Input as ONNX's own test runner makes it; the networks are of operator set 9."""
    imported = import_model(LIGHT / f"light_{name}.onnx")
    shape = (1, 3, 224, 224)
    assert [s.shape for s in imported.inputs] == [shape]
    assert imported.inputs[0].name.endswith("data_0")
    size = np.prod(shape)
    image = (np.arange(size).reshape(shape) / size).astype(np.float32)
    (result,) = stock_program(imported)(image)
    expected = onnx.load_tensor(str(LIGHT / f"light_{name}_output_0.pb"))
    np.testing.assert_allclose(result, numpy_helper.to_array(expected), rtol=1e-3, atol=1e-7)


def convolution_net(dtype=np.float32, opset=13, seed=0):
    """A convolution with two forms of weights, a dynamic batch, and a shape among the constants."""
    rng = np.random.default_rng(seed)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def random(*shape):
        return (rng.standard_normal(shape) / 5).astype(dtype)

    node, value = helper.make_node, helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], "conv0", strides=[2, 2]),
            node("Relu", ["a"], ["b"], "relu0"),
            node("Reshape", ["b", "shape"], ["c"], "flatten0"),
            node("MatMul", ["c", "dense.weight"], ["y"], "dense0"),
            node("Softmax", ["y"], ["p"], "softmax0"),
        ],
        "a net: with a name",
        [value("x", kind, ["n", 3, 9, 9])],
        [value("p", kind, ["n", 10]), value("y", kind, ["n", 10])],
        [
            numpy_helper.from_array(random(40, 3, 3, 3), "conv.weight"),
            helper.make_tensor("conv.bias", kind, [40], random(40)),  # not as raw bytes
            numpy_helper.from_array(random(640, 10), "dense.weight"),
            numpy_helper.from_array(np.array([-1, 640]), "shape"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model, random(2, 3, 9, 9)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float32, 1e-5), (np.float16, 4e-3), (np.float64, 1e-12)]
)
def test_convolution_net_agrees_with_the_reference(dtype, tolerance, tmp_path):
    model, x = convolution_net(dtype)
    onnx.save(model, tmp_path / "net.onnx")
    imported = import_model(tmp_path / "net.onnx")
    element = f"f{8 * np.dtype(dtype).itemsize}"
    assert [(s.name, str(s)) for s in imported.inputs] == [("x", f"?x3x9x9x{element}")]
    assert [(s.name, str(s)) for s in imported.outputs] == [
        ("p", f"?x10x{element}"),
        ("y", f"?x10x{element}"),
    ]
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    got = stock_program(imported)(x)
    for ours, theirs in zip(got, expected, strict=True):
        assert relative_error(ours, theirs) < tolerance


def test_half_precision_sums(tmp_path):
    """IREE alone accumulates in the element type: 5 % off for a norm of 4096 elements."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((2, 4, 2048)) / 8 + 0.25).astype(np.float16)
    scale = rng.random(4).astype(np.float16)
    node, half = helper.make_node, TensorProto.FLOAT16
    graph = helper.make_graph(
        [
            node("ReduceMean", ["x"], ["mean"], axes=[-1]),
            node("ReduceL2", ["x"], ["norm"], axes=[-1]),
            node("LogSoftmax", ["x"], ["log"], axis=-1),
            node("InstanceNormalization", ["x", "scale", "scale"], ["instance"]),
            node("GlobalAveragePool", ["x"], ["pool"]),
            node("ReduceSum", ["mean"], ["sum"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", half, x.shape)],
        [
            helper.make_tensor_value_info(name, half, shape)
            for name, shape in {
                "norm": (2, 4, 1),
                "log": x.shape,
                "instance": x.shape,
                "pool": (2, 4, 1),
                "sum": (1, 1, 1),
            }.items()
        ],
        [numpy_helper.from_array(scale, "scale")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "half.onnx")
    imported = import_model(tmp_path / "half.onnx")
    assert [s.dtype for s in imported.inputs + imported.outputs] == ["f16"] * 6
    exact = x.astype(np.float64)
    mean = exact.mean(-1, keepdims=True)
    exponentials = np.exp(exact)
    wide = scale.astype(np.float64)[:, None]
    normal = (exact - mean) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
    expected = [
        np.sqrt((exact**2).sum(-1, keepdims=True)),
        np.log(exponentials / exponentials.sum(-1, keepdims=True)),
        normal * wide + wide,
        mean,
        mean.sum(keepdims=True),
    ]
    for ours, reference in zip(stock_program(imported)(x), expected, strict=True):
        assert relative_error(ours, reference) < 1e-3


def test_older_operator_set_is_converted(tmp_path):
    """Before version 13, Softmax is over all trailing axes."""
    node, value = helper.make_node, helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("Softmax", ["x"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [2, 3, 4])],
        [value("y", TensorProto.FLOAT, [2, 3, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    onnx.save(model, tmp_path / "old.onnx")
    x = np.random.default_rng(0).random((2, 3, 4), np.float32)
    (result,) = stock_program(import_model(tmp_path / "old.onnx"))(x)
    exponentials = np.exp(x)
    expected = exponentials / exponentials.sum((1, 2), keepdims=True)
    assert relative_error(result, expected) < 1e-5


@pytest.mark.parametrize(
    ("target", "shape"), [([-1, 8], ["p", 8]), ([-1], ["p"]), ([-1, 4, 1, 2], ["p", 4, 1, 2])]
)
@pytest.mark.parametrize("constant", [False, True])
def test_reshapes_that_merge_dynamic_sizes(target, shape, constant, tmp_path):
    node, value = helper.make_node, helper.make_tensor_value_info
    given = numpy_helper.from_array(np.array(target), "target")
    nodes = [node("Relu", ["x"], ["r"]), node("Reshape", ["r", "target"], ["y"])]
    if constant:
        nodes.insert(0, node("Constant", [], ["target"], value=given))
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["b", "t", 2, 4])],
        [value("y", TensorProto.FLOAT, shape)],
        [] if constant else [given],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "merged.onnx")
    program = stock_program(import_model(tmp_path / "merged.onnx"))
    for sizes in ((1, 5), (3, 5)):
        x = np.random.default_rng(0).standard_normal((*sizes, 2, 4)).astype(np.float32)
        (result,) = program(x)
        np.testing.assert_array_equal(result, np.maximum(x, 0).reshape(target))


def test_results_without_a_shape_or_a_type_have_the_inferred_one(tmp_path):
    """ONNX Runtime takes such files; ONNX's checker does not."""
    model, _ = convolution_net()
    known = import_saved(model, tmp_path / "known.onnx")
    for result in model.graph.output:
        result.type.tensor_type.ClearField("shape")
    assert import_saved(model, tmp_path / "rank.onnx").outputs == known.outputs
    for result in model.graph.output:
        result.ClearField("type")
    assert import_saved(model, tmp_path / "type.onnx").outputs == known.outputs


def import_saved(model, path):
    onnx.save(model, path)
    return import_model(path)


def test_weights_are_resources(tmp_path):
    model, _ = convolution_net()
    onnx.save(model, tmp_path / "net.onnx")
    imported = import_model(tmp_path / "net.onnx")
    content = imported.path.read_bytes()
    assert b"elided" not in content
    for tensor in model.graph.initializer[:3:2]:
        assert numpy_helper.to_array(tensor).tobytes() in content
    printed = text(imported)
    assert "dense_resource<conv_weight> : tensor<40x3x3x3xf32>" in printed
    assert 'loc("conv0")' in printed


def test_external_data(tmp_path):
    model, x = convolution_net()
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data")
    assert (tmp_path / "net.data").stat().st_size > 10000
    got = stock_program(import_model(tmp_path / "net.onnx"))(x)
    assert relative_error(got[0], expected[0]) < 1e-5
    (tmp_path / "net.data").unlink()
    with pytest.raises(ImportFailedError, match=r"net\.data"):
        import_model(tmp_path / "net.onnx")


def one_node(kind, domain=""):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(kind, ["x"], ["y"], "the_node", domain=domain)],
        "g",
        [value("x", TensorProto.FLOAT, [2, 3])],
        [value("y", TensorProto.FLOAT, [2, 3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (one_node("NoSuchOp"), "not a valid ONNX model: No Op registered for NoSuchOp"),
        (one_node("Mine", "com.acme"), r"IREE has no lowering for 'onnx\.Mine' \(the_node\)$"),
        (one_node("Add"), "not a valid ONNX model: .*Add.* has input size 1"),
    ],
)
def test_unsupported_operator_is_named(model, message, tmp_path):
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(ImportFailedError, match=message) as caught:
        import_model(tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)


VALID = one_node("Relu").SerializeToString()


@pytest.mark.parametrize(
    "content",
    [VALID[:20], VALID[:-1], VALID[: len(VALID) // 2], b"hello", bytes(range(256)), VALID * 2],
)
def test_damaged_file_is_refused(content, tmp_path):
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ImportFailedError, match=r"model\.onnx: not a valid ONNX model: ") as caught:
        import_model(tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)


def test_empty_file_is_refused(tmp_path):
    (tmp_path / "model.onnx").touch()
    with pytest.raises(ImportFailedError, match=r"model\.onnx is empty; a \.mlir"):
        import_model(tmp_path / "model.onnx")


def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "model.onnx").write_bytes(VALID)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UsageError, match=r"needs onnx: pip install 'mlirfuse\[onnx\]'$"):
        import_model(tmp_path / "model.onnx")
