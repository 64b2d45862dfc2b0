"""A table of cases on several targets: the first target runs all, each other one a fixed sample.

What all targets share fails on the first one, and code of another target's own in its sample. The
samples of two targets differ; with `-m slow` the other pairs run.

    RUNS = Runs(CASES, ("cpu:host", "cpu:x86-64-v3"), pipeline=PASSES)

    @pytest.mark.parametrize(("target", "name"), RUNS.parameters)
    def test_numerics(target, name):
        RUNS.outcome(target, name).check()
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from helpers.harness import Batch, Case, Outcome

EVERY = 4
"""Each of so many cases is in the sample of a further target."""


def sample(names: Sequence[str], number: int, every: int = EVERY) -> tuple[str, ...]:
    """The names in the sample of a further target, which is the one with that number from 1 on."""
    return tuple(names[number % every :: every])


def some(*values: Iterable[object], often: Callable[..., bool]) -> list[object]:
    """All combinations of values for `parametrize`; those that are not `often` are marked `slow`.

    Args:
      values: those of each parameter.
      often: whether a combination runs by default. Each value has to be in one that does.
    """
    tables = [tuple(table) for table in values]
    combinations = list(itertools.product(*tables))
    kept = [one for one in combinations if often(*one)]
    for number, table in enumerate(tables):
        lost = [value for value in table if all(one[number] != value for one in kept)]
        assert not lost, f"{lost} would be in no test that runs by default"
    return [
        pytest.param(*one, marks=() if one in kept else pytest.mark.slow) for one in combinations
    ]


class Runs:
    """Cases on targets; those of one target that run together are compiled together.

    Args:
      cases: name -> case.
      targets: spellings; the first one runs all cases.
      pipeline: value of `--pipeline`.
      further: names of the cases for further targets; None for all.
      every: each of so many of them is in the sample of a further target.
      always: names that are in every sample.
    """

    def __init__(
        self,
        cases: Mapping[str, Case],
        targets: Sequence[str],
        *,
        pipeline: str,
        further: Iterable[str] | None = None,
        every: int = EVERY,
        always: Sequence[str] = (),
    ) -> None:
        self._cases, self._pipeline = cases, pipeline
        others = tuple(cases if further is None else further)
        rest = [name for name in others if name not in always]
        first = targets[0]
        self._often = {first: tuple(cases)}
        self._rare: dict[str, tuple[str, ...]] = {first: ()}
        for number, target in enumerate(targets[1:], 1):
            self._often[target] = (*always, *sample(rest, number, every))
            self._rare[target] = tuple(n for n in others if n not in self._often[target])
        self._outcomes: dict[tuple[str, bool], dict[str, Outcome]] = {}

    @property
    def parameters(self) -> list[object]:
        """Pairs of a target and a name; those outside of the samples are marked `slow`."""
        often = [(target, name) for target, names in self._often.items() for name in names]
        rare = [
            pytest.param(target, name, marks=pytest.mark.slow)
            for target, names in self._rare.items()
            for name in names
        ]
        return [*often, *rare]

    def outcome(self, target: str, name: str) -> Outcome:
        """The outcome of a case on a target."""
        rare = name in self._rare[target]
        if (target, rare) not in self._outcomes:
            names = (self._rare if rare else self._often)[target]
            batch = Batch(
                cases=[self._cases[n] for n in names], pipeline=self._pipeline, target=target
            )
            self._outcomes[target, rare] = batch.run()
        return self._outcomes[target, rare][name]
