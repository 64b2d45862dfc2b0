"""`--measure` keeps the faster form of each function, and says so in the manifest."""

from pathlib import Path

import numpy as np
import pytest

import mlirfuse
from helpers import planted
from mlirfuse.benchmarking import programs, timing
from mlirfuse.core import CompileFailedError, Reason
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
    assert times["verdict"] == "slower"
    assert times["interval"][1] < 1
    assert times["rounds"] >= 12
    (decision,) = [
        d for d in program.report.decisions if d.function == "other" and d.match is not None
    ]
    assert decision.reason is Reason.NOT_PROFITABLE
    assert decision.detail.startswith(f"measured {times['fused_ms']:.3f} ms, stock IREE ")
    check("model.vmfb", "main", 0)
    check("model.vmfb", "other", 1)


def samples(factor, again=1.0, rounds=10):
    drift = [1 + 0.05 * (i % 3) for i in range(rounds)]
    return timing.Samples(
        {
            "fused": [1e-3 * factor * d for d in drift],
            "stock": [1e-3 * d for d in drift],
            fused_vs_stock.CONTROL: [1e-3 * factor * again * d for d in drift],
        }
    )


@pytest.mark.parametrize(
    ("factor", "again", "wanted"),
    [
        (0.5, 1.0, "fused"),
        (2.0, 1.0, "stock"),
        # Within the resolution, and within the difference of two processes of one program.
        (1.01, 1.0, "fused"),
        (1.2, 1.3, "fused"),
        (1.2, 1.1, "stock"),
    ],
)
def test_the_faster_form_is_kept(monkeypatch, factor, again, wanted):
    found = programs.Timed(samples(factor, again), {})
    monkeypatch.setattr(programs, "timed", lambda *_, **__: found)
    program = compile_measured()
    assert {n: t["kept"] for n, t in program.measured.items()} == {"main": wanted, "other": wanted}
    assert program.report.counts() == ({planted.GROUPS: 2} if wanted == "fused" else {})
    if wanted == "stock":
        assert program.report.dispatches["fused"] == program.report.dispatches["stock"]
    program.save("model.vmfb")
    assert mlirfuse.load("model.vmfb").measured == program.measured
    check("model.vmfb", "main", 0)


def test_a_program_that_fails_is_an_error_of_its_run(monkeypatch):
    signature = isolated.Signature("absent", (), ())
    program = mlirfuse.compile("model.mlir", function="main")
    program.save("model.vmfb")
    with pytest.raises(
        CompileFailedError, match=r"model.vmfb: calling it failed: .*absent"
    ) as told:
        programs.timed(
            {"fused": Path("model.vmfb")},
            [],
            signature,
            device="local-task",
            timeout=60,
            seconds=0.1,
        )
    assert told.value.stage == "run"


def test_a_model_without_fusions_is_not_measured(monkeypatch):
    monkeypatch.setattr(programs, "timed", lambda *_, **__: pytest.fail("nothing to compare"))
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


def test_arguments_of_a_gpu_are_tensors_on_it(monkeypatch):
    torch = pytest.importorskip("torch")
    moved, waited = [], []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(True))
    monkeypatch.setattr(torch.Tensor, "to", lambda self, place: moved.append(place) or self)
    arrays = [np.ones((2, 3), np.float16)]
    (given,), wait = programs.on_device(arrays, "cuda://1")
    wait()
    assert (moved, waited) == (["cuda:1"], [True])
    assert given.dtype == torch.float16
    (given,), wait = programs.on_device(arrays, "local-task")
    wait()
    assert given is arrays[0]
    assert len(waited) == 1
