"""Programs whose weights come from an archive at load time, and are in no `.vmfb`."""

import iree.runtime as rt
import numpy as np
import pytest

import mlirfuse
from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.tools.compile import main as compile_main
from mlirfuse.tools.run import main as run_main

TEXT = """
#rows = affine_map<(m, n) -> (m, n)>
#columns = affine_map<(m, n) -> (n)>
!input = tensor<2x3xf32>
!result = tensor<2x4xf32>
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<3x4xf32>
func.func @main(%x: !input) -> !result {
  %w = util.global.load @w : tensor<3x4xf32>
  %b = flow.tensor.constant #flow.parameter.named<"b"> : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : !result
  %f = linalg.fill ins(%zero : f32) outs(%e : !result) -> !result
  %p = linalg.matmul ins(%x, %w : !input, tensor<3x4xf32>) outs(%f : !result) -> !result
  %y = linalg.generic {
    indexing_maps = [#rows, #columns, #rows], iterator_types = ["parallel", "parallel"]
  } ins(%p, %b : !result, tensor<4xf32>) outs(%e : !result) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> !result
  return %y : !result
}
"""
W = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.array([1, -1, 2, -2], np.float32)
X = np.array([[1, 2, 3], [-1, 0, 4]], np.float32)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The program, the archive of the scope `model`, and that of no scope."""
    folder = tmp_path_factory.mktemp("parameters")
    (folder / "model.mlir").write_text(TEXT)
    program = folder / "model.vmfb"
    assert compile_main([str(folder / "model.mlir"), "-o", str(program)]) == 0
    scoped, plain = folder / "weights.irpa", folder / "rest.irpa"
    rt.save_archive_file({"w": W}, scoped)
    rt.save_archive_file({"b": B}, plain)
    return program, scoped, plain


def test_a_loaded_program_reads_its_parameters(files):
    program, scoped, plain = files
    loaded = mlirfuse.load(program, parameters={"model": scoped, "": plain})
    np.testing.assert_allclose(loaded(X), X @ W + B)
    # They stay with it on another device.
    np.testing.assert_allclose(loaded.on("local-sync")(X), X @ W + B)


def test_a_compiled_program_is_given_parameters(files):
    _, scoped, plain = files
    made = mlirfuse.compile(TEXT).on("local-task", parameters={"model": scoped, "": plain})
    np.testing.assert_allclose(made(X), X @ W + B)


def test_the_command_line_spells_them_as_iree_does(files, tmp_path, capsys):
    program, scoped, plain = files
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X @ W + B)
    given = [str(program), f"--input=@{tmp_path}/x.npy", f"--expected=@{tmp_path}/y.npy"]
    archives = [f"--parameters=model={scoped}", f"--parameters={plain}"]
    assert run_main([*given, *archives]) == 0
    assert run_main(given) == UsageError.exit_code
    assert "has parameters, which come from an archive" in capsys.readouterr().err


def test_archives_that_do_not_fit(files, tmp_path):
    program, _, plain = files
    with pytest.raises(UsageError, match=r"cannot read parameters from .*missing\.irpa: no such"):
        mlirfuse.load(program, parameters={"model": tmp_path / "missing.irpa"})(X)
    (tmp_path / "damaged.irpa").write_bytes(b"IRPA" + bytes(100))
    with pytest.raises(UsageError, match=r"cannot read parameters from .*damaged\.irpa"):
        mlirfuse.load(program, parameters={"model": tmp_path / "damaged.irpa", "": plain})(X)
    with pytest.raises(MlirfuseError, match="no parameter found in index with key 'w'"):
        mlirfuse.load(program, parameters={"model": plain, "": plain})(X)
    with pytest.raises(UsageError, match="has parameters, which come from an archive"):
        mlirfuse.load(program)(X)
