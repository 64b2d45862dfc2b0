"""Measured kernel configurations: the entry nearest to a problem, of this release and of the user.

`TARGET.json` next to this module holds the configurations that `mlirfuse-tune --kernels` measured
on one device, and times of IREE's code for the same regions. An entry has a configuration where it
beats the family's computed one; where none does, it says so, and farther entries do not count. The
user's own measurements join them: the nearest wins, and of two as near the user's.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from typing import Any, Generic, TypeVar

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.problem import Problem, Record
from mlirfuse.targets.base import MeasuredConfig, Target

MAX_DOUBLINGS = 4.0
"""Distance in doublings, those of all sizes added up, above which a measurement does not count."""

NOISE = 1.02
"""Ratio of IREE's time to a kernel's up to which IREE's code is kept: the noise of a run."""

TRAIT_DOUBLINGS = 2.0
"""Distance in doublings that other traits add."""

P = TypeVar("P", bound=Problem)
C = TypeVar("C", bound=Record)


@dataclasses.dataclass(frozen=True, slots=True)
class Entry(Generic[P, C]):
    """A measured configuration.

    Attributes:
      problem: the problem that was measured.
      config: its fastest configuration.
      us: microseconds of the kernel.
    """

    problem: P
    config: C
    us: float


@dataclasses.dataclass(frozen=True, slots=True)
class ComputedIsBest(Generic[P]):
    """A measured problem for which no configuration beats the computed one.

    Attributes:
      problem: the problem that was measured.
    """

    problem: P


@dataclasses.dataclass(frozen=True, slots=True)
class Baseline:
    """Times of a kernel and of IREE's code for the same region.

    Attributes:
      family: the kernel's family.
      problem: field -> value of the problem.
      iree_us: microseconds of IREE's code.
      kernel_us: microseconds of the kernel.
      device: name of the device that was measured.
    """

    family: str
    problem: Mapping[str, Any]
    iree_us: float
    kernel_us: float
    device: str


def nearest(
    target: Target,
    problem: P,
    config_type: type[C],
    allowed: Callable[[Entry[P, C]], bool] = lambda entry: True,
) -> Entry[P, C] | None:
    """The measurement of the nearest problem.

    None where no measured problem is near, or where the computed configuration was the best for the
    nearest one.

    Args:
      target: the machine that is compiled for.
      problem: the problem to configure.
      config_type: dataclass of the family's configurations.
      allowed: whether the kernel can have the configuration of an entry.
    """
    family, problem_type = problem.family, type(problem)
    user = _entries(target.measured, family, problem_type, config_type)
    entries: tuple[Entry[P, C] | ComputedIsBest[P], ...] = (
        *user,
        *_built_in_entries(str(target), family, problem_type, config_type),  # type: ignore[arg-type]
    )
    near = [
        (_distance(entry.problem, problem), entry)
        for entry in entries
        if isinstance(entry, ComputedIsBest) or allowed(entry)
    ]
    near = [pair for pair in near if pair[0] <= MAX_DOUBLINGS]
    if not near:
        return None
    _, found = min(near, key=lambda pair: pair[0])
    return found if isinstance(found, Entry) else None


def choose(
    target: Target,
    problem: P,
    config_type: type[C],
    default_config: Callable[[P, Target], C],
    allowed: Callable[[Entry[P, C]], bool] = lambda entry: True,
) -> C:
    """The configuration of the nearest measurement, else the one computed by `default_config`.

    The other arguments are those of `nearest`.
    """
    measured = nearest(target, problem, config_type, allowed)
    return default_config(problem, target) if measured is None else measured.config


def baseline(
    target: Target, problem: Problem, elsewhere: str = "", within: float = MAX_DOUBLINGS
) -> Baseline | None:
    """The times measured for the problem nearest in size, with the same traits.

    Args:
      target: the machine that is compiled for.
      problem: the problem of a kernel.
      elsewhere: a target whose measurements count where there are none for this one.
      within: distance in doublings above which a measurement does not count.
    """
    table = _built_in(str(target)).baselines or _built_in(elsewhere).baselines
    near = []
    for entry in table:
        if entry.family == problem.family:
            known = type(problem).from_dict(entry.problem)
            if known.traits == problem.traits:
                near.append((_doublings(known, problem), entry))
    near = [pair for pair in near if pair[0] <= within]
    return min(near, key=lambda pair: pair[0])[1] if near else None


def refusal(found: Baseline, problem: Problem) -> NoMatch | None:
    """Why a region keeps IREE's code, which was measured; None where the kernel was faster."""
    if found.iree_us > found.kernel_us * NOISE:
        return None
    measured = type(problem).from_dict(found.problem)
    return NoMatch(
        Reason.NOT_PROFITABLE,
        f"IREE's code took {found.iree_us:g} us where a kernel took {found.kernel_us:g}"
        f" ({measured}, measured on {found.device})",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _BuiltIn:
    """The measurements of this release on one target."""

    configs: tuple[MeasuredConfig, ...] = ()
    baselines: tuple[Baseline, ...] = ()


@functools.cache
def _built_in(target: str) -> _BuiltIn:
    """The file of a target, by its spelling; empty where there is none."""
    name = target.replace(":", "_") + ".json"
    file = resources.files("mlirfuse.kernels.configs").joinpath(name)
    if not target or not file.is_file():
        return _BuiltIn()
    document = json.loads(file.read_text(encoding="utf-8"))
    return _BuiltIn(
        tuple(MeasuredConfig(**entry) for entry in document["configs"]),
        tuple(Baseline(**entry, device=document["device"]) for entry in document["baselines"]),
    )


def _entries(
    table: Iterable[MeasuredConfig], family: str, problem_type: type[P], config_type: type[C]
) -> tuple[Entry[P, C] | ComputedIsBest[P], ...]:
    """The entries of a family in their own types."""
    found: list[Entry[P, C] | ComputedIsBest[P]] = []
    for entry in table:
        if entry.family == family:
            problem = problem_type.from_dict(entry.problem)
            if entry.config is None:
                found.append(ComputedIsBest(problem))
            else:
                found.append(Entry(problem, config_type.from_dict(entry.config), entry.us))
    return tuple(found)


@functools.cache
def _built_in_entries(
    target: str, family: str, problem_type: Any, config_type: Any
) -> tuple[Entry[Any, Any] | ComputedIsBest[Any], ...]:
    """As `_entries`, of the file of a target; parsed once."""
    return _entries(_built_in(target).configs, family, problem_type, config_type)


def _distance(one: Problem, other: Problem) -> float:
    return _doublings(one, other) + (0.0 if one.traits == other.traits else TRAIT_DOUBLINGS)


def _doublings(one: Problem, other: Problem) -> float:
    return sum(
        abs(math.log2(max(1, a) / max(1, b))) for a, b in zip(one.sizes, other.sizes, strict=True)
    )
