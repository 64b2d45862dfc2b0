"""A fixed sample of the suites of the frameworks: nothing wrong, no failure of ours."""

import argparse
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import results
from benchmarks.conformance import device, page, records, run
from benchmarks.conformance.check import Checker
from benchmarks.conformance.compare import difference, flat
from benchmarks.conformance.run import suite_of
from benchmarks.conformance.suite import Case, NotExportedError, Outcome, Program
from helpers.breaking_suite import BAD, TRIED
from helpers.explained import decision, report
from mlirfuse.core import Reason

SAMPLE = {
    "onnx": ("Clip", "BitShift", "RMSNormalization", "ArgMax"),
    "torch": ("clamp", "argmax"),
    "torch-modules": ("Bilinear", "BatchNorm1d"),
    "jax": ("lax.clamp", "numpy.argmax"),
}


MAX_CASES = 12
"""Cases of a group, spread over the element types."""


@pytest.mark.parametrize(
    ("suite", "group"), [(s, g) for s, groups in SAMPLE.items() for g in groups]
)
def test_sample(suite, group):
    found = suite_of(suite)
    assert group in found.groups()
    cases = found.cases(group)
    few = cases[:: max(1, len(cases) // (MAX_CASES if found.merges else 2))]
    checker = Checker(found, "cpu")
    outcomes = (
        checker.check(few) if found.merges else [r for case in few for r in checker.check([case])]
    )
    assert len(outcomes) == len(few)
    bad = [r for r in outcomes if r.outcome not in (Outcome.RIGHT, Outcome.NOT_EXPORTED)]
    assert not bad, bad
    assert not any(r.contained for r in outcomes)


class Toy:
    """Two right cases, one with another expectation, and one that cannot be exported."""

    name = "toy"
    merges = True

    def groups(self):
        return ["toy"]

    def cases(self, group):
        x = torch.arange(3.0)
        calls = [(torch.sin, torch.sin(x)), (torch.exp, torch.exp(x)), (torch.cos, torch.sin(x))]
        made = [
            Case(name=f"toy/float32/{i}", arguments=(x,), expected=(e,), rtol=1e-5, atol=0, call=c)
            for i, (c, e) in enumerate(calls)
        ]
        broken = Case(
            name="toy/float32/3", arguments=(x,), expected=(x,), rtol=0, atol=0, call=torch.nonzero
        )
        return [*made, broken]

    def program(self, cases):
        if any(case.call is torch.nonzero for case in cases):
            raise NotExportedError("of a size that depends on data")
        calls = [case.call for case in cases]
        arguments = tuple(case.arguments for case in cases)
        return Program(
            lambda *a: tuple(c(*x) for c, x in zip(calls, a, strict=True)), arguments, ()
        )

    def stock(self, cases, folder):
        raise NotImplementedError


def test_a_program_of_several_cases_is_halved_until_each_failure_has_its_case():
    outcomes = [r.outcome for r in Checker(Toy(), "cpu").group("toy")]
    assert outcomes == [Outcome.RIGHT, Outcome.RIGHT, Outcome.WRONG, Outcome.NOT_EXPORTED]


def test_a_result_in_f64_has_no_lowering_where_the_target_lacks_it():
    case = Case(
        name="toy/float64/0",
        arguments=(torch.arange(3.0, dtype=torch.float64),),
        expected=(torch.arange(3.0, dtype=torch.float64) * 2,),
        rtol=1e-5,
        atol=0,
        call=lambda x: x * 2,
    )
    (found,) = Checker(Toy(), "vulkan:ampere").check([case])
    assert (found.outcome, found.detail) == (Outcome.NO_LOWERING, "the target has no f64")


class LeavingOut(Checker):
    """Runs PyTorch itself, and reports a part left out of programs that compute exponentials."""

    def _compiled(self, model, example_inputs):
        exponentials = torch.exp(torch.arange(3.0))
        parts = [d for d in model(*example_inputs) if torch.equal(d, exponentials)]
        decisions = [decision(reason=Reason.FELL_BACK) for _ in parts]
        return Called(model, report(*decisions))


class Called:
    def __init__(self, call, report):
        self.call, self.report = call, report

    def __call__(self, *arguments):
        return self.call(*arguments)


def test_a_part_left_out_has_its_case():
    found = LeavingOut(Toy(), "cpu").group("toy")
    assert [r.contained for r in found] == [False, True, False, False]
    assert [r.outcome for r in found][:2] == [Outcome.RIGHT, Outcome.RIGHT]


@pytest.mark.parametrize(
    ("got", "expected", "message"),
    [
        ([1.0, 2.0], [1.0, 2.0], ""),
        ([1.0, np.nan], [1.0, np.nan], ""),
        ([1.0, np.nan], [np.nan, 1.0], "2 of 2"),
        ([np.inf], [-np.inf], "1 of 1"),
        ([1.0], [1.1], "1 of 1"),
        ([[1.0]], [1.0], "shape"),
        (np.array([1], np.int8), np.array([1], np.uint8), "element type i8; expected ui8"),
        (np.array([1 + 1j]), np.array([1 - 1j]), "1 of 2"),
    ],
)
def test_differences(got, expected, message):
    left, right = (np.asarray(value) for value in (got, expected))
    found = difference([left], [right], 1e-3, 1e-3)
    assert message in found
    assert bool(found) == bool(message)


def test_a_result_of_any_value_and_containers():
    assert not difference([np.zeros(1)], [None], 0, 0)
    assert difference([], [np.zeros(1)], 0, 0) == "0 results; expected 1"
    assert flat({"b": [1, None], "a": (2,)}) == [2, 1]


def case(name, outcome=Outcome.RIGHT, detail="", contained=False):
    return {"case": name, "outcome": outcome, "detail": detail, "contained": contained}


FOUND = [
    case("add/float32/0", contained=True),
    case("add/float32/1"),
    case("add/int32/0", Outcome.WRONG, "x"),
    case("Abs"),
    case("mul/int32/0", Outcome.FAILED, "y"),
]


def test_summary_counts_groups_and_types():
    record = records.summary(FOUND, groups=3)
    assert list(record["groups"]) == ["Abs", "add", "mul"]
    assert record["groups"]["add"] == {
        "types": {"float32": {Outcome.RIGHT: 2}, "int32": {Outcome.WRONG: 1}},
        "contained": 1,
    }
    assert record["groups"]["Abs"]["types"] == {"-": {Outcome.RIGHT: 1}}
    problems = [("add/int32/0", Outcome.WRONG, "x"), ("mul/int32/0", Outcome.FAILED, "y")]
    assert record["problems"] == problems
    assert records.counts(record) == {Outcome.RIGHT: 3, Outcome.WRONG: 1, Outcome.FAILED: 1}
    assert records.by_type(record) == {
        "-": {Outcome.RIGHT: 1},
        "float32": {Outcome.RIGHT: 2},
        "int32": {Outcome.WRONG: 1, Outcome.FAILED: 1},
    }
    assert records.contained(record) == 1
    assert records.whole(record)
    assert not records.whole(records.summary(FOUND[:3], groups=3))


def test_a_run_replaces_its_groups():
    known = records.summary(FOUND, groups=4) | {"seconds": 5}
    found = records.summary([case("add/float32/0")], groups=4) | {"seconds": 2, "machine": "m"}
    together = records.merged(known, found)
    assert list(together["groups"]) == ["Abs", "add", "mul"]
    assert together["groups"]["add"] == {"types": {"float32": {Outcome.RIGHT: 1}}, "contained": 0}
    assert [problem[0] for problem in together["problems"]] == ["mul/int32/0"]
    assert (together["seconds"], together["machine"]) == (7, "m")


def test_saved_records_are_merged_and_resumed(tmp_path):
    records.save(tmp_path, "torch", "cpu", records.summary(FOUND[:3], groups=4))
    records.save(tmp_path, "torch", "cuda", records.summary(FOUND[:1], groups=4))
    records.save(tmp_path, "torch", "cpu", records.summary(FOUND[3:], groups=4))
    known = records.read(tmp_path, "torch", "cpu")
    assert records.counts(known) == records.counts(records.summary(FOUND, groups=4))
    assert [tuple(p) for p in known["problems"]] == records.summary(FOUND, groups=4)["problems"]
    assert records.counts(records.read(tmp_path, "torch", "cuda")) == {Outcome.RIGHT: 1}
    assert records.read(tmp_path, "onnx", "cpu") is None
    given = argparse.Namespace(only="", sample=None)
    groups = ["add", "Abs", "sub", "mul"]
    assert run._chosen("torch", groups, given, known) == ["sub"]
    assert sorted(run._chosen("torch", groups, given, None)) == sorted(groups)
    given = argparse.Namespace(only="add", sample=None)
    assert run._chosen("torch", groups, given, known) == ["add"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_case_that_ends_its_process_or_breaks_its_device_takes_no_other_along(monkeypatch, jobs):
    monkeypatch.setitem(run.SUITES, "breaking", "helpers.breaking_suite:Breaking")
    given = argparse.Namespace(target="cpu", programs=None, jobs=jobs, seconds=None, verbose=False)
    groups = run.suite_of("breaking").groups()
    found = list(run._checked("breaking", given, list(groups)))
    assert len(found) == len({result["case"] for result in found}) == 4 * len(groups)
    bad = {r["case"]: r["detail"] for r in found if r["outcome"] is not Outcome.NOT_EXPORTED}
    assert set(bad) == {f"breaks/float32/{BAD}", f"dies/float32/{BAD}"}
    assert bad[f"dies/float32/{BAD}"] == "the process died: 3"
    assert "CUDA_ERROR_MISALIGNED_ADDRESS" in bad[f"breaks/float32/{BAD}"]


def test_cases_that_are_programs_of_their_own_are_tried_once(monkeypatch, tmp_path):
    monkeypatch.setitem(run.SUITES, "alone", "helpers.breaking_suite:Alone")
    monkeypatch.setenv(TRIED, str(tmp_path / "tried"))
    given = argparse.Namespace(target="cpu", programs=None, jobs=1, seconds=None, verbose=False)
    found = list(run._checked("alone", given, ["dies"]))
    names = [f"dies/float32/{i}" for i in range(4)]
    assert [r["case"] for r in found] == names
    assert (tmp_path / "tried").read_text().splitlines() == names


def test_the_page_is_that_of_the_results():
    assert page.text() == page.PAGE.read_text(encoding="utf-8")
    assert set(records.read_all(results.FOLDER)) <= {"onnx", "torch", "torch-modules", "jax"}


def test_a_group_that_is_checked_again_replaces_its_programs(tmp_path):
    toy = Toy()
    cases = toy.cases("toy")[:2]
    Checker(toy, "cpu", tmp_path).check(cases)
    for case in cases:
        Checker(toy, "cpu", tmp_path).check([case])
    kept = [pickle.loads(p.read_bytes())["cases"] for p in tmp_path.glob("toy-*.pickle")]
    assert sorted(case["name"] for c in kept for case in c) == [case.name for case in cases]


def test_programs_of_suites_whose_names_begin_alike():
    suites = ["torch", "torch-modules"]
    names = ["torch-add%2Ffloat32%2F0.vmfb", "torch-modules-nn.Linear%2Ffloat32%2F1.vmfb"]
    assert [device._suite_of(Path(name), suites) for name in names] == suites
