"""A switch that nothing in the module matches is a warning with the nearest name."""

from pathlib import Path

import pytest

import mlirfuse
from helpers import planted
from mlirfuse.core import Report
from mlirfuse.options import FusionOptions
from mlirfuse.tools import compile as compiling
from mlirfuse.tools import opt

MODEL = planted.model(2)

CASES = [
    (
        {"never_fuse": "blok.norm"},
        "--never-fuse=blok.norm: nothing matches: no op is called that; did you mean 'block.norm'?",
    ),
    (
        {"skip_op_kind": "linalg.genric"},
        "--skip-op-kind=linalg.genric: nothing matches: no op of the model is of this kind; did you"
        " mean 'linalg.generic'?",
    ),
    (
        {"disable_pass": "reduction_fusion@match=77"},
        "--disable-pass=reduction_fusion@match=77: nothing matches: the pass has 2 matches (0 to"
        " 1)",
    ),
    (
        {"enable_pass": "softmax_fusion@match=0"},
        "--enable-pass=softmax_fusion@match=0: nothing matches: the pass has 0 matches",
    ),
    (
        {"disable_pass": "reduction_fusion@func=mian"},
        "--disable-pass=reduction_fusion@func=mian: nothing matches: no function is called 'mian';"
        " did you mean 'main'?",
    ),
]


def marked():
    return MODEL.replace("tensor.empty()", 'tensor.empty() {mlirfuse.id = "block.norm"}', 1)


@pytest.mark.parametrize(("switches", "message"), CASES)
def test_a_value_that_nothing_matches(caplog, switches, message):
    _, report = mlirfuse.fuse(marked(), **switches)
    assert report.notes == [message]
    assert [record.getMessage() for record in caplog.records] == [message]
    assert Report.from_dict(report.to_dict()) == report


@pytest.mark.parametrize(
    "switches",
    [
        {"never_fuse": "block.norm"},
        {"skip_op_kind": "arith.mulf"},
        {"disable_pass": "reduction_fusion@match=1"},
        {"disable_pass": "reduction_fusion@func=main"},
        {"disable_pass": "softmax_fusion"},
    ],
)
def test_a_value_that_matches(caplog, switches):
    assert mlirfuse.fuse(marked(), **switches)[1].notes == []
    assert not caplog.records


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    Path("m.mlir").write_text(MODEL)


@pytest.mark.usefixtures("model")
def test_the_place_is_named(capsys, monkeypatch):
    monkeypatch.setenv("MLIRFUSE_FLAGS", "--skip-op-kind=linalg.matmull")
    Path("mlirfuse.toml").write_text('[tool.mlirfuse]\nnever-fuse = ["nowhere"]\n')
    assert opt.main(["m.mlir", "-o", "out.mlir"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(
        "mlirfuse-opt: warning: --never-fuse=nowhere (mlirfuse.toml): nothing matches"
    )
    assert lines[1].startswith(
        "mlirfuse-opt: warning: --skip-op-kind=linalg.matmull (MLIRFUSE_FLAGS): nothing matches"
    )


@pytest.mark.usefixtures("model")
def test_a_program_from_the_cache_warns_too(caplog):
    for _ in range(2):
        caplog.clear()
        words = ["m.mlir", "-o", "out.vmfb", "--disable-pass=reduction_fusion@func=mian"]
        assert compiling.main(words) == 0
        (record,) = caplog.records
        assert record.getMessage() == CASES[-1][1]


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("table", ["mlirfuse", "tool.mlirfus"])
def test_a_table_that_is_not_read(capsys, caplog, table):
    Path("mlirfuse.toml").write_text(f'[{table}]\nnumerics = "exact"\n')
    note = f"mlirfuse.toml: [{table}] is not read; switches are in [tool.mlirfuse]"
    assert FusionOptions.resolve().notes == (note,)
    assert opt.main(["m.mlir", "-o", "out.mlir"]) == 0
    assert capsys.readouterr().err == f"mlirfuse-opt: warning: {note}\n"
    assert not caplog.records
    mlirfuse.fuse(MODEL, numerics="any")
    assert [record.getMessage() for record in caplog.records] == [note]


@pytest.mark.usefixtures("model")
def test_a_pyproject_has_tables_of_others(monkeypatch):
    Path("pyproject.toml").write_text("[project]\nname = 'x'\n[tool.ruff]\n[tool.mlirfuse]\n")
    monkeypatch.setenv("MLIRFUSE_CONFIG", "pyproject.toml")
    assert FusionOptions.resolve().notes == ()
