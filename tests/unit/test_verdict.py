"""A difference counts where it is outside the noise, and the noise is measured."""

import math
import random

import pytest

from mlirfuse.benchmarking import verdict
from mlirfuse.benchmarking.timing import Samples


def test_the_interval_holds_the_median_as_often_as_it_says():
    generator = random.Random(1)
    held = 0
    for _ in range(2000):
        # Skewed, as times are: the median of exp(x) is 1.
        ratios = [math.exp(generator.gauss(0, 1)) for _ in range(20)]
        low, high = verdict.interval(ratios)
        held += low <= 1 <= high
    assert held >= 0.95 * 2000
    assert held < 0.99 * 2000, "an interval that holds everything says nothing"


def test_the_interval_is_that_of_the_sign_test():
    # In an order in which neighbors are not alike.
    assert verdict.interval([3, 9, 2, 10, 4, 8, 5, 7, 1, 6]) == (2, 9)
    # Without the first and the last 2 * (1 + 10) / 1024 is at most 5 %; without two more it is not.
    assert verdict.interval([3, 6, 2, 5, 1, 4]) == (1, 6)
    assert verdict.interval([1, 2, 3, 4, 5]) == (0.0, math.inf)


def test_rounds_that_are_alike_count_as_fewer():
    """Other work makes half of the rounds slower for one side: that is two rounds, not forty."""
    alternating = [1.0, 2.0] * 20
    assert verdict.interval(alternating) == (1.0, 2.0)
    assert verdict.interval([1.0] * 20 + [2.0] * 20) == (1.0, 2.0)
    apart = [1.0 + 0.01 * i for i in range(40)]  # ever slower: one direction, no forty rounds
    assert verdict.interval(apart) == (apart[0], apart[-1])
    low, high = verdict.interval([apart[7 * i % 40] for i in range(40)])
    assert apart[0] < low < high < apart[-1]
    equal = [1.5] * 40
    assert verdict.interval(equal) == (1.5, 1.5)


def test_a_state_of_the_machine_is_no_difference():
    """Ratios of 0.9 for half of the time and of 1.25 for the other, in runs of some seconds."""
    generator = random.Random(3)
    found = set()
    for _ in range(200):
        ratios, state = [], 0.9
        while len(ratios) < 60:
            state = 2.15 - state
            ratios += [state + generator.gauss(0, 0.01) for _ in range(generator.randint(8, 14))]
        found.add(verdict.verdict(verdict.interval(ratios), 1.02))
    assert found == {verdict.NO_DIFFERENCE}


def test_outliers_do_not_move_the_interval():
    steady = [2.0 + 0.01 * (7 * i % 20) for i in range(20)]
    worse = [ratio if ratio < 2.17 else 50 * ratio for ratio in steady]
    assert worse != steady
    assert verdict.interval(worse) == verdict.interval(steady)


@pytest.mark.parametrize(
    ("interval", "factor", "expected"),
    [
        ((1.10, 1.20), 1.02, verdict.FASTER),
        ((0.80, 0.90), 1.02, verdict.SLOWER),
        ((0.95, 1.20), 1.02, verdict.NO_DIFFERENCE),
        ((1.01, 1.015), 1.02, verdict.NO_DIFFERENCE),
        ((0.985, 0.99), 1.02, verdict.NO_DIFFERENCE),
        ((1.10, 1.20), 1.15, verdict.NO_DIFFERENCE),
        ((0.85, 0.90), 1.20, verdict.NO_DIFFERENCE),
        ((0.0, math.inf), 1.02, verdict.NO_DIFFERENCE),
    ],
)
def test_a_difference_counts_outside_the_noise(interval, factor, expected):
    assert verdict.verdict(interval, factor) == expected


def test_noise_is_the_difference_of_two_processes_of_one_program():
    assert verdict.noise(None) == verdict.noise([1.0] * 10) == 1.02
    assert verdict.noise([1.3] * 10) == 1.3
    assert verdict.noise([0.8] * 10) == 1.25
    assert verdict.noise([1.0] * 5) == math.inf, "too few rounds show nothing"


def test_runs_on_a_busy_machine_give_one_verdict():
    """Bursts that others disturb by up to three times, and a difference of 1 %."""

    def race(seed, factor):
        generator = random.Random(seed)

        def times(seconds):
            return [seconds * generator.choice([1, 1, 1, 1.5, 3]) for _ in range(30)]

        sides = {"ours": times(1.0), "other": times(factor), "again": times(1.0)}
        return verdict.compare(Samples(sides), "ours", "other", "again").verdict

    assert {race(seed, 1.01) for seed in range(200)} == {verdict.NO_DIFFERENCE}
    found = [race(seed, 4.0) for seed in range(200)]
    assert found.count(verdict.FASTER) > 180
    assert verdict.SLOWER not in found


def test_a_comparison_as_json():
    sides = {"ours": [1.0] * 6, "other": [2.0] * 6}
    found = verdict.compare(Samples(sides), "ours", "other", None)
    assert found.to_dict() == {
        "ratio": 2.0,
        "quartiles": [2.0, 2.0],
        "interval": [2.0, 2.0],
        "verdict": "faster",
    }
    few = verdict.compare(Samples({"ours": [1.0], "other": [2.0]}), "ours", "other", None)
    assert few.to_dict()["interval"] == [0.0, None]
