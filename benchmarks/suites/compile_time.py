"""Compile time of our passes relative to `iree-compile`, from one Llama block to many.

Ours is the time between the two phases of the compiler: reading the bytecode, the engine, writing
the grouped module. The baseline is those two phases on the same model without our passes.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iree.compiler import ir

from benchmarks import models
from benchmarks.results import Results, Row
from benchmarks.suites.suite import Suite
from benchmarks.tables import Table
from mlirfuse import targets
from mlirfuse.backend.compiler import Compiler
from mlirfuse.frontends import import_model
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine

WORK = {f"Llama x {blocks}": blocks for blocks in (1, 4, 16, 64)}
QUICK_WORK = tuple(WORK)[:2]

WIDTH = 256
"""Small, because the time of the passes depends on operators, not on sizes."""

TOKENS = 64
REPEATS = 3
"""Runs of our part; the compiler, which takes far longer, runs once."""

_TEXT = (
    f"Stacks of Llama blocks, width {WIDTH}, {TOKENS} tokens. IREE: `iree-compile` without our "
    "passes. Ours runs between its phases, from bytecode to bytecode: `first` is the first run, as "
    f"in a compilation, `median` that of {REPEATS} runs. Part is `first` over IREE. Growth is the "
    "exponent of the median since the previous row: 1 is linear."
)
_PASSES = (
    "Wall time of each step, and the rewrites of each pass. Passes run on three "
    "[representative layers](repeated-layers.md)."
)

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Ours:
    """Times of our part, in seconds.

    Attributes:
      parse: time of reading the bytecode.
      engine: time of all passes.
      write: time of writing the bytecode.
      passes: pass -> its time.
      rewrites: pass -> count of its rewrites.
    """

    parse: float
    engine: float
    write: float
    passes: dict[str, float]
    rewrites: dict[str, int]

    @property
    def total(self) -> float:
        """Total time, in seconds."""
        return self.parse + self.engine + self.write


def run(work: Sequence[str], quick: bool) -> list[Row]:
    """Compiles stacks of blocks and times both; each row has its growth since the previous one."""
    rows: list[Row] = []
    for name in work:
        rows.append(_row(name, 1 if quick else REPEATS, rows[-1] if rows else None))
    return rows


def _row(work: str, repeats: int, before: Row | None) -> Row:
    blocks = WORK[work]
    module, inputs = models.llama_stack(blocks, tokens=TOKENS, width=WIDTH, heads=4)
    compiler = Compiler(targets.parse("cpu"), FusionOptions.resolve())
    imported = import_model(module, inputs)
    assert imported.workdir is not None
    with imported.workdir as folder:
        normalized, program = Path(folder, "normalized.mlirbc"), Path(folder, "stock.vmfb")
        _log.info("%s: iree-compile", work)
        began = time.perf_counter()
        compiler.normalize(imported.path, normalized, input_type=imported.input_type)
        middle = time.perf_counter()
        compiler.generate(normalized, program, fused=False)
        phases = {"normalize": middle - began, "generate": time.perf_counter() - middle}
        _log.info("%s: our part, %d times", work, repeats)
        runs = [measure_ours(normalized, compiler, Path(folder)) for _ in range(repeats)]
    ours = sorted(runs, key=lambda r: r.total)[len(runs) // 2]
    stock = sum(phases.values())
    details: dict[str, Any] = {
        "blocks": blocks,
        "part": runs[0].total / stock,
        "growth": None,
        "first_ms": runs[0].total * 1e3,
        "iree_ms": {name: seconds * 1e3 for name, seconds in phases.items()},
        "ours_ms": {p: getattr(ours, p) * 1e3 for p in ("parse", "engine", "write")},
        "passes_ms": {
            name: statistics.median(r.passes[name] for r in runs) * 1e3 for name in ours.passes
        },
        "rewrites": ours.rewrites,
    }
    if before is not None:
        details["growth"] = exponent(
            before.details["blocks"], before.ours_ms, blocks, ours.total * 1e3
        )
    return Row(
        work=work,
        dtype="f32",
        ours_ms=ours.total * 1e3,
        peers={"iree_compile": stock * 1e3},
        details=details,
    )


def measure_ours(normalized: Path, compiler: Compiler, folder: Path) -> Ours:
    """Times our part on a module at global-optimization level.

    Args:
      normalized: file of its bytecode.
      compiler: compiler whose target and options the passes use.
      folder: existing directory for the grouped module.
    """
    began = time.perf_counter()
    with ir.Context():
        module = ir.Module.parseFile(str(normalized))
        parsed = time.perf_counter()
        grouped, report = engine.run(module, target=compiler.target, options=compiler.options)
        fused = time.perf_counter()
        with (folder / "grouped.mlirbc").open("wb") as file:
            grouped.operation.write_bytecode(file)
    return Ours(
        parse=parsed - began,
        engine=fused - parsed,
        write=time.perf_counter() - fused,
        passes={p.name: p.seconds for p in report.passes},
        rewrites=report.counts(),
    )


def exponent(small: float, small_time: float, large: float, large_time: float) -> float:
    """The power of the size with which a time grows: 1 for linear, 2 for quadratic."""
    return math.log(large_time / small_time) / math.log(large / small)


def tables(measured: Results) -> list[Table]:
    """Our part relative to the compiler's, and our passes in the largest model."""
    rows = []
    for row in measured.rows:
        details, growth = row.details, row.details["growth"]
        rows.append(
            [
                row.work,
                f"{row.peers['iree_compile']:.0f}",
                f"{details['first_ms']:.0f}",
                f"{details['part']:.1%}",
                f"{row.ours_ms:.0f}",
                "" if growth is None else f"{growth:.2f}",
            ]
        )
    header = ["model", "IREE ms", "first ms", "part", "median ms", "growth"]
    last = measured.rows[-1]
    parts, rewrites = last.details["ours_ms"], last.details["rewrites"]
    passes = [["read bytecode", f"{parts['parse']:.1f}", ""]]
    for name, milliseconds in last.details["passes_ms"].items():
        passes.append([name, f"{milliseconds:.1f}", str(rewrites.get(name, 0))])
    rest = parts["engine"] - sum(last.details["passes_ms"].values())
    passes.append(["layers, copies, verification", f"{rest:.1f}", ""])
    passes.append(["write bytecode", f"{parts['write']:.1f}", ""])
    return [
        Table("Time to compile", _TEXT, header, rows),
        Table(f"Our part of {last.work}", _PASSES, ["step", "ms", "rewrites"], passes),
    ]


SUITE = Suite(tuple(WORK), QUICK_WORK, run, tables)
