"""Kernel configurations to try for the problems of a model on a GPU."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Iterable
from pathlib import Path

from iree.compiler import ir

from mlirfuse.backend.grouping_process import group
from mlirfuse.core import MlirfuseError
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.problem import Problem, Record
from mlirfuse.kernels.registry import FAMILIES
from mlirfuse.options import FusionOptions
from mlirfuse.targets.base import Target
from mlirfuse.tuning import kernel_search
from mlirfuse.tuning.model.space import Proposal
from mlirfuse.tuning_profile import entry as words
from mlirfuse.tuning_profile.entry import Setting

MAX_CONFIGS = 8
"""Configurations of a problem that are tried: those nearest to the one that the program has."""


def proposals(
    normalized: Path, output: Path, target: Target, options: FusionOptions
) -> list[Proposal]:
    """The configurations of the families for each group of a model; none where no kernel is built.

    Args:
      normalized: the module past IREE's global optimization.
      output: file for the grouped module, which is removed.
      target: the machine.
      options: the switches.
    """
    if target.gpu is None or not triton_compiler.available(target):
        return []
    kernels = [name for name in options.to_dict()["disable_feature"] if name == "kernels"]
    if kernels:
        return []
    try:
        without = options.over("tuner", {"disable_feature": ["kernels"]})
        group(normalized, output, target=target, options=without)
        with ir.Context():
            module = ir.Module.parseFile(os.fspath(output))
            return _of_module(module, target)
    except MlirfuseError:
        return []
    finally:
        output.unlink(missing_ok=True)


def _of_module(module: ir.Module, target: Target) -> list[Proposal]:
    """The proposals, the nearest configuration of each problem first."""
    found: dict[Problem, list[Proposal]] = {}
    for region in kernel_search.regions(module):
        for family in FAMILIES.values():
            problem = family.problem(region, target)
            if not isinstance(problem, Problem) or problem in found:
                continue
            tried = kernel_search.candidates(family, problem, region, target)
            default = family.default_config(problem, target)
            chosen = lookup.choose(target, problem, type(default), family.default_config)
            others = [c.config for c in tried if c.config != chosen]
            found[problem] = [
                _proposal(family.name, problem, config)
                for config in nearest_first(chosen, others)[:MAX_CONFIGS]
            ]
    ranks = itertools.zip_longest(*found.values())
    return [proposal for rank in ranks for proposal in rank if proposal is not None]


def _proposal(family: str, problem: Problem, config: Record) -> Proposal:
    value = {"family": family, "problem": problem.to_dict(), "config": config.to_dict()}
    return Proposal(Setting(words.KERNEL, value), f"{family} {problem}")


def nearest_first(chosen: Record, configs: Iterable[Record]) -> list[Record]:
    """The configurations by their distance from one of them; the order stays where it is equal.

    A field counts as the doublings between the two numbers, and as one where it is no number or
    where one of them is zero. The configuration of a program is computed from the problem and the
    device or was measured, so that better ones are near it: a family lists hundreds, its smallest
    tiles first.
    """
    return sorted(configs, key=lambda config: _distance(chosen, config))


def _distance(one: Record, other: Record) -> float:
    found = 0.0
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name, None)
        if a == b:
            continue
        numbers = [float(n) for n in (a, b) if type(n) is int and n > 0]
        found += abs(math.log2(numbers[0] / numbers[1])) if len(numbers) == 2 else 1.0
    return found
