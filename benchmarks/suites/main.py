"""Whole models and blocks on the CPU, against IREE and PyTorch."""

from __future__ import annotations

import dataclasses
import gc
import logging
from collections.abc import Callable, Sequence

from torch import nn

from benchmarks import models, systems, timing
from benchmarks.results import Results, Row
from benchmarks.suites.suite import Suite
from benchmarks.tables import Table
from mlirfuse.core import MlirfuseError

ROUNDS = 25
QUICK_ROUNDS = 5

WORK: dict[str, Callable[[], tuple[nn.Module, models.Inputs]]] = {
    "MiniLM 1x128": lambda: models.minilm(1, 128),
    "MiniLM 4x128": lambda: models.minilm(4, 128),
    "Llama block 1x128x1024": models.llama_block,
    "GPT block 1x128x768": models.gpt_block,
}

_TEXT = (
    "f32. `stock` is IREE with its default flags, `stock_best` IREE with data tiling, `eager` "
    "PyTorch, `no_siblings` ours with `--horizontal=off`. The error is the maximum absolute error "
    "against float64, relative to the largest magnitude of the result."
)

_log = logging.getLogger(__name__)


def run(work: Sequence[str], quick: bool) -> list[Row]:
    """Times all systems of every workload; those that do not compile are left out and logged."""
    timing.use_threads()
    rows = []
    for name in work:
        _log.info("%s: compiling", name)
        try:
            rows.append(_row(name, *WORK[name](), rounds=QUICK_ROUNDS if quick else ROUNDS))
        except MlirfuseError as error:
            _log.error("%s: %s", name, error)
        gc.collect()
    return rows


def _row(work: str, module: nn.Module, inputs: models.Inputs, *, rounds: int) -> Row:
    comparison = systems.prepare(module, inputs)
    errors = comparison.errors(module, inputs)
    _log.info("%s: timing %d rounds of %s", work, rounds, ", ".join(comparison.calls))
    samples = timing.interleave(comparison.calls, rounds=rounds)
    peers = [name for name in comparison.calls if name != "ours"]
    return Row(
        work=work,
        dtype="f32",
        ours_ms=samples.milliseconds("ours"),
        error=errors["ours"],
        peers={name: samples.milliseconds(name) for name in peers},
        ratios={name: dataclasses.asdict(samples.ratio(name, "ours")) for name in peers},
        details={
            "rounds": rounds,
            "errors": errors,
            "dispatches": comparison.dispatches,
            "rewrites": comparison.rewrites,
        },
    )


def tables(measured: Results) -> list[Table]:
    """One table with a line for each system of each model."""
    header = ["model", "system", "ms", "over ours", "quartiles", "dispatches", "error"]
    lines = []
    for row in measured.rows:
        dispatches, errors = row.details["dispatches"], row.details["errors"]
        counts = {"ours": dispatches["fused"], "stock": dispatches["stock"]}
        lines.append([row.work, "ours", f"{row.ours_ms:.1f}", "1", ""])
        for name, milliseconds in row.peers.items():
            ratio = row.ratios[name]
            spread = f"{ratio['low']:.2f} to {ratio['high']:.2f}"
            lines.append(["", name, f"{milliseconds:.1f}", f"{ratio['median']:.2f}", spread])
        for line in lines[-len(row.peers) - 1 :]:
            line += [str(counts.get(line[1], "")), f"{errors[line[1]]:.1e}"]
    return [Table("Models on the CPU", _TEXT, header, lines, words=2)]


SUITE = Suite(tuple(WORK), tuple(WORK), run, tables)
