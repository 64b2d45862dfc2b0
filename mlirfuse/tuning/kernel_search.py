"""Searches configurations of kernels: builds candidates, measures them, keeps those that gain.

kernel_search.build(modules, target, folder)       objects and `jobs.json`; needs Triton, no GPU
jobs = kernel_timing.measured(folder)              needs a GPU alone
kernel_search.best(jobs)                           one `MeasuredConfig` for each problem that gains
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from iree.compiler import ir

from mlirfuse.core import CompileFailedError
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.matmul.problem import DEFAULT_DYNAMIC_M
from mlirfuse.kernels.plan import Extent, Kernel, Plan, Program
from mlirfuse.kernels.problem import Problem, Record
from mlirfuse.kernels.registry import FAMILIES
from mlirfuse.structured.ir import ops
from mlirfuse.targets import kernel_configs
from mlirfuse.targets.base import MeasuredConfig, Target
from mlirfuse.tuning import kernel_timing

_TYPES = {"*fp16": "f16", "*bf16": "bf16", "*fp32": "f32"}

ROWS = DEFAULT_DYNAMIC_M
"""The number that a dynamic first dimension has, where candidates are measured."""

MIN_GAIN = 0.03
"""The part of the default configuration's time that a measured one saves at least to be kept: more
than runs of one kernel differ, so that entries are no noise and the computed default stays known to
be worse where there is one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration with the plan of its kernel.

    Attributes:
      config: the configuration.
      plan: the plan.
      default: whether the family computes this configuration for the problem.
    """

    config: Record
    plan: Plan
    default: bool


def candidates(
    family: KernelFamily[Any, Any, Any], problem: Problem, region: ir.Operation, target: Target
) -> list[Candidate]:
    """The configurations to measure for a region, the computed default first.

    Configurations of one program are one candidate: where a kernel cannot have a configuration, the
    family plans another one.
    """
    default = family.default_config(problem, target)
    found: dict[tuple[Program, tuple[Extent, ...]], Candidate] = {}
    for config in dict.fromkeys([default, *family.configs(problem, target)]):
        plan = family.plan(region, target, config)
        if isinstance(plan, Plan):
            candidate = Candidate(config, plan, config == default)
            found.setdefault((plan.program, plan.grid), candidate)
    return list(found.values())


def build(
    modules: Iterable[ir.Module],
    target: Target,
    folder: Path,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Builds all candidates for the groups of some modules, each kernel once.

    Args:
      modules: grouped, without kernels yet.
      target: a target with kernels.
      folder: gets an object for each candidate, `jobs.json`, and the script that measures them.
      say: called with a line for each object.

    Returns:
      The number of candidates.
    """
    plans: dict[Problem, list[Candidate]] = {}
    # Plans refer to values of their module.
    kept = list(modules)
    for module in kept:
        for region in regions(module):
            for family in FAMILIES.values():
                problem = family.problem(region, target)
                if isinstance(problem, Problem) and problem not in plans:
                    plans[problem] = candidates(family, problem, region, target)
    flat = [(problem, candidate) for problem, found in plans.items() for candidate in found]
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = pool.map(lambda entry: _object(entry[1].plan, target), flat)
        for number, ((problem, candidate), kernel) in enumerate(zip(flat, objects, strict=True)):
            message = "no kernel"
            if kernel is not None and kernel.workgroup_memory <= (target.shared_memory or 0):
                name = f"{number}.{kernel.suffix}"
                (folder / name).write_bytes(kernel.code)
                jobs.append(_job(problem, candidate, kernel, name))
                message = f"{kernel.workgroup_memory} bytes of shared memory"
            tried = f"{problem.family} {problem} {candidate.config}"
            say(f"[{number + 1}/{len(flat)}] {tried}: {message}")
    (folder / "jobs.json").write_text(json.dumps(jobs, indent=1) + "\n", "utf-8")
    shutil.copy(kernel_timing.__file__, folder / "measure.py")
    return len(jobs)


def best(jobs: Iterable[Mapping[str, Any]]) -> list[MeasuredConfig]:
    """The fastest configuration of each measured problem, where it beats the default."""
    fastest = [(min(found, key=_us), found) for found in by_problem(jobs).values()]
    return [entry_of(job) for job, found in fastest if gains(job, found)]


def by_problem(jobs: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The measured jobs of each problem, by `key_of`."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for job in jobs:
        if "us" in job:
            found.setdefault(key_of(job), []).append(job)
    return found


def key_of(entry: Mapping[str, Any]) -> str:
    """The family and problem of a job or of an entry of a table."""
    return json.dumps([entry["family"], entry["problem"]], sort_keys=True)


def gains(job: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a job is faster by `MIN_GAIN` than the default among the jobs of its problem.

    A problem whose default was not measured, or gave no correct result, keeps the job.
    """
    defaults = [other["us"] for other in others if other.get("default")]
    return not defaults or bool(job["us"] <= min(defaults) * (1 - MIN_GAIN))


def entry_of(job: Mapping[str, Any]) -> MeasuredConfig:
    """The configuration that a job measured."""
    return MeasuredConfig(job["family"], job["problem"], job["config"], job["us"])


def regions(module: ir.Module) -> list[ir.Operation]:
    """The groups of all functions of a module, in order."""
    return [
        view.operation
        for function in ops.functions(module)
        for block in ops.blocks(function)
        for view in block.operations
        if view.operation.name == ops.REGION
    ]


def _us(job: Mapping[str, Any]) -> float:
    return float(job["us"])


def _object(plan: Plan, target: Target) -> Kernel | None:
    try:
        return triton_compiler.build(plan.program, target.arch)
    except CompileFailedError:
        return None


def _job(problem: Problem, candidate: Candidate, kernel: Kernel, name: str) -> dict[str, Any]:
    """The launch of a candidate, for `kernel_timing`."""
    plan = candidate.plan
    dynamic_sizes = [ROWS for _ in plan.sizes]
    grid = [extent.count(dynamic_sizes) for extent in plan.grid]
    count = len(plan.operands)
    types = [_TYPES.get(kind, kind.removeprefix("*")) for _, kind in plan.program.arguments]
    sizes = [_elements(value) for value in (*plan.operands, *plan.results)]
    pairs = list(zip(sizes, types, strict=False))
    return {
        "family": problem.family,
        "problem": problem.to_dict(),
        "config": candidate.config.to_dict(),
        "default": candidate.default,
        "versions": kernel_configs.version_numbers(),
        "object": name,
        "entry": plan.program.entry,
        "grid": grid,
        "threads": kernel.workgroup_size[0],
        "shared": kernel.shared_memory,
        "operands": pairs[:count],
        "results": pairs[count:],
        "dynamic_sizes": dynamic_sizes,
    }


def _elements(value: ir.Value) -> int:
    total = 1
    for size in ops.shape(value):
        total *= ROWS if size is None else size
    return total
