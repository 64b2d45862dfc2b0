"""The last graphs that `torch.compile` compiled: `mlirfuse.torch_reports()`."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mlirfuse.core import Report
from mlirfuse.final_kernels import FinalKernel
from mlirfuse.torch_backend.graph_breaks import GraphBreak
from mlirfuse.torch_backend.left_out import LeftOp, summary

if TYPE_CHECKING:
    from mlirfuse.runtime.module import FusedModule

MAX_REPORTS = 64
"""Graphs that are remembered; older ones are forgotten."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramReport:
    """One program of a graph.

    Attributes:
      name: `graph` for the whole graph, else `part_0`, ...
      ops: number of the graph's ops in it.
      report: the decisions of the passes.
      cached: whether the program was found in the cache.
      seconds: time that compiling took.
    """

    name: str
    ops: int
    report: Report
    cached: bool
    seconds: float
    _program: Callable[[], FusedModule | None] = dataclasses.field(repr=False)

    def __str__(self) -> str:
        """Its ops, where it came from, and the rewrites of each pass, on one line."""
        found = "from the cache" if self.cached else "compiled"
        passes = ", ".join(f"{name} {count}" for name, count in self.report.counts().items())
        return f"{_count(self.ops, 'op')}, {found} in {self.seconds:.1f} s: {passes or 'no fusion'}"

    @property
    def program(self) -> FusedModule | None:
        """The compiled program; None once PyTorch has dropped the compiled model."""
        return self._program()

    @property
    def kernels(self) -> tuple[FinalKernel, ...]:
        """The dispatches of the program, in order."""
        return tuple(self.report.kernels)

    def explain(self) -> str:
        """The groups made, the fusions refused and the reasons, as text."""
        from mlirfuse import explain

        return explain.text(self.report)


@dataclasses.dataclass(frozen=True, slots=True)
class TorchReport:
    """One graph of `torch.compile`.

    Attributes:
      name: `graph_0_0` for the graph that PyTorch's logs call `[0/0]`.
      target: the target of its programs; empty where PyTorch runs the whole graph.
      ops: number of its ops: those that AOTAutograd leaves, or Dynamo's where PyTorch runs it.
      programs: its programs, in the order of their calls; empty where PyTorch runs the whole graph.
      left: the ops that PyTorch runs, with reasons and source lines.
      reason: why PyTorch runs the whole graph; empty where it does not.
      seconds: time of the compilation.
      folders: folders that were written, of `report`, `debug_dir` and `TORCH_COMPILE_DEBUG`.
      graph_break: where and why Dynamo ended the graph before its function ends, and Python runs
        on to the next graph; None where the function ends, too.
    """

    name: str
    target: str
    ops: int
    programs: tuple[ProgramReport, ...]
    left: tuple[LeftOp, ...]
    reason: str
    seconds: float
    folders: tuple[Path, ...] = ()
    graph_break: GraphBreak | None = None

    def __str__(self) -> str:
        """The line that the logger `mlirfuse.torch` writes at the level INFO."""
        end = "" if self.graph_break is None else f"; graph break: {self.graph_break}"
        if not self.programs:
            head = f"{self.name}: {_count(self.ops, 'op')}, {self.seconds:.1f} s"
            return f"{head}; left to PyTorch as a whole: {self.reason}{end}"
        dispatches = _total(p.report.dispatches["fused"] for p in self.programs)
        if dispatches is None:  # a stock program
            dispatches = _total(p.report.dispatches["stock"] for p in self.programs)
        kernels = _total(p.report.dispatches.get("kernels") for p in self.programs)
        cached = sum(p.cached for p in self.programs)
        words = [
            f"{self.name}: {_count(self.ops, 'op')}",
            f"{_count(len(self.programs), 'program')} for {self.target}",
            f"{_count(dispatches or 0, 'dispatch')}, {kernels or 0} with generated kernels",
            f"{cached} of {len(self.programs)} from the cache",
            f"{self.seconds:.1f} s",
        ]
        text = ", ".join(words)
        return text + (f"; left to PyTorch: {summary(self.left)}" if self.left else "") + end

    @property
    def kernels(self) -> tuple[FinalKernel, ...]:
        """The dispatches of all programs, in order."""
        return tuple(kernel for program in self.programs for kernel in program.kernels)

    def explain(self) -> str:
        """The explanation of each program, then the ops that PyTorch runs."""
        parts = []
        for program in self.programs:
            head = f"{self.name}, {program.name}: {_count(program.ops, 'op')}"
            parts.append(f"{head}\n{program.explain()}")
        return "\n".join([*parts, self.left_text()])

    def left_text(self) -> str:
        """The ops that PyTorch runs, one a line, or why it runs them all; the graph break."""
        lines = [f"left to PyTorch ({len(self.left)} of {_count(self.ops, 'op')})"]
        if self.reason:
            lines = [f"PyTorch runs the whole graph: {self.reason}"]
        lines += [f"  {op.node}: {op}" for op in self.left]
        if self.graph_break is not None:
            lines.append(f"graph break, behind which Python runs: {self.graph_break}")
        return "\n".join(lines) + "\n"


def _count(number: int, noun: str) -> str:
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def _total(values: Iterable[int | None]) -> int | None:
    found = [value for value in values if value is not None]
    return sum(found) if found else None


_lock = threading.Lock()
_reports: collections.deque[TorchReport] = collections.deque(maxlen=MAX_REPORTS)


def torch_reports() -> tuple[TorchReport, ...]:
    """The last graphs that `torch.compile` gave to mlirfuse in this process, the latest last.

    At most 64 are remembered. They hold reports, and no program.
    """
    with _lock:
        return tuple(_reports)


def remember(report: TorchReport) -> None:
    """Adds a graph to those that `torch_reports` returns."""
    with _lock:
        _reports.append(report)
