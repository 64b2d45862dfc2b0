"""`python -m benchmarks fusion_plan_speed`: one fused kernel against a kernel for each op.

The combinations are those of MIOpen's charts: convolution, bias and activation, and batch norm and
activation. The separate side has a plan for each op, whose output is the input of the next one.
On a CPU the times are of calls; on a GPU of the kernels of a call, as in MIOpen's charts, with
copies of the images that do not fit its cache together.
"""

from __future__ import annotations

import argparse
import functools
import logging
import math
import os
import sys
from collections.abc import Callable, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results, timing
from benchmarks.suites import chart
from mlirfuse.benchmarking.timing import Samples
from mlirfuse.core import MlirfuseError
from mlirfuse.fusion_plan import Description, FusionPlan, PlanArguments, TensorSpec
from mlirfuse.fusion_plan.text import parse

_log = logging.getLogger("benchmarks")

SUITE, SEPARATE = "fusion_plan_speed", "separate kernels"

RECORDS = {"cpu": SUITE, "cuda": f"{SUITE}_gpu"}
"""Name of a target -> its record; PyTorch has tensors on the device of each."""

COLD_BYTES = 256 << 20
"""Bytes of copies of an image together: more than the caches of GPUs hold."""

MAX_COPIES = 64
"""Upper limit of the copies of small images."""

_CBA, _NA = " -> bias -> relu", "batch_norm -> relu"

PLANS: Mapping[str, tuple[str, tuple[int, int, int]]] = {
    "CBA 1x1, 64 channels of 56x56": (f"conv 1x1 64{_CBA}", (64, 56, 56)),
    "CBA 1x1, 256 channels of 28x28": (f"conv 1x1 256{_CBA}", (256, 28, 28)),
    "CBA 3x3, 64 channels of 56x56": (f"conv 3x3 p1 64{_CBA}", (64, 56, 56)),
    "CBA 3x3, 128 channels of 28x28": (f"conv 3x3 p1 128{_CBA}", (128, 28, 28)),
    "CBA 3x3, stride 2, 128 channels of 28x28": (f"conv 3x3 s2 p1 128{_CBA}", (128, 28, 28)),
    "CBA 5x5, 32 channels of 28x28": (f"conv 5x5 p2 32{_CBA}", (32, 28, 28)),
    "CBA 7x7, stride 2, 3 channels of 224x224": (f"conv 7x7 s2 p3 64{_CBA}", (3, 224, 224)),
    "NA, 64 channels of 56x56": (_NA, (64, 56, 56)),
    "NA, 256 channels of 28x28": (_NA, (256, 28, 28)),
    "NA, 512 channels of 7x7": (_NA, (512, 7, 7)),
}
"""Name -> the plan and the image: channels, height, width."""


Call = Callable[[int], Any]
"""A call with the copy of the image of an index, which returns when its work is done."""


def sides(plan: Description, target: str, copies: int = 1) -> dict[str, Call]:
    """The compiled plan, and its ops as plans of their own, as calls on the same arguments.

    Args:
      plan: the plan.
      target: as for `FusionPlan`.
      copies: number of images.

    Raises:
      MlirfuseError: a plan is not one kernel.
    """
    rng = np.random.default_rng(0)
    fused = FusionPlan.of(plan, target).compile()
    args = fused.args()
    on_device, wait = _device(fused.target.name)
    shape, dtype = plan.input.shape, _dtype(plan.input.dtype)
    images = [on_device(rng.standard_normal(shape).astype(dtype)) for _ in range(copies)]
    steps: list[tuple[FusionPlan, PlanArguments]] = []
    given = plan.input
    for op in fused.ops:
        alone = FusionPlan.of(Description(given, (op.op,)), target).compile()
        own = alone.args()
        for name, spec in alone.derived()[0].arguments.items():
            if spec.shape:
                value = np.abs(rng.standard_normal(spec.shape)).astype(_dtype(spec.dtype))
                args.set(op, **{name: on_device(value)})
                own.set(0, **{name: on_device(value)})
        steps.append((alone, own))
        given = alone.output

    def separate(copy: int) -> Any:
        value = images[copy]
        for alone, own in steps:
            value = alone.execute(value, args=own)
        wait()
        return value

    def together(copy: int) -> Any:
        value = fused.execute(images[copy], args=args)
        wait()
        return value

    return {"fused": together, SEPARATE: separate}


def _device(name: str) -> tuple[Callable[[Any], Any], Callable[[], None]]:
    """What puts an array on the device of a target, and what waits for the device."""
    if name == "cpu":
        return lambda array: array, lambda: None
    import torch

    return lambda array: torch.from_numpy(array).cuda(), torch.cuda.synchronize


def _dtype(name: str) -> np.dtype[Any]:
    from mlirfuse.runtime.arrays import numpy_dtype

    return numpy_dtype(name)


def copies_of(plan: Description, kind: str) -> int:
    """Number of images of a plan, whose bytes a GPU's cache does not hold together."""
    if kind == "cpu":
        return 1
    image = math.prod(plan.input.shape) * _dtype(plan.input.dtype).itemsize
    return min(MAX_COPIES, max(2, math.ceil(COLD_BYTES / image)))


def times(calls: Mapping[str, Call], kind: str, copies: int, rounds: int) -> Samples:
    """The times of both sides, in turns: of calls on a CPU, of kernels on a GPU."""
    if kind == "cpu":
        timed = {name: functools.partial(call, 0) for name, call in calls.items()}
        return timing.interleave(timed, rounds=rounds)
    from benchmarks.gpu import timer

    for call in calls.values():
        for copy in range(copies):
            call(copy)
    return Samples(timer.kernels(calls, rounds=rounds, copies=copies))


def row(
    name: str, plan: Description, calls: Mapping[str, Call], kind: str, rounds: int
) -> results.Row:
    """The times of a plan and of its ops, in turns."""
    _log.info("%s: %s", name, plan)
    samples = times(calls, kind, copies_of(plan, kind), rounds)
    ratio = samples.ratio(SEPARATE, "fused")
    return results.Row(
        work=name,
        dtype=plan.input.dtype,
        ours_ms=samples.milliseconds("fused"),
        peers={SEPARATE: samples.milliseconds(SEPARATE)},
        ratios={SEPARATE: {"median": ratio.median, "low": ratio.low, "high": ratio.high}},
    )


def main(arguments: list[str]) -> int:
    """Times the plans, and writes the record; docs/generate.py draws its chart."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {SUITE}", description=__doc__)
    parser.add_argument("--target", default="cpu", help="this CPU, or a name for it (default: cpu)")
    parser.add_argument("--dtype", default="f32", choices=("f32", "f16", "bf16"))
    parser.add_argument("--batch", type=int, default=64, help="images (default: 64, as MIOpen)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=1, help="plans compiled at a time")
    parser.add_argument("--only", default="", metavar="WORD", help="plans with this word")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    given = parser.parse_args(arguments)
    kind = given.target.partition(":")[0]
    if kind not in RECORDS:
        parser.error(f"--target is one of {', '.join(RECORDS)}")
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    _log.setLevel(logging.INFO)
    timing.use_threads()
    load = os.getloadavg()[0]
    plans = {
        name: parse(text, TensorSpec((given.batch, *image), given.dtype, "NCHW"))
        for name, (text, image) in PLANS.items()
        if given.only in name
    }
    rows = []
    with futures.ThreadPoolExecutor(given.jobs) as pool:
        compiled = {
            name: pool.submit(sides, plan, given.target, copies_of(plan, kind))
            for name, plan in plans.items()
        }
        futures.wait(compiled.values())
    for name, plan in plans.items():
        try:
            rows.append(row(name, plan, compiled[name].result(), kind, given.rounds))
        except MlirfuseError as error:
            _log.warning("%s: %s", name, error)
    complete = len(rows) == len(PLANS)
    measured = results.describe(RECORDS[kind], rows, load=load, quick=False, complete=complete)
    if kind != "cpu":
        import torch

        measured.device = torch.cuda.get_device_name()
    measured.save(given.results)
    for work, ratio in _ratios(measured).items():
        sys.stdout.write(f"{work}: {ratio:.2f}\n")
    return 0 if complete or given.only else 1


def _ratios(measured: results.Results) -> dict[str, float]:
    return {row.work: row.ratios[SEPARATE]["median"] for row in measured.rows}


def recorded(folder: Path = results.FOLDER) -> list[results.Results]:
    """The complete records, the CPU's first."""
    names = [name for name in RECORDS.values() if (folder / f"{name}.json").exists()]
    return [results.load(name, folder) for name in names]


def picture(measured: results.Results) -> str:
    """The chart of a record, as SVG."""
    title = f"Time of separate kernels over that of one fused kernel, {measured.device}"
    return chart.bars(title, _ratios(measured), low=1.0)


def table(measured: results.Results) -> str:
    """The rows of a record with its machine, in Markdown."""
    lines = [
        f"{measured.device}, {measured.date}, load average before the run {measured.load:.1f}:",
        "",
        "| plan | type | one kernel, ms | a kernel for each op, ms | ratio (quartiles) |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for row in measured.rows:
        ratio = row.ratios[SEPARATE]
        quartiles = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
        times = f"{_shown(row.ours_ms)} | {_shown(row.peers[SEPARATE])}"
        lines.append(f"| {row.work} | {row.dtype} | {times} | {quartiles} |")
    return "\n".join(lines)


def _shown(milliseconds: float | None) -> str:
    """A time with three digits."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"
