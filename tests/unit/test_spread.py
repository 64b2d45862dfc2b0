"""Cases on several targets: none is lost, and each target has a sample."""

import pytest

from helpers.spread import Runs, some


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


def test_every_value_of_a_combination_runs_by_default():
    pairs = some("abc", (0, 1), often=lambda letter, number: (letter, number) in SOME)
    assert [given.values for given in pairs if not given.marks] == SOME
    assert len(pairs) == 6
    with pytest.raises(AssertionError, match=r"\['c'\] would be in no test"):
        some("abc", (0, 1), often=lambda letter, number: letter != "c")


SOME = [("a", 0), ("b", 1), ("c", 0)]
