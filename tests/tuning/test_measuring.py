"""Measurements of a batch: programs that fail, hang, are wrong or disturb others are told apart."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import mlirfuse
from helpers.tuning_model import MODEL
from mlirfuse.benchmarking import programs, shared_programs
from mlirfuse.benchmarking.process import NO_ANSWER
from mlirfuse.benchmarking.programs import Timed, failure
from mlirfuse.benchmarking.shared_programs import Shared
from mlirfuse.benchmarking.timing import Samples
from mlirfuse.core import CompileFailedError
from mlirfuse.frontends.imported import ImportedModel
from mlirfuse.runtime import array_files
from mlirfuse.runtime.isolated import Signature
from mlirfuse.support.signature import TensorSpec
from mlirfuse.tuning.execution.task import DeviceFaultError
from mlirfuse.tuning.model import jobs, measuring, portable, reference


@pytest.fixture
def program_of(tmp_path, monkeypatch):
    """Compiles the model with an operation, without passes of ours."""
    monkeypatch.chdir(tmp_path)

    def compiled(operation):
        path = Path(f"{operation}.mlir")
        path.write_text(MODEL.replace("OP", operation))
        mlirfuse.compile(str(path), stock=True).save(f"{operation}.vmfb")
        return Path(f"{operation}.vmfb").resolve()

    return compiled


def call_of_model():
    """The fields of requests that call `MODEL`."""
    specs = (TensorSpec((8, 32), "f32"),)
    imported = ImportedModel(
        path=Path("add.mlir"),
        input_type="none",
        function="main",
        inputs=specs,
        outputs=specs,
        source="m",
        frontend="mlir",
    )
    spec = dataclasses.asdict(specs[0])
    return {
        "model": portable.described(imported),
        "function": "main",
        "inputs": [spec],
        "outputs": [spec],
        "shapes": [None],
        "target": "cpu",
        "device": "local-task",
        "timeout": 60.0,
        "seed": 0,
    }


def folder(path):
    path.mkdir()
    return path


@pytest.mark.parametrize("alone", [False, True])
def test_wrong_programs_are_told_by_their_results(tmp_path, program_of, alone):
    right, wrong = program_of("add"), program_of("mul")
    call, made = call_of_model(), folder(tmp_path / "reference")
    unfused = reference.make_unfused(call, {jobs.PROGRAM: right}, made)
    exact = reference.make_exact(call, {jobs.MODEL: Path("add.mlir")}, made)
    assert exact["note"] == ""
    names = [jobs.INCUMBENT, "candidate 0", "candidate 1"]
    request = {
        **call,
        "names": names,
        "verify": dict.fromkeys(names, "exact"),
        "sets": [{"unfused": unfused["sets"][0], "exact": exact["sets"][0]}],
        "rounds": 12,
        "threads": None,
        "alone": alone,
    }
    damaged = tmp_path / "damaged.vmfb"
    damaged.write_bytes(b"no program")
    given = {
        jobs.INCUMBENT: right,
        "candidate 0": wrong,
        "candidate 1": damaged,
        **{path.name: path for path in made.iterdir()},
    }
    found = measuring.measure(request, given, folder(tmp_path / "tasks"))
    assert found["wrong"]["candidate 0"].startswith("wrong: result 0")
    assert "against float64" in found["wrong"]["candidate 0"]
    assert set(found["wrong"]) == {"candidate 0", "candidate 1"}
    assert set(found["seconds"]) == {jobs.INCUMBENT, jobs.CONTROL}
    assert len(found["seconds"][jobs.CONTROL][0]) >= 12
    given[jobs.INCUMBENT] = damaged
    with pytest.raises(DeviceFaultError, match="a program that ran before fails"):
        measuring.measure(request, given, folder(tmp_path / "again"))


def test_results_in_float64_are_made_for_a_gpu_too(tmp_path, program_of):
    program_of("add")
    call = {**call_of_model(), "target": "cuda:sm_90"}
    made = folder(tmp_path / "made")
    found = reference.make_exact(call, {jobs.MODEL: Path("add.mlir")}, made)
    assert found["note"] == ""
    (result,) = array_files.read(made, "exact0_", found["sets"][0])
    (x,) = reference.inputs_of(reference.signature_of(call), None, call)
    np.testing.assert_array_equal(result, 2.0 * x.astype(np.float64))


def test_a_model_without_a_float64_form_has_a_reason(tmp_path, program_of):
    program_of("add")
    call = call_of_model()
    call["model"]["normalized"] = True
    call["target"] = "cuda:sm_90"
    files = {jobs.MODEL: Path("add.mlir")}
    found = reference.make_exact(call, files, folder(tmp_path / "made"))
    assert found["sets"] == [None]
    assert "another target" in found["note"]


class Batches:
    """Stands for the processes of measurements: says which programs were called together."""

    def __init__(self, monkeypatch, *, spoiled=(), died=(), hung=(), alone=()):
        self.shared, self.separate, self.single, self.waited = [], [], [], []
        self._failing = {**dict.fromkeys(died, "died"), **dict.fromkeys(hung, NO_ANSWER)}
        self._spoiled, self._alone = spoiled, alone
        monkeypatch.setattr(measuring.shared_programs, "timed", self.timed_shared)
        monkeypatch.setattr(measuring.programs, "timed", self.timed_alone)
        monkeypatch.setattr(measuring.reference, "called", self.called)
        monkeypatch.setattr(measuring.reference, "inputs_of", lambda *given: [])

    def _raise(self, programs, names):
        for name in names:
            if name in programs:
                reason = self._failing.get(name, "died")
                raise failure(programs[name], reason)

    def timed_shared(self, programs, inputs, signature, *, timeout, rounds, **rest):
        self.shared.append(list(programs))
        self.waited.append(timeout)
        self._raise(programs, self._failing)
        failed = {name: "no memory" for name in self._spoiled if name in programs}
        left = [name for name in programs if name not in failed]
        return Shared(Samples({key: [0.1] * rounds for key in left}), {}, failed)

    def timed_alone(self, programs, inputs, signature, *, timeout, **rest):
        self.separate.append(list(programs))
        self.waited.append(timeout)
        self._raise(programs, self._alone)
        return Timed(Samples({key: [0.1] * 12 for key in programs}), {})

    def called(self, program, inputs, signature, device, timeout):
        self.single.append(program.stem)
        self.waited.append(timeout)
        if any(program.stem == f"candidate{NAMES.index(name)}" for name in self._alone):
            raise failure(program, "died")
        return []


NAMES = [jobs.INCUMBENT, "candidate 0", "candidate 1"]


def measured(tmp_path, **fields):
    files = {key: tmp_path / f"{index}.vmfb" for index, key in enumerate(NAMES)}
    request = {"names": NAMES, "verify": {}, "sets": [], "rounds": 12, "threads": None}
    call = {"function": "main", "inputs": [], "outputs": [], "shapes": [None], "target": "cpu"}
    call["device"] = "local-task"
    given = {**request, **call, "timeout": 100.0, "alone": False, **fields}
    return measuring.measure(given, files, folder(tmp_path / "output"))


def test_a_program_that_ends_the_process_of_a_batch_is_left_out(tmp_path, monkeypatch):
    batches = Batches(monkeypatch, died=["candidate 0"], alone=["candidate 0"])
    found = measured(tmp_path)
    assert "died" in found["wrong"]["candidate 0"]
    assert batches.shared == [[*NAMES, jobs.CONTROL], [NAMES[0], NAMES[2], jobs.CONTROL]]
    assert batches.separate == []
    assert set(found["seconds"]) == {jobs.INCUMBENT, "candidate 1", jobs.CONTROL}


@pytest.mark.parametrize("how", ["died", "spoiled"])
def test_programs_that_disturb_each_other_are_measured_apart(tmp_path, monkeypatch, how):
    batches = Batches(monkeypatch, **{how: ["candidate 1"]})
    found = measured(tmp_path)
    assert found["wrong"] == {}
    assert batches.single == ["candidate2"]
    assert batches.separate == [[*NAMES, jobs.CONTROL]]
    assert set(found["seconds"]) == {*NAMES, jobs.CONTROL}


def test_a_program_that_fails_at_its_first_call_costs_no_other_batch(tmp_path, monkeypatch):
    batches = Batches(monkeypatch, spoiled=["candidate 1"], alone=["candidate 1"])
    found = measured(tmp_path)
    assert found["wrong"] == {"candidate 1": "no memory"}
    assert len(batches.shared) == 1
    assert batches.separate == []


def test_an_incumbent_that_fails_is_a_fault_of_the_device(tmp_path, monkeypatch):
    Batches(monkeypatch, died=[jobs.INCUMBENT], alone=[jobs.INCUMBENT])
    with pytest.raises(DeviceFaultError, match="a program that ran before fails"):
        measured(tmp_path)


def timed_together(paths, **fields):
    signature = reference.signature_of(call_of_model())
    inputs = [np.ones((8, 32), np.float32)]
    given = {"device": "local-sync", "timeout": 60.0, "rounds": 3, "results": True, **fields}
    return shared_programs.timed(paths, inputs, signature, **given)


def test_programs_of_one_process_take_turns(tmp_path, program_of):
    paths = {"one": program_of("add"), "other": program_of("mul")}
    damaged = tmp_path / "damaged.vmfb"
    damaged.write_bytes(b"no program")
    found = timed_together({**paths, "damaged": damaged, "again": paths["one"]})
    values = {name: float(results[0][0, 0]) for name, results in found.results.items()}
    assert values == {"one": 2.0, "other": 1.0, "again": 2.0}
    assert list(found.failed) == ["damaged"]
    assert "damaged.vmfb: calling it failed: " in found.failed["damaged"]
    rounds = {name: len(times) for name, times in found.samples.seconds.items()}
    assert set(rounds) == {"one", "other", "again"}
    assert len(set(rounds.values())) == 1
    assert min(rounds.values()) >= 3


def test_a_shared_process_that_dies_names_the_program_whose_turn_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_programs, "MODULE", "helpers.dying_program")
    said = "p.vmfb: calling it failed: its process died with SIGSEGV: CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(CompileFailedError, match=said) as told:
        timed_together({"one": tmp_path / "p.vmfb"})
    assert not shared_programs.hung(told.value)


@pytest.mark.parametrize(("how", "said"), [("say", "the device is lost"), ("die", "SIGSEGV")])
def test_a_failure_between_rounds_names_the_program(tmp_path, monkeypatch, how, said):
    monkeypatch.setattr(shared_programs, "MODULE", "helpers.failing_turns")
    monkeypatch.setenv("FAILING_TURNS", how)
    paths = {"one": tmp_path / "p.vmfb", "other": tmp_path / "q.vmfb"}
    with pytest.raises(CompileFailedError, match=f"q.vmfb: calling it failed: .*{said}"):
        timed_together(paths, results=False)


def test_a_process_that_dies_leaves_its_last_line(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "MODULE", "helpers.dying_program")
    said = "p.vmfb: calling it failed: its process died with SIGSEGV: CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(CompileFailedError, match=said):
        programs.timed(
            {"one": tmp_path / "p.vmfb"},
            [],
            Signature("main", (), ()),
            device="local-sync",
            timeout=60.0,
            seconds=1.0,
        )


def test_a_program_that_hangs_is_named_and_the_others_are_measured(tmp_path, monkeypatch):
    batches = Batches(monkeypatch, hung=["candidate 0"])
    found = measured(tmp_path)
    assert NO_ANSWER in found["wrong"]["candidate 0"]
    assert set(found["seconds"]) == {jobs.INCUMBENT, "candidate 1", jobs.CONTROL}
    assert len(batches.waited) == 2
    assert sum(batches.waited) < 100.0, "a task that takes longer is ended, with all its candidates"


def test_programs_are_called_on_the_device_of_the_request(tmp_path, program_of):
    """`--device` of a search: another URI than the target's."""
    given = {jobs.PROGRAM: program_of("add")}
    with pytest.raises(DeviceFaultError, match="'nothing' is not available"):
        reference.make_unfused(
            {**call_of_model(), "device": "nothing"}, given, folder(tmp_path / "a")
        )
    found = reference.make_unfused(
        {**call_of_model(), "device": "local-sync"}, given, folder(tmp_path / "b")
    )
    assert len(found["sets"]) == 1
