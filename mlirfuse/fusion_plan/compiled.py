"""Compiles the program of a plan into one kernel, once for each description and target."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

from mlirfuse.compilation import open_model, resolved
from mlirfuse.core import CompileFailedError, UsageError
from mlirfuse.fusion_plan import find_db, rules
from mlirfuse.fusion_plan.codes import Code, FusionPlanError
from mlirfuse.fusion_plan.description import Description
from mlirfuse.fusion_plan.program import Program, write
from mlirfuse.fusion_plan.strategies import Strategy
from mlirfuse.runtime.module import FusedModule
from mlirfuse.targets.base import Target

MAX_PLANS = 256
"""Compiled plans that this process keeps; the least recently asked for goes first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """A plan as one kernel.

    Attributes:
      module: the program.
      arguments: index of the op and name of each argument after the input, in order.
      strategy: name of the way in which it was compiled.
      times: strategy -> microseconds of a call, of those that were measured.
    """

    module: FusedModule
    arguments: tuple[tuple[int, str], ...]
    strategy: str
    times: dict[str, float] = dataclasses.field(default_factory=dict)


_Key = tuple[str, str, str]
"""Description, target, and digest of the profile."""

_plans: collections.OrderedDict[_Key, Compiled] = collections.OrderedDict()
_building: dict[_Key, threading.Lock] = {}
_lock = threading.Lock()


def forget() -> None:
    """Forgets the plans of this process; those in the compile cache stay."""
    with _lock:
        _plans.clear()


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a compile that are the same for all strategies.

    Attributes:
      timeout: seconds that each step of the compiler may take; None for no limit.
      profile: a file of `mlirfuse-tune`; None without one.
    """

    timeout: float | None = None
    profile: str | None = None

    def digest(self) -> str:
        """A digest of the profile; empty without one.

        Raises:
          UsageError: the file cannot be read.
        """
        if self.profile is None:
            return ""
        try:
            return hashlib.sha256(Path(self.profile).read_bytes()).hexdigest()
        except OSError as error:
            raise UsageError(f"cannot read {self.profile}: {error.strerror}") from error


def compiled(plan: Description, target: Target, settings: Settings, *, find: bool) -> Compiled:
    """The plan as one kernel; a description that was compiled before is not compiled again.

    Args:
      plan: a plan that the rules take.
      target: the machine to compile for.
      settings: limits and profile of the compile.
      find: whether to measure all strategies on this machine's device, and to keep the fastest.

    Raises:
      FusionPlanError: the program has several kernels.
      UsageError: the profile cannot be read.
    """
    key = (plan.key(), str(target), settings.digest())
    with _lock:
        if key in _plans and not find:
            _plans.move_to_end(key)
            return _plans[key]
        building = _building.setdefault(key, threading.Lock())
    with building:
        with _lock:
            if key in _plans and not find:
                return _plans[key]
        made = _compile(plan, target, settings, find=find)
        with _lock:
            _plans[key] = made
            while len(_plans) > MAX_PLANS:
                _plans.popitem(last=False)
            _building.pop(key, None)
    return made


def _compile(plan: Description, target: Target, settings: Settings, *, find: bool) -> Compiled:
    rule = rules.find(plan, target)
    strategies = list(rule.strategies)
    if find:
        return _fastest(plan, strategies, target, settings)
    winner = find_db.winner(plan, target)
    strategies.sort(key=lambda s: s.name != winner)  # the order of the rule for the others
    failures = []
    for strategy in strategies:
        program = written(plan, strategy)
        made = one_kernel(program, strategy, target, settings)
        if isinstance(made, FusedModule):
            return Compiled(made, program.arguments, strategy.name)
        failures.append(f"{strategy.name}: {made}")
    raise FusionPlanError(Code.SEVERAL_KERNELS, f"{plan} on {target}: {'; '.join(failures)}")


def _fastest(
    plan: Description,
    strategies: Sequence[Strategy],
    target: Target,
    settings: Settings,
) -> Compiled:
    """The fastest of the strategies that make one kernel, which is stored.

    Raises:
      FusionPlanError: none does.
    """
    found: dict[str, Compiled] = {}
    failures = []
    for strategy in strategies:
        program = written(plan, strategy)
        made = one_kernel(program, strategy, target, settings)
        if isinstance(made, FusedModule):
            found[strategy.name] = Compiled(made, program.arguments, strategy.name)
        else:
            failures.append(f"{strategy.name}: {made}")
    if not found:
        raise FusionPlanError(Code.SEVERAL_KERNELS, f"{plan} on {target}: {'; '.join(failures)}")
    times = find_db.measured({name: each.module for name, each in found.items()})
    best = min(times, key=times.__getitem__)
    find_db.store(plan, target, best, times)
    return dataclasses.replace(found[best], times=times)


def text(plan: Description, target: Target, program: Compiled) -> str:
    """The MLIR that a compiled plan was compiled from."""
    strategies = rules.find(plan, target).strategies
    return written(plan, next(s for s in strategies if s.name == program.strategy)).text


def written(plan: Description, strategy: Strategy) -> Program:
    """The program of a plan that a strategy compiles."""
    return write(
        plan.input,
        list(zip(plan.ops, plan.derived(), strict=True)),
        computes_positions=strategy.computes_positions,
    )


def one_kernel(
    program: Program, strategy: Strategy, target: Target, settings: Settings
) -> FusedModule | str:
    """The program with one kernel; the failure, or the kernels that it has instead."""
    switches = dict(strategy.switches)
    if settings.profile is not None:
        switches["profile"] = settings.profile
    with open_model(
        program.text.encode(),
        target=target,
        options=resolved(None, switches),
        timeout=settings.timeout,
    ) as compilation:
        # The layout of the plan's tensors is the caller's: no transposes at the program's ends.
        compilation.compiler = dataclasses.replace(compilation.compiler, keeps_layout=True)
        try:
            image, report = compilation.build()
        except CompileFailedError as error:
            return str(error)
        if len(report.kernels) != 1:
            names = ", ".join(kernel.name for kernel in report.kernels)
            return f"{len(report.kernels)} kernels ({names})"
        return compilation.module(image, report)
