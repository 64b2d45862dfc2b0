"""Places and limits that are wrong are named: TMPDIR, time limits, float64, models for `fuse`."""

import errno
import os
import tempfile

import ml_dtypes
import numpy as np
import pytest
import torch

import mlirfuse
from helpers import planted
from mlirfuse.backend.compiler import Compiler
from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.support import temporary
from mlirfuse.torch_backend.options import BackendOptions

MODEL = planted.model(1)


@pytest.fixture
def fresh(monkeypatch):
    """Python looks for the place of temporary files again."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    temporary._check.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_a_missing_tmpdir_is_named_once(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    for _ in range(2):
        with temporary.folder("mlirfuse-") as folder:
            assert folder.is_dir()
    (record,) = caplog.records
    assert record.getMessage() == (
        f"TMPDIR={tmp_path}/missing is no directory that can be written; temporary files are in"
        f" {tempfile.gettempdir()}"
    )


@pytest.mark.usefixtures("fresh")
def test_without_any_place_the_variable_is_named(monkeypatch):
    def missing():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in [...]")

    monkeypatch.setattr(tempfile, "gettempdir", missing)
    with pytest.raises(MlirfuseError, match="TMPDIR names another"):
        mlirfuse.compile(MODEL, cache=False)


@pytest.mark.parametrize("name", [None, "inside"])
def test_a_full_tmpdir_is_named(monkeypatch, name):
    filename = name and os.path.join(tempfile.gettempdir(), name)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), filename)

    monkeypatch.setattr(Compiler, "normalize", full)
    message = f"cannot write temporary files in {tempfile.gettempdir()}: .*TMPDIR names another"
    with pytest.raises(MlirfuseError, match=message):
        mlirfuse.compile(MODEL, cache=False)


def test_another_full_place_is_another_error(monkeypatch, tmp_path):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/elsewhere/file")

    monkeypatch.setattr(Compiler, "normalize", full)
    with pytest.raises(OSError, match="/elsewhere/file"):
        mlirfuse.compile(MODEL, cache=False)


@pytest.mark.parametrize("timeout", [-1, 0, float("nan"), float("inf"), True, "10"])
def test_a_time_limit_that_is_none_is_refused(timeout):
    for call in (mlirfuse.compile, mlirfuse.verify):
        with pytest.raises(UsageError, match=r"timeout=.*: takes seconds above 0, or None"):
            call(MODEL, timeout=timeout)
    with pytest.raises(UsageError, match="options: timeout="):
        BackendOptions.read({"timeout": timeout})


def test_float64_on_a_target_without_it_is_named(caplog):
    text = MODEL.replace("f32", "f64")
    program = mlirfuse.compile(text, target="vulkan:ampere", cache=False)
    assert [spec.dtype for spec in program.inputs] == ["f32", "i1"]
    assert "vulkan:ampere has no float64: arguments and results of float64 are float32" in (
        caplog.text
    )


def test_a_model_is_no_module():
    for call in (mlirfuse.candidates, mlirfuse.fuse):
        with pytest.raises(UsageError, match="not Linear; for a model call"):
            call(torch.nn.Linear(2, 2))


FLOAT8 = {
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
}
TYPES = FLOAT8 | {"ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64"}

ROTATED = """
func.func @main(%x: tensor<4xT>) -> tensor<4xT> {
  %a = tensor.extract_slice %x[1] [3] [1] : tensor<4xT> to tensor<3xT>
  %b = tensor.extract_slice %x[0] [1] [1] : tensor<4xT> to tensor<1xT>
  %e = tensor.empty() : tensor<4xT>
  %c = tensor.insert_slice %a into %e[0] [3] [1] : tensor<3xT> into tensor<4xT>
  %d = tensor.insert_slice %b into %c[3] [1] [1] : tensor<1xT> into tensor<4xT>
  return %d : tensor<4xT>
}
"""


@pytest.mark.parametrize("mlir", TYPES)
def test_arrays_of_rare_types(mlir):
    name = TYPES[mlir]
    program = mlirfuse.compile(ROTATED.replace("xT>", f"x{mlir}>"))
    dtype = np.dtype(getattr(ml_dtypes, name) if mlir in FLOAT8 else name)
    given = np.array([1, 2, 0, 3]).astype(dtype)
    if mlir == "ui64":
        given[0] = 2**64 - 1
    expected = np.roll(given.view(np.uint8).reshape(4, -1), -1, 0)
    result = program(given)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.view(np.uint8).reshape(4, -1), expected)
    tensor = torch.from_numpy(given.view(np.uint8)).view(getattr(torch, name))
    result = program(tensor)
    assert result.dtype == tensor.dtype
    np.testing.assert_array_equal(result.view(torch.uint8).numpy().reshape(4, -1), expected)
