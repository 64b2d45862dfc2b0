"""`--measure` keeps the faster form of each function, and says so in the manifest."""

from pathlib import Path

import numpy as np
import pytest

import mlirfuse
from helpers import planted
from mlirfuse import targets
from mlirfuse.backend.compiler import Compiler
from mlirfuse.core import Reason
from mlirfuse.options import FusionOptions
from mlirfuse.runtime import isolated
from mlirfuse.tools.compile import main as compile_main
from mlirfuse.tuning import fused_vs_stock

HEAD = 2
"""Lines of a planted model before its function."""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = planted.model(2, first=1, name="other").splitlines(keepends=True)[HEAD:]
    Path("model.mlir").write_text(planted.model(1) + "".join(other))


def compile_measured():
    return mlirfuse.compile("model.mlir", function="main", measure=True)


def check(path, function, stage):
    x = np.linspace(-1, 1, planted.ROWS * planted.width(stage), dtype=np.float32)
    x = x.reshape(planted.ROWS, -1)
    got = mlirfuse.load(path, function=function)(x, x > 0)
    wide = x.astype(np.float64)
    expected = np.where(x > 0, wide * (wide * wide).sum(1, keepdims=True), 0.0)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_a_slow_function_is_left_to_stock_iree(monkeypatch, capsys):
    planted.plant(monkeypatch, planted.slow, 1)
    words = ["--function=main", "--measure", "-o", "model.vmfb"]
    assert compile_main(["model.mlir", *words]) == 0
    assert "other: fused " in capsys.readouterr().err
    program = mlirfuse.load("model.vmfb")
    times = program.measured["other"]
    assert times["kept"] == "stock"
    assert times["fused_ms"] > times["stock_ms"]
    (decision,) = [
        d for d in program.report.decisions if d.function == "other" and d.match is not None
    ]
    assert decision.reason is Reason.NOT_PROFITABLE
    assert decision.detail.startswith(f"measured {times['fused_ms']:.3f} ms, stock IREE ")
    check("model.vmfb", "main", 0)
    check("model.vmfb", "other", 1)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_the_faster_form_is_kept(monkeypatch, factor):
    monkeypatch.setattr(fused_vs_stock, "race", lambda *_: [1e-3 * factor, 1e-3])
    program = compile_measured()
    wanted = "fused" if factor < 1 else "stock"
    assert {n: t["kept"] for n, t in program.measured.items()} == {"main": wanted, "other": wanted}
    assert program.report.counts() == ({planted.GROUPS: 2} if factor < 1 else {})
    if wanted == "stock":
        assert program.report.dispatches["fused"] == program.report.dispatches["stock"]
    program.save("model.vmfb")
    assert mlirfuse.load("model.vmfb").measured == program.measured
    check("model.vmfb", "main", 0)


def test_a_short_program_is_called_more_often(monkeypatch):
    calls = []
    seconds = {"long": 1.0, "short": 1e-3, "none": 0.0}

    def call(program, inputs, *, repeat, **_):
        calls.append(repeat)
        return isolated.Called([], [seconds[program]] * repeat)

    monkeypatch.setattr(isolated, "call", call)
    compiler = Compiler(targets.parse("cpu"), FusionOptions())

    def repeats(*programs):
        calls.clear()
        assert fused_vs_stock.race(programs, [], None, compiler) == [seconds[p] for p in programs]
        return calls[::2]

    assert repeats("short", "long") == [fused_vs_stock.MIN_CALLS] * fused_vs_stock.ROUNDS
    enough = round(fused_vs_stock.MIN_SECONDS / 1e-3)
    assert repeats("short", "none") == [fused_vs_stock.MIN_CALLS, enough, enough]
    assert repeats("none", "none") == [fused_vs_stock.MIN_CALLS, *[fused_vs_stock.MAX_CALLS] * 2]


def test_a_model_without_fusions_is_not_measured(monkeypatch):
    monkeypatch.setattr(fused_vs_stock, "race", lambda *_: pytest.fail("nothing to compare"))
    program = mlirfuse.compile("model.mlir", function="main", measure=True, pipeline="none")
    assert program.measured == {}


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["--measure", "--stock"], "remove it or --measure"),
        (["--measure", "--verify"], "--verify and --measure are both given"),
    ],
)
def test_contradictions_are_refused(words, fragment, capsys):
    assert compile_main(["model.mlir", "-o", "model.vmfb", *words]) == 2
    assert fragment in capsys.readouterr().err
