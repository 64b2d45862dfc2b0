"""Searches configurations of kernels: builds candidates, measures them, keeps those that gain.

kernel_search.build(modules, target, folder)       objects and `jobs.json`; needs Triton, no GPU
jobs = kernel_timing.measured(folder)              needs a GPU alone
kernel_search.best(jobs)                           one `MeasuredConfig` for each measured problem
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
from mlirfuse.kernels.codegen.element_types import POINTERS
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
    family plans another one. Kernels with memory of their own are not measured.
    """
    default = family.default_config(problem, target)
    found: dict[tuple[Program, tuple[Extent, ...]], Candidate] = {}
    for config in dict.fromkeys([default, *family.configs(problem, target)]):
        plan = family.plan(region, target, config)
        if isinstance(plan, Plan) and not plan.workspaces:
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
    # The kernels of a problem take the same tensors in orders of their own.
    tensors = {
        problem: list(dict.fromkeys(v for c in found for v in c.plan.operands))
        for problem, found in plans.items()
    }
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = pool.map(lambda entry: _object(entry[1].plan, target), flat)
        for number, ((problem, candidate), kernel) in enumerate(zip(flat, objects, strict=True)):
            message = "no kernel"
            if kernel is not None and kernel.workgroup_memory <= (target.shared_memory or 0):
                name = f"{number}.{kernel.suffix}"
                (folder / name).write_bytes(kernel.code)
                jobs.append(_job(problem, candidate, tensors[problem], kernel, name))
                message = f"{kernel.workgroup_memory} bytes of shared memory"
            tried = f"{problem.family} {problem} {candidate.config}"
            say(f"[{number + 1}/{len(flat)}] {tried}: {message}")
    (folder / "jobs.json").write_text(json.dumps(jobs, indent=1) + "\n", "utf-8")
    shutil.copy(kernel_timing.__file__, folder / "measure.py")
    return len(jobs)


def best(jobs: Iterable[Mapping[str, Any]]) -> list[MeasuredConfig]:
    """The fastest configuration of each measured problem, or None where none beats the default."""
    found = []
    for tried in by_problem(jobs).values():
        fastest = min(tried, key=_us)
        entry = entry_of(fastest)
        if not gains(fastest, tried):
            us = min(job["us"] for job in tried if job.get("default"))
            entry = dataclasses.replace(entry, config=None, us=us)
        found.append(entry)
    return found


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


def _job(
    problem: Problem, candidate: Candidate, tensors: list[ir.Value], kernel: Kernel, name: str
) -> dict[str, Any]:
    """The launch of a candidate, for `kernel_timing`.

    Args:
      problem: the problem.
      candidate: its configuration and plan.
      tensors: operands of all candidates of the problem.
      kernel: the object code.
      name: file of the object code.
    """
    plan = candidate.plan
    dynamic_sizes = [ROWS for _ in plan.sizes]
    grid = [extent.count(dynamic_sizes) for extent in plan.grid]
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
        "tensors": [_described(value) for value in tensors],
        "operands": [tensors.index(value) for value in plan.operands],
        "results": [_described(value) for value in plan.results],
        "dynamic_sizes": dynamic_sizes,
        "in_place": plan.destination is not None,
    }


def _described(value: ir.Value) -> tuple[int, str]:
    """Number of elements and element type of a tensor in memory."""
    kind = POINTERS[ops.element_type(value)]
    return _elements(value), _TYPES.get(kind, kind.removeprefix("*"))


def _elements(value: ir.Value) -> int:
    total = 1
    for size in ops.shape(value):
        total *= ROWS if size is None else size
    return total
