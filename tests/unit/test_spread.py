"""Cases on several targets: none is lost, and each target has a sample."""

import pytest

from helpers.spread import Runs


def test_every_case_is_on_every_target_once():
    cases = dict.fromkeys("abcdefgh")
    runs = Runs(cases, ("one", "two", "three"), pipeline="none", every=3, always=("h",))
    often, rare = [], []
    for given in runs.parameters:
        slow = isinstance(given, type(pytest.param()))
        (rare if slow else often).append(given.values if slow else given)
        assert not slow or given.marks[0].name == "slow"
    pairs = [(target, name) for target in ("one", "two", "three") for name in cases]
    assert sorted([*often, *rare]) == sorted(pairs)
    assert [name for target, name in often if target == "one"] == list(cases)
    samples = [{n for target, n in often if target == which} for which in ("two", "three")]
    assert samples[0] & samples[1] == {"h"}
    assert all(len(one) == 3 for one in samples)


def test_further_targets_may_have_fewer_cases():
    runs = Runs(dict.fromkeys("abcd"), ("one", "two"), pipeline="none", further="bd", every=1)
    assert runs.parameters[4:] == [("two", "b"), ("two", "d")]
