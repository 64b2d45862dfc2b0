"""Sizes that an ONNX file leaves open: example inputs, `--shapes`, and programs for any size."""

import math

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import mlirfuse
from helpers.onnx_text import saved
from mlirfuse.core import CallError, ImportFailedError, UsageError
from mlirfuse.frontends import import_model
from mlirfuse.support.shapes import Shape, example_inputs
from mlirfuse.tools.compile import main

NET = """net (float[n,3,h,w] x, int64 rate) => (float[n,k] y) {
  half = Constant<value = int64 {2}>()
  slow = Equal(rate, half)
  z = If(slow) <then_branch = slower() => (float[n,3,p,q] s) { s = AveragePool<
          kernel_shape=[2,2], strides=[2,2]>(x) },
      else_branch = faster() => (float[n,3,p,q] f) { f = Identity(x) }>
  r = Relu(z)
  y = Flatten(r)
}"""


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def path_of(text, folder):
    """The file of a model."""
    return saved(text, folder, opset=19, ir_version=9)[1]


def test_example_inputs_give_sizes_and_constants(tmp_path):
    path = path_of(NET, tmp_path)
    x = floats(2, 3, 4, 6)
    program = mlirfuse.compile(path, {"x": x, "rate": 2})
    assert [spec.shape for spec in program.inputs] == [(2, 3, 4, 6)]
    assert not program.report.notes
    pooled = np.maximum(x.reshape(2, 3, 2, 2, 3, 2).mean((3, 5)), 0).reshape(2, -1)
    np.testing.assert_allclose(program(x), pooled, 1e-6, 1e-6)
    with pytest.raises(CallError, match="expected 2x3x4x6xf32"):
        program(floats(2, 3, 4, 8))


def test_other_sizes_are_compiled_when_they_come(tmp_path):
    path = path_of(NET, tmp_path)
    program = mlirfuse.compile(path, (floats(1, 3, 4, 4), 1), guard="recompile")
    x = floats(1, 3, 6, 2)
    with pytest.raises(UsageError, match="1 example inputs for a model that has 2: x, rate"):
        program(x)
    plain = path_of("net (float[n,3] x) => (float[n,3] y) { y = Relu(x) }", tmp_path)
    program = mlirfuse.compile(plain, (floats(2, 3),), guard="recompile")
    np.testing.assert_array_equal(program(floats(5, 3)), np.maximum(floats(5, 3), 0))


def test_open_sizes_are_noted(tmp_path):
    path = path_of("net (float[n,3] x) => (float[n,3] y) { y = Relu(x) }", tmp_path)
    program = mlirfuse.compile(path)
    (note,) = program.report.notes
    assert "leaves sizes open (x:?x3)" in note
    assert "--shapes" in note


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": floats(1)}, "no input 'y'"),
        ({"x": floats(1, 3, 4)}, r"shape 1x3x4; \?x3x\?x\? would be accepted"),
        ({"x": floats(1, 4, 4, 4)}, r"shape 1x4x4x4; \?x3x\?x\? would be accepted"),
        ((floats(1, 3, 4, 4),), "1 example inputs for a model that has 2"),
    ],
)
def test_example_inputs_that_do_not_fit(given, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        import_model(path_of(NET, tmp_path), given)


def test_a_failure_names_the_remedy(tmp_path):
    text = "net (float[n,3] x) => (float[m] y) { y = com.acme.Op(x) }"
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 19, "com.acme": 1]>\n{text}'.replace(
            "y = com.acme.Op(x)", "z = com.acme.Op(x) y = Relu(z)"
        )
    )
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(ImportFailedError, match=r"no lowering for 'com\.acme\.Op'"):
        import_model(tmp_path / "model.onnx")


def test_shapes_of_the_command_line(tmp_path, capsys):
    assert example_inputs("1x3x4x4,-") == (Shape((1, 3, 4, 4)), Shape(()))
    assert example_inputs("x:1x3") == {"x": Shape((1, 3))}
    for text in ("1x0", "x:", "1x3,x:1x3", "1,,2"):
        with pytest.raises(UsageError, match="--shapes takes"):
            example_inputs(text)
    path = path_of("net (float[n,3] x) => (float[n,3] y) { y = Relu(x) }", tmp_path)
    program = tmp_path / "out.vmfb"
    assert main([str(path), "-o", str(program), "--shapes=x:4x3"]) == 0
    assert mlirfuse.load(program).inputs[0].shape == (4, 3)
    assert main([str(path), "-o", str(program), "--shapes=x:4x5"]) == 2
    assert "?x3 would be accepted" in capsys.readouterr().err


def test_files_of_known_sizes_take_no_example_inputs(tmp_path):
    path = tmp_path / "model.mlir"
    path.write_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    )
    with pytest.raises(UsageError, match="pass no example inputs"):
        import_model(path, (floats(4),))


WINDOWS = {
    "same": {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"},
    "same_lower": {"kernel_shape": [3, 3], "strides": [2, 3], "auto_pad": "SAME_LOWER"},
    "one_side": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 1, 0]},
    "ceil": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    "late": {"kernel_shape": [3, 3], "strides": [3, 2], "ceil_mode": 1},
}


def axis_windows(size, axis, form):
    """For each window along an axis: its places, and how many elements count with the padding."""
    kernel, stride = form["kernel_shape"][axis], form.get("strides", [1, 1])[axis]
    before, after = (form.get("pads", [0] * 4)[axis + i] for i in (0, 2))
    mode = form.get("auto_pad", "")
    if mode:
        count = math.ceil(size / stride)
        total = max(0, (count - 1) * stride + kernel - size)
        before = total // 2 if mode == "SAME_UPPER" else total - total // 2
        after = total - before
    else:
        room = (size + before + after - kernel) / stride
        count = (math.ceil(room) if form.get("ceil_mode") else math.floor(room)) + 1
        count -= (count - 1) * stride >= size + before
    for number in range(count):
        start = number * stride - before
        places = [p for p in range(start, start + kernel) if 0 <= p < size]
        yield places, min(start + kernel, size + after) - start


def pooled(kind, x, form):
    rows, columns = (list(axis_windows(x.shape[a + 2], a, form)) for a in (0, 1))
    out = np.empty((*x.shape[:2], len(rows), len(columns)), np.float32)
    for i, (r, height) in enumerate(rows):
        for j, (c, width) in enumerate(columns):
            window = x[:, :, r][:, :, :, c]
            if kind == "MaxPool":
                out[:, :, i, j] = window.max((2, 3))
            else:
                whole = form.get("count_include_pad")
                number = height * width if whole else len(r) * len(c)
                out[:, :, i, j] = window.sum((2, 3)) / number
    return out


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "Conv"])
def test_windows_over_images_of_any_size(kind, tmp_path):
    """All forms in one program: each is padded by amounts that it computes."""
    forms = dict(WINDOWS)
    if kind == "AveragePool":
        forms |= {f"counted_{n}": {**f, "count_include_pad": 1} for n, f in WINDOWS.items()}
    weights = floats(1, 1, 3, 3, seed=1)
    if kind == "Conv":  # a mean of nine elements, with zeros for those that are missing
        forms = {n: f for n, f in forms.items() if f["kernel_shape"] == [3, 3]}
        forms = {n: f for n, f in forms.items() if "ceil_mode" not in f}
        weights[:] = 1 / 9
    graph = helper.make_graph(
        [
            helper.make_node(kind, ["x", "w"] if kind == "Conv" else ["x"], [name], **form)
            for name, form in forms.items()
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, "h", "w"])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1, None, None])
            for name in forms
        ],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]), path)
    program = mlirfuse.compile(path)
    for sizes in ((7, 9), (8, 8), (10, 5)):
        x = floats(2, 1, *sizes)
        for (name, form), got in zip(forms.items(), program(x), strict=True):
            if kind == "Conv":
                counted = {**form, "count_include_pad": 1}
                whole = [
                    [h * w / 9 for _, w in axis_windows(sizes[1], 1, form)]
                    for _, h in axis_windows(sizes[0], 0, form)
                ]
                wanted = pooled("AveragePool", x, counted) * np.array(whole, np.float32)
            else:
                wanted = pooled(kind, x, form)
            np.testing.assert_allclose(got, wanted, 1e-4, 1e-4, err_msg=f"{name} {sizes}")
