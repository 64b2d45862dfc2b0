"""A fixed sample of the suites of the frameworks: nothing wrong, no failure of ours."""

import json

import numpy as np
import pytest
import torch

from benchmarks import results
from benchmarks.conformance import page
from benchmarks.conformance.check import Checker
from benchmarks.conformance.compare import difference, flat
from benchmarks.conformance.records import FILE, by_type, contained, summary
from benchmarks.conformance.run import suite_of
from benchmarks.conformance.suite import Case, NotExportedError, Outcome, Program

SAMPLE = {
    "onnx": ("Clip", "BitShift", "RMSNormalization", "ArgMax"),
    "torch": ("clamp", "argmax"),
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


def test_summary_counts_types():
    found = [
        {"case": "add/float32/0", "outcome": Outcome.RIGHT, "detail": "", "contained": True},
        {"case": "add/int32/0", "outcome": Outcome.WRONG, "detail": "x", "contained": False},
    ]
    record = summary(found, 1)
    assert by_type(record) == {"float32": {Outcome.RIGHT: 1}, "int32": {Outcome.WRONG: 1}}
    assert contained(record) == 1
    assert record["problems"] == [("add/int32/0", Outcome.WRONG, "x")]


def test_the_page_is_that_of_the_results():
    assert page.text() == page.PAGE.read_text(encoding="utf-8")
    records = json.loads((results.FOLDER / FILE).read_text(encoding="utf-8"))
    assert set(records) <= {"onnx", "torch", "jax"}
