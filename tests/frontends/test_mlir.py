"""MLIR files and modules: dialects detected by content, and damaged ones refused on one line."""

import subprocess
import sys

import numpy as np
import pytest
from iree.compiler import ir

from helpers.stock_program import operations, stock_program
from mlirfuse.core import CompileFailedError, ImportFailedError, MlirfuseError, UsageError
from mlirfuse.frontends import import_model
from mlirfuse.support import subprocess as tools
from mlirfuse.support.subprocess import run_tool

LINALG = """
#id = affine_map<(i, j) -> (i, j)>
func.func @double(%a: tensor<2x?xf32>) -> tensor<2x?xf32> {
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}
      outs(%a : tensor<2x?xf32>) {
  ^bb0(%x: f32):
    %1 = arith.addf %x, %x : f32
    linalg.yield %1 : f32
  } -> tensor<2x?xf32>
  return %0 : tensor<2x?xf32>
}
"""
UTIL = """
util.func public @double(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = arith.addf %a, %a : tensor<2x3xf32>
  util.return %0 : tensor<2x3xf32>
}
"""
STABLEHLO = """
func.func @double(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %a, %a : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""
TOSA = """
func.func @double(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = tosa.add %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""
TORCH = """
func.func @double(%a: !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32> {
  %1 = torch.constant.int 1
  %0 = torch.aten.add.Tensor %a, %a, %1
      : !torch.vtensor<[2,3],f32>, !torch.vtensor<[2,3],f32>, !torch.int
      -> !torch.vtensor<[2,3],f32>
  return %0 : !torch.vtensor<[2,3],f32>
}
"""
ONNX = """
func.func @double(%a: !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32>
    attributes {torch.onnx_meta.ir_version = 8 : si64, torch.onnx_meta.opset_version = 17 : si64} {
  %0 = torch.operator "onnx.Add"(%a, %a)
      : (!torch.vtensor<[2,3],f32>, !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32>
  return %0 : !torch.vtensor<[2,3],f32>
}
"""
DIALECTS = {
    "linalg": LINALG,
    "util": UTIL,
    "stablehlo": STABLEHLO,
    "tosa": TOSA,
    "torch": TORCH,
    "onnx": ONNX,
}
INPUT = np.arange(6, dtype=np.float32).reshape(2, 3)


def bytecode(text: str, folder, *flags: str) -> bytes:
    source, result = folder / "source.mlir", folder / "result.mlirbc"
    source.write_text(text)
    tool = "iree-compile" if flags else "iree-opt"
    emit = "--emit-mlir-bytecode" if flags else "--emit-bytecode"
    run_tool(tool, [str(source), emit, *flags, "-o", str(result)], stage="test")
    return result.read_bytes()


@pytest.mark.parametrize("form", ["text", "bytecode"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialect_is_detected_by_content(dialect, form, tmp_path):
    path = tmp_path / "model"  # no suffix that could give it away
    if form == "text":
        path.write_text(DIALECTS[dialect])
    else:
        path.write_bytes(bytecode(DIALECTS[dialect], tmp_path))
    imported = import_model(path)
    columns = None if dialect == "linalg" else 3
    assert imported.function == "double"
    assert [s.shape for s in imported.inputs + imported.outputs] == [(2, columns)] * 2
    assert imported.inputs[0].dtype == "f32"
    assert (imported.frontend, imported.input_type) == ("mlir", "none")
    assert not imported.normalized
    assert path.exists()
    (result,) = stock_program(imported)(INPUT)
    np.testing.assert_array_equal(result, 2 * INPUT)


def test_model_in_memory(tmp_path):
    with ir.Context():
        module = ir.Module.parse(STABLEHLO)
    for model in (STABLEHLO, STABLEHLO.encode(), bytecode(STABLEHLO, tmp_path), module):
        imported = import_model(model)
        assert str(imported.inputs[0]) == "2x3xf32"
        assert "linalg.generic" in operations(imported)


LOCAL = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")


@pytest.mark.parametrize("dialect", ["stablehlo", "torch"])
def test_module_after_global_optimization_is_marked(dialect, tmp_path):
    """Of the torch dialect IREE makes an asynchronous function and one that wraps it."""
    data = bytecode(
        DIALECTS[dialect],
        tmp_path,
        f"--iree-input-type={dialect}",
        "--compile-to=global-optimization",
        "--iree-llvmcpu-target-cpu=host",
        *LOCAL,
    )
    imported = import_model(data)
    assert imported.normalized
    assert imported.function == "double"
    assert [str(s) for s in imported.inputs + imported.outputs] == ["2x3xf32"] * 2
    (result,) = stock_program(imported)(INPUT)
    np.testing.assert_array_equal(result, 2 * INPUT)


def test_name_of_the_barrier_in_a_comment_marks_nothing():
    imported = import_model("// compute_barrier.start\n" + STABLEHLO)
    assert not imported.normalized
    assert str(imported.inputs[0]) == "2x3xf32"


@pytest.mark.parametrize("phase", ["dispatch-creation", "flow", "hal", "vm"])
def test_module_with_dispatches_is_refused(phase, tmp_path):
    data = bytecode(
        STABLEHLO, tmp_path, f"--compile-to={phase}", "--iree-llvmcpu-target-cpu=host", *LOCAL
    )
    with pytest.raises(ImportFailedError, match="--compile-to=global-optimization would be"):
        import_model(data)


TWO = STABLEHLO + STABLEHLO.replace("@double", "@twice").replace("2x3", "5x7")


def test_one_of_several_functions():
    imported = import_model(TWO, function="twice")
    assert imported.function == "twice"
    assert str(imported.inputs[0]) == "5x7xf32"
    assert import_model(TWO.replace("@twice", "@main")).function == "main"
    with pytest.raises(UsageError, match=r"function=NAME \(known: double, twice\)$"):
        import_model(TWO)
    with pytest.raises(UsageError, match="no function 'twise'; did you mean 'twice'"):
        import_model(TWO, function="twise")


def test_numbers_are_arguments_too():
    imported = import_model(
        "func.func @f(%n: index, %x: f32, %a: tensor<i64>) -> tensor<i64> "
        "{ return %a : tensor<i64> }"
    )
    assert [(s.shape, s.dtype) for s in imported.inputs] == [
        ((), "index"),
        ((), "f32"),
        ((), "i64"),
    ]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("func.func @f( {", r"<MLIR>:1:14: error: expected"),
        ("module {}", "no public function with a body"),
        ("func.func private @f(tensor<2xf32>)\n", "no public function with a body"),
        (STABLEHLO.replace("-> tensor<2x3xf32>", "-> tensor<2x4xf32>"), "<MLIR>:4:3: error: type"),
        (STABLEHLO.replace("stablehlo.add", "stablehlo.ad"), "'stablehlo.ad'"),
        (
            STABLEHLO.replace("stablehlo.add %a, %a :", '"my.op"(%a) :').replace(
                ": tensor<2x3xf32>\n  ret", ": (tensor<2x3xf32>) -> tensor<2x3xf32>\n  ret"
            ),
            "dialect 'my' is unknown$",
        ),
        (
            STABLEHLO.replace(
                "stablehlo.add %a, %a :", "stablehlo.custom_call @mine(%a) :"
            ).replace(": tensor<2x3xf32>\n  ret", ": (tensor<2x3xf32>) -> tensor<2x3xf32>\n  ret"),
            r"IREE has no lowering for 'mine' \(<MLIR>:3:8\)$",
        ),
        ("func.func @f(%a: memref<2xf32>) { return }", "argument 0 is of type memref<2xf32>; a"),
    ],
)
def test_bad_module_is_refused_on_one_line(model, message):
    with pytest.raises(ImportFailedError, match=message) as caught:
        import_model(model)
    assert "\n" not in str(caught.value)


def test_truncated_bytecode_is_refused(tmp_path):
    data = bytecode(STABLEHLO, tmp_path)
    path = tmp_path / "model.mlirbc"
    for length in range(8, len(data) - 8, len(data) // 6):
        path.write_bytes(data[:length])
        with pytest.raises(ImportFailedError, match=r"^\S*model\.mlirbc:") as caught:
            import_model(path)
        assert "\n" not in str(caught.value)


def test_damaged_bytecode_is_an_error_like_any_other(tmp_path):
    """IREE's bytecode reader refuses some damage and aborts on other."""
    data = bytearray(bytecode(LINALG, tmp_path))
    errors = []
    for position in range(12, 60, 2):
        damaged = data.copy()
        damaged[position] ^= 0xFF
        try:
            import_model(bytes(damaged))
        except MlirfuseError as error:
            errors.append(str(error))
    assert len(errors) > 3
    assert not any("\n" in error for error in errors)


@pytest.mark.parametrize("name", ["empty.mlir", "empty.mlirbc", "empty"])
def test_empty_file_is_refused(name, tmp_path):
    (tmp_path / name).touch()
    with pytest.raises(
        ImportFailedError, match=rf"{name} is empty; a .mlir, .* would be accepted$"
    ):
        import_model(tmp_path / name)


def test_missing_file_and_directory_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read \S*none.mlir: No such file"):
        import_model(tmp_path / "none.mlir")
    with pytest.raises(UsageError, match=r"is a directory; a \.mlir"):
        import_model(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.pt", b"PK\3\4", "a pickle, which runs code when loaded"),
        ("model.safetensors", b"1234", "weights without a program"),
        ("model.vmfb", b"1234", "compiled already"),
        ("model.xyz", b"\0\1\2\3", "of an unknown kind"),
        ("model.txt", b"hello world", "of an unknown kind"),
    ],
)
def test_other_files_are_refused(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        import_model(tmp_path / name)


@pytest.mark.parametrize("model", [3, None, b"\0\1\2", [1], int])
def test_other_objects_are_refused(model):
    with pytest.raises(UsageError, match=r"would be accepted$"):
        import_model(model)


IMPORT = f"""
import sys
from mlirfuse.frontends import import_model
import_model({STABLEHLO!r})
print(sorted({{"torch", "jax", "onnx"}} & sys.modules.keys()))
"""


def test_mlir_needs_no_framework():
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_timeout(monkeypatch, tmp_path):
    slow = tmp_path / "tool"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o700)
    monkeypatch.setattr(tools, "find_tool", lambda tool: slow)
    with pytest.raises(CompileFailedError, match=r"ran out of time .* 0\.1 s"):
        import_model(STABLEHLO, timeout=0.1)
