"""Random programs with random switches: fused equals unfused, or IREE fails on both."""

import collections
import itertools
import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from iree.compiler import ir

from benchmarks.fuzz import __main__ as fuzzing
from benchmarks.fuzz.__main__ import HEADER
from benchmarks.fuzz.check import Checked, Outcome, check, switches
from benchmarks.fuzz.graphs import DIALECTS, graph
from benchmarks.fuzz.kinds import KINDS, kinds
from benchmarks.fuzz.page import REGRESSIONS

EXAMPLES = int(os.environ.get("MLIRFUSE_FUZZ_EXAMPLES", "6"))
"""Programs that are compiled; each takes about two seconds."""

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=SEEDS, steps=st.integers(1, 12))
def test_every_program_is_valid_and_the_same_each_time(dialect, seed, steps):
    text = graph(seed, steps, "main", dialect)
    assert text == graph(seed, steps, "main", dialect)
    with ir.Context():
        ir.Module.parse(text)


SOME = 250
"""Programs of each dialect that are checked."""


def test_every_kind_comes_up():
    counts = collections.Counter(
        kind
        for dialect, seed in itertools.product(DIALECTS, range(SOME))
        for kind in kinds(graph(seed, 10, "main", dialect))
    )
    assert [kind for kind in KINDS if counts[kind] < 4] == []


def test_every_switch_comes_up():
    chosen = [switches(seed) for seed in range(400)]
    assert sum(not given for given in chosen) > 100
    assert {name for given in chosen for name in given} == {
        *("disable_pass", "enable_pass", "fusion_limit", "numerics"),
        *("single_op_groups", "skip_op_kind"),
    }


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(dialect=st.sampled_from(list(DIALECTS)), seed=SEEDS, steps=st.integers(4, 12))
def test_fused_equals_unfused(dialect, seed, steps):
    found = check(graph(seed, steps, "main", dialect), switches(seed), seed)
    assert found.outcome.ok, found.message


def dies_of_two(batch):
    if 2 in batch.seeds:
        os._exit(9)
    return [Checked(Outcome.EQUAL) for _ in batch.seeds]


def fresh_processes(jobs):
    """A pool without a fork, of which JAX warns once another test has imported it."""
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))


def test_a_process_that_dies_is_a_failure_of_one_program(monkeypatch):
    monkeypatch.setattr(fuzzing, "_pool", fresh_processes)
    monkeypatch.setattr(fuzzing, "_batch", dies_of_two)
    found = fuzzing._all([fuzzing._Batch((1, 2, 3), 4, "cpu", "linalg")], 1)
    outcomes = [checked.outcome for checked in found[0]]
    assert outcomes == [Outcome.EQUAL, Outcome.CRASH, Outcome.EQUAL]


KEPT = sorted(REGRESSIONS.glob("*.mlir"))

if KEPT:

    @pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
    def test_regressions_pass(path):
        first, text = Path(path).read_text(encoding="utf-8").split("\n", 1)
        given = json.loads(first.removeprefix(HEADER))
        found = check(text, given["switches"], target=given["target"])
        assert found.outcome is Outcome.EQUAL, found.message
