"""`mlirfuse-tune`: rates are measured, kept for one machine, and used by later compilations."""

import json

import numpy as np
import pytest

import mlirfuse
from helpers import planted
from mlirfuse import targets
from mlirfuse.core import UsageError
from mlirfuse.targets import rates
from mlirfuse.tools.tune import main
from mlirfuse.tuning import calibrate

RATES = {"bandwidth": 2.0e10, "launch_us": 3.5, "matmul_rate.f32": 4.0e11}


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    path = tmp_path / "data" / "rates.json"
    monkeypatch.setenv(rates.VARIABLE, str(path))
    return path


def test_stored_rates_are_those_of_the_target(file):
    built_in = targets.parse("cpu")
    assert rates.store(built_in, RATES) == file
    target = targets.parse("cpu")
    assert (target.bandwidth, target.launch_us) == (2.0e10, 3.5)
    assert target.matmul_rate == {**built_in.matmul_rate, "f32": 4.0e11}
    assert target.vector_rate == built_in.vector_rate
    assert target.source == f"mlirfuse-tune --calibrate, {file}"
    assert targets.parse("cuda:sm_90").bandwidth != 2.0e10


@pytest.mark.parametrize("field", ["iree", "device"])
def test_rates_of_another_machine_or_version_are_not_used(file, field):
    rates.store(targets.parse("cpu"), RATES)
    entries = json.loads(file.read_text())
    entries["cpu"][field] = "other"
    file.write_text(json.dumps(entries))
    assert targets.parse("cpu").bandwidth != 2.0e10


def test_rates_can_be_off_and_forgotten(monkeypatch, capsys):
    rates.store(targets.parse("cpu"), RATES)
    with monkeypatch.context() as patch:
        patch.setenv(rates.VARIABLE, "off")
        assert targets.parse("cpu").bandwidth != 2.0e10
        assert main(["--calibrate"]) == 2
    assert "MLIRFUSE_RATES=off leaves no place" in capsys.readouterr().err
    assert main(["--reset"]) == 0
    assert main(["--reset"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["cpu has its built-in rates again", "cpu had no measured rates"]
    assert targets.parse("cpu").bandwidth != 2.0e10


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"cpu": {}}', '{"cpu": {"rates": {"bandwidth": -1}, "iree": "", "device": ""}}'],
)
def test_a_damaged_file_is_an_error(file, text, capsys):
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(UsageError, match="is no file of rates; remove it"):
        targets.parse("cpu")
    assert main(["--show"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_unwritable_file_is_an_error(tmp_path, monkeypatch, capsys):
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv(rates.VARIABLE, str(tmp_path / "taken" / "rates.json"))
    monkeypatch.setattr(calibrate, "measure", lambda target, **_: RATES)
    assert main(["--calibrate"]) == 1
    assert f"cannot write {tmp_path / 'taken' / 'rates.json'}: " in capsys.readouterr().err


def called_once(programs):
    """Runs every program; the times are fixed, since those of a busy machine may be wrong."""
    for program in programs:
        program(np.float32(0.5))
    return [1.0e-3, 9.0e-3]


def test_calibrate_measures_every_rate_of_the_model(monkeypatch, capsys):
    monkeypatch.setattr(calibrate, "COPY_ELEMENTS", 1 << 20)
    monkeypatch.setattr(calibrate, "VECTOR_ELEMENTS", {"cpu": 1 << 16})
    monkeypatch.setattr(calibrate, "MATMUL_SIZES", {"cpu": 256})
    monkeypatch.setattr(calibrate, "_best", called_once)
    assert main(["--calibrate"]) == 0
    printed = capsys.readouterr()
    kept = json.loads(rates.path().read_text())["cpu"]["rates"]
    matmuls = {f"matmul_rate.{kind}" for kind in calibrate.MATMUL_TYPES}
    assert set(kept) == {"launch_us", "bandwidth", "vector_rate", "special_rate"} | matmuls
    assert all(rate > 0 for rate in kept.values())
    assert "mlirfuse-tune --calibrate" in printed.out
    assert printed.err.count("\n") == len(kept)


def test_inconsistent_times_are_an_error(monkeypatch, capsys):
    tries = []
    monkeypatch.setattr(calibrate, "_best", lambda programs: tries.append(1) or [1.0e-3] * 2)
    assert main(["--calibrate"]) == 1
    assert "320 dispatches took no longer than 64; other processes" in capsys.readouterr().err
    assert len(tries) == calibrate.MAX_TRIES


def test_wrong_usage(capsys):
    assert main([]) == 2
    assert main(["--show", "--reset"]) == 2
    assert main(["--show", "--target=tpu"]) == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[1]
        .endswith("--kernels, --measured, --show or --reset, one of them")
    )


def test_a_model_is_kept_in_its_faster_form(tmp_path, capsys):
    model, program = tmp_path / "model.mlir", tmp_path / "model.vmfb"
    model.write_text(planted.model(1))
    assert main([str(model), "-o", str(program)]) == 0
    assert "kept" in capsys.readouterr().err
    (times,) = mlirfuse.load(program).measured.values()
    assert times["kept"] in ("fused", "stock")
    assert min(times["fused_ms"], times["stock_ms"]) > 0
    assert main([str(model), str(model), "-o", str(program)]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--minutes=0"], "--minutes takes minutes above 0, not '0'"),
        (["--minutes=2", "--ray"], "--minutes is for a search on this machine"),
    ],
)
def test_a_time_limit_is_for_this_machine(arguments, message, tmp_path, capsys):
    assert main(["model.onnx", "-o", str(tmp_path / "out.toml"), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_time_limit_is_that_of_the_search(tmp_path, monkeypatch):
    seen = []

    def tuned(request, executor, folder, say):
        seen.append(request.seconds)
        raise UsageError("enough")

    monkeypatch.setattr("mlirfuse.tuning.model.tune.tune", tuned)
    for arguments in ([], ["--minutes=1.5"]):
        store = f"--store={tmp_path / 'store'}"
        assert main(["model.onnx", "-o", str(tmp_path / "out.toml"), store, *arguments]) == 2
    assert seen == [None, 90.0]
