"""Searches the tiles of kernels: builds every candidate, measures it on a device, keeps the best.

jobs = search.build(modules, target, folder)       objects and `jobs.json`; needs Triton, no GPU
found = measure.measured(folder)                   needs a GPU alone
search.best(found)                                 one `MeasuredConfig` for each problem
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from iree.compiler import ir

from mlirfuse.core import CompileFailedError
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul.problem import DEFAULT_DYNAMIC_M
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.problem import Problem, Record
from mlirfuse.kernels.registry import FAMILIES
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import MeasuredConfig, Target
from mlirfuse.tuning import kernel_timing

_TYPES = {"*fp16": "f16", "*bf16": "bf16", "*fp32": "f32"}

ROWS = DEFAULT_DYNAMIC_M
"""A dynamic number of rows, where candidates are measured."""


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
      say: is told of each object.

    Returns:
      The number of candidates.
    """
    plans: dict[Problem, list[tuple[Record, Plan]]] = {}
    for module in modules:
        for region in regions(module):
            for family in FAMILIES.values():
                problem = family.problem(region, target)
                if isinstance(problem, Problem) and problem not in plans:
                    tried = (
                        (config, family.plan(region, target, config))
                        for config in family.configs(problem, target)
                    )
                    plans[problem] = [(c, plan) for c, plan in tried if isinstance(plan, Plan)]
    flat = [(problem, *candidate) for problem, found in plans.items() for candidate in found]
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = pool.map(lambda entry: _object(entry[2], target), flat)
        for number, ((problem, config, plan), kernel) in enumerate(zip(flat, objects, strict=True)):
            said = "no kernel"
            if kernel is not None and kernel.workgroup_memory <= (target.shared_memory or 0):
                name = f"{number}.{kernel.suffix}"
                (folder / name).write_bytes(kernel.code)
                jobs.append(_job(problem, config, plan, kernel, name))
                said = f"{kernel.workgroup_memory} bytes of workgroup memory"
            say(f"[{number + 1}/{len(flat)}] {problem.family} {problem} {config}: {said}")
    (folder / "jobs.json").write_text(json.dumps(jobs, indent=1) + "\n", "utf-8")
    shutil.copy(kernel_timing.__file__, folder / "measure.py")
    return len(jobs)


def best(jobs: Iterable[Mapping[str, Any]]) -> list[MeasuredConfig]:
    """The fastest candidate of each problem that was measured."""
    found: dict[str, MeasuredConfig] = {}
    for job in jobs:
        name = json.dumps([job["family"], job["problem"]], sort_keys=True)
        if "us" in job and (name not in found or job["us"] < found[name].us):
            found[name] = MeasuredConfig(job["family"], job["problem"], job["config"], job["us"])
    return list(found.values())


def regions(module: ir.Module) -> list[ir.Operation]:
    """The groups of all functions of a module, in order."""
    return [
        view.operation
        for function in ops.functions(module)
        for block in ops.blocks(function)
        for view in block.operations
        if view.operation.name == ops.REGION
    ]


def _object(plan: Plan, target: Target) -> Any:
    try:
        return triton_compiler.build(plan.program, target.arch)
    except CompileFailedError:
        return None


def _job(problem: Problem, config: Record, plan: Plan, kernel: Any, name: str) -> dict[str, Any]:
    """What a device needs to know of a candidate."""
    told = [ROWS for _ in plan.sizes]
    grid = [extent.count(told) for extent in plan.grid]
    count = len(plan.operands)
    types = [_TYPES.get(kind, kind.removeprefix("*")) for _, kind in plan.program.arguments]
    sizes = [_elements(value) for value in (*plan.operands, *plan.results)]
    pairs = list(zip(sizes, types, strict=False))
    return {
        "family": problem.family,
        "problem": problem.to_dict(),
        "config": config.to_dict(),
        "object": name,
        "entry": plan.program.entry,
        "grid": grid,
        "threads": kernel.workgroup_size[0],
        "shared": kernel.shared_memory,
        "operands": pairs[:count],
        "results": pairs[count:],
        "told": told,
    }


def _elements(value: ir.Value) -> int:
    total = 1
    for size in ops.shape(value):
        total *= ROWS if size is None else size
    return total
