"""Forbidden access for a stranger's file or a command line: a shell, a pickle, others' files."""

import ast
import json
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mlirfuse
from mlirfuse.compilation import open_model
from mlirfuse.core import MlirfuseError
from mlirfuse.frontends.imported import WorkDirectory
from mlirfuse.options import FusionOptions
from mlirfuse.runtime import manifest as manifests
from mlirfuse.support.atomic_file import replacing

PACKAGE = Path(mlirfuse.__file__).parent

FORBIDDEN = {
    "eval",
    "exec",
    "os.system",
    "os.popen",
    "pickle.load",
    "pickle.loads",
    "tempfile.mktemp",
    "torch.load",
    "marshal.loads",
    "yaml.load",
}
"""Calls that run a file's content, or that other processes can intercept."""

ALLOWED = {(f"{name}.py", "pickle.loads") for name in ("grouping_process", "traced_call")}
"""A process and its child exchange pickles, in a private folder that they alone write."""

TEXT = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def calls(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {k.arg: ast.unparse(k.value) for k in node.keywords}


def test_no_source_calls_a_shell_or_loads_a_pickle():
    sources = sorted(PACKAGE.rglob("*.py"))
    assert len(sources) > 100
    for path in sources:
        for name, keywords in calls(path):
            safe = keywords.get("weights_only") == "True"
            allowed = safe or (path.name, name) in ALLOWED
            assert allowed or name not in FORBIDDEN, f"{path.name}: {name}"
            assert keywords.get("shell", "False") == "False", path.name
            assert keywords.get("allow_pickle", "False") == "False", path.name


def test_temporary_files_are_private(tmp_path):
    with WorkDirectory() as folder:
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
    with replacing(tmp_path / "out") as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with open_model(TEXT, target="cpu", options=FusionOptions()) as work:
        assert stat.S_IMODE(work.folder.stat().st_mode) == 0o700


def test_a_name_for_a_shell_is_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "model; touch touched $(touch touched) `touch touched`.mlir"
    Path(name).write_text(TEXT)
    mlirfuse.compile(name, cache=False).save(f"{name}.vmfb")
    mlirfuse.load(f"{name}.vmfb")
    assert not Path("touched").exists()


class _Touch:
    def __reduce__(self):
        return Path.touch, (Path("touched"),)


def test_pickles_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    import pickle

    data = pickle.dumps(_Touch())
    for name in ("model.pt", "model.pth", "model.pt2", "model.mlir", "model.onnx"):
        Path(name).write_bytes(data)
        with pytest.raises(MlirfuseError):
            mlirfuse.compile(name)
    assert not Path("touched").exists()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "exp.vmfb"
    mlirfuse.compile(TEXT).save(path)
    return path


HOSTILE = [
    ("device", "__import__('os').system('touch touched')"),
    ("device", "../../touched"),
    ("function", "__init__"),
    ("function", "absent"),
    ("structure", {"__class__": "os.system"}),
    ("structure", {"leaf": 10**9}),
    ("structure", {"leaf": -1}),
    ("inputs", [{"shape": [10**12], "dtype": "f32", "name": "x"}]),
    ("inputs", [{"shape": [4], "dtype": "object", "name": "x"}]),
    ("inputs", [{"shape": "4", "dtype": 3, "name": None}]),
    ("outputs", []),
    ("outputs", [{"shape": [4], "dtype": "f32", "name": ""}] * 2),
    ("sizes", [{"name": "n", "places": [[7, 7]], "least": 0, "most": None}]),
    ("sizes", [{"name": "n", "places": [], "least": 0, "most": None}]),
    ("sizes", 5),
    ("measured", 5),
    ("report", {"schema": 1}),
]


@pytest.mark.parametrize(("field", "value"), HOSTILE)
def test_a_manifest_is_data_only(program, tmp_path, monkeypatch, field, value):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile(program) as archive:
        members = {i.filename: archive.read(i) for i in archive.infolist()}
    document = json.loads(members[manifests.MEMBER])
    assert field in document
    members[manifests.MEMBER] = json.dumps(document | {field: value}).encode()
    data = bytearray(program.read_bytes())
    hostile = Path("hostile.vmfb")
    # The program's member is aligned, so the archive is not written anew but appended to.
    hostile.write_bytes(data)
    with zipfile.ZipFile(hostile, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(manifests.MEMBER, members[manifests.MEMBER])
    result, message = called(hostile)
    assert "\n" not in message
    assert result is None or np.allclose(np.asarray(result, dtype=np.float64), np.e)
    assert not Path("touched").exists()


def called(path):
    """The results of the program, and the message of its refusal."""
    try:
        return mlirfuse.load(path)(np.ones(4, np.float32)), ""
    except MlirfuseError as error:
        return None, str(error)
