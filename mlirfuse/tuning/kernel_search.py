"""Searches the tiles of kernels: builds every candidate, measures it on a device, keeps the best.

jobs = search.build(modules, target, folder)       objects and `jobs.json`; needs Triton, no GPU
found = measure.measured(folder)                   needs a GPU alone
search.best(found)                                 one `Tuned` for each kernel
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
from mlirfuse.kernels.attention import planner as attention
from mlirfuse.kernels.convolution import planner as convolution
from mlirfuse.kernels.matmul import planner as matmul
from mlirfuse.kernels.matmul.tilings import UNKNOWN_ROWS
from mlirfuse.kernels.plan import Key, Plan
from mlirfuse.kernels.pointwise import planner as pointwise
from mlirfuse.kernels.reduction import planner as reduction
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target, Tuned
from mlirfuse.tuning import kernel_timing

KINDS: Mapping[str, Any] = {
    "matmul": matmul,
    "attention": attention,
    "convolution": convolution,
    "elementwise": pointwise,
    "transpose": pointwise,
    "rows": reduction,
}
"""Kind of a key -> the module that plans such kernels."""

_TYPES = {"*fp16": "f16", "*bf16": "bf16", "*fp32": "f32"}

ROWS = UNKNOWN_ROWS
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
    plans: dict[Key, list[tuple[Any, Plan]]] = {}
    for module in modules:
        for region in regions(module):
            for kind in dict.fromkeys(KINDS.values()):
                plan = kind.supports(region, target)
                if isinstance(plan, Plan) and plan.key is not None and plan.key not in plans:
                    tried = [
                        (tiling, kind.supports(region, target, tiling))
                        for tiling in kind.candidates(plan.key)
                    ]
                    plans[plan.key] = [pair for pair in tried if isinstance(pair[1], Plan)]
    flat = [(key, *candidate) for key, found in plans.items() for candidate in found]
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = pool.map(lambda entry: _object(entry[2], target), flat)
        for number, ((key, tiling, plan), kernel) in enumerate(zip(flat, objects, strict=True)):
            said = "no kernel"
            if kernel is not None and kernel.workgroup_memory <= (target.shared_memory or 0):
                name = f"{number}.{kernel.suffix}"
                (folder / name).write_bytes(kernel.code)
                jobs.append(_job(key, tiling, plan, kernel, name))
                said = f"{kernel.workgroup_memory} bytes of workgroup memory"
            say(f"[{number + 1}/{len(flat)}] {key.kind} {key.sizes} {tiling}: {said}")
    (folder / "jobs.json").write_text(json.dumps(jobs, indent=1) + "\n", "utf-8")
    shutil.copy(kernel_timing.__file__, folder / "measure.py")
    return len(jobs)


def best(jobs: Iterable[Mapping[str, Any]]) -> list[Tuned]:
    """The fastest candidate of each kernel that was measured."""
    found: dict[str, Tuned] = {}
    for job in jobs:
        name = json.dumps(job["key"])
        if "us" in job and (name not in found or job["us"] < found[name].us):
            key = job["key"]
            found[name] = Tuned(
                key["kind"], key["form"], tuple(key["sizes"]), tuple(job["tiling"]), job["us"]
            )
    return list(found.values())


def numbers(tiling: Any) -> tuple[int, ...]:
    """The numbers of a tiling."""
    return tuple(int(number) for number in dataclasses.astuple(tiling))


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


def _job(key: Key, tiling: Any, plan: Plan, kernel: Any, name: str) -> dict[str, Any]:
    """What a device needs to know of a candidate."""
    told = [ROWS for _ in plan.sizes]
    grid = [extent.count(told) for extent in plan.grid]
    count = len(plan.operands)
    types = [_TYPES.get(kind, kind.removeprefix("*")) for _, kind in plan.program.arguments]
    sizes = [_elements(value) for value in (*plan.operands, *plan.results)]
    pairs = list(zip(sizes, types, strict=False))
    return {
        "key": dataclasses.asdict(key),
        "tiling": list(numbers(tiling)),
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
