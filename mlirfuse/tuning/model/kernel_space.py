"""Kernel configurations to try for the problems of a model on a GPU."""

from __future__ import annotations

import os
from pathlib import Path

from iree.compiler import ir

from mlirfuse.backend.grouping_process import group
from mlirfuse.core import MlirfuseError
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.problem import Problem
from mlirfuse.kernels.registry import FAMILIES
from mlirfuse.options import FusionOptions
from mlirfuse.targets.base import Target
from mlirfuse.tuning import kernel_search
from mlirfuse.tuning.model.space import Proposal
from mlirfuse.tuning_profile import entry as words
from mlirfuse.tuning_profile.entry import Setting

MAX_CONFIGS = 8
"""Configurations of a problem that are tried, in the family's order, beside the default."""


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
    found: dict[str, Proposal] = {}
    seen: set[Problem] = set()
    for region in kernel_search.regions(module):
        for family in FAMILIES.values():
            problem = family.problem(region, target)
            if not isinstance(problem, Problem) or problem in seen:
                continue
            seen.add(problem)
            tried = kernel_search.candidates(family, problem, region, target)
            for candidate in [c for c in tried if not c.default][:MAX_CONFIGS]:
                value = {
                    "family": family.name,
                    "problem": problem.to_dict(),
                    "config": candidate.config.to_dict(),
                }
                proposal = Proposal(Setting(words.KERNEL, value), f"{family.name} {problem}")
                found.setdefault(proposal.setting.key, proposal)
    return list(found.values())
