"""Runs the engine on a module on disk and writes the grouped module next to it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from iree.compiler import ir

from mlirfuse.core import Report
from mlirfuse.explain import graph
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured import contractions, ops
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Grouped:
    """A module with its groups, as bytecode.

    Attributes:
      path: the bytecode.
      report: what the engine did.
      hinted: whether a contraction is marked for data tiling.
      positions: pass and match of each group -> the innermost source positions of its ops.
      functions: symbol names of the functions, in order.
    """

    path: Path
    report: Report
    hinted: bool
    positions: Mapping[tuple[str, int], frozenset[str]]
    functions: tuple[str, ...]


def group(
    source: Path,
    output: Path,
    *,
    target: Target,
    options: FusionOptions,
    observer: engine.Observer | None = None,
    dump_dir: Path | None = None,
) -> Grouped:
    """Groups the module at `source`, which is at IREE's global-optimization level.

    Args:
      source: bytecode or text.
      output: the file for the grouped module's bytecode.
      target: the machine that it will be compiled for.
      options: every switch.
      observer: called around each rewrite.
      dump_dir: existing directory for the IR before and after each pass that changed something.

    Raises:
      UsageError, PassFailedError: as `engine.run`.
    """
    with ir.Context():
        module = ir.Module.parseFile(os.fspath(source))
        fused, report = engine.run(
            module, target=target, options=options, observer=observer, dump_dir=dump_dir
        )
        report.graph = graph.of_module(fused).to_dict()
        with output.open("wb") as file:
            fused.operation.write_bytecode(file)
        return Grouped(
            output,
            report,
            contractions.has_hints(fused),
            dict(_positions(fused)),
            tuple(ops.symbol_name(f) for f in ops.functions(fused)),
        )


def _positions(module: ir.Module) -> Iterator[tuple[tuple[str, int], frozenset[str]]]:
    for function in ops.functions(module):
        for op in ops.nested_ops(function):
            if engine.PASS_ATTRIBUTE in op.attributes:
                members = [op, *ops.nested_ops(op)]
                places = frozenset(p for m in members for p in _innermost(m.location))
                yield (
                    (
                        op.attributes[engine.PASS_ATTRIBUTE].value,
                        op.attributes[engine.MATCH_ATTRIBUTE].value,
                    ),
                    places,
                )


def _innermost(location: ir.Location) -> Iterator[str]:
    """What MLIR prints of the location in a diagnostic, for each location fused into it."""
    if isinstance(location, ir.FusedLoc):
        for part in location.locations:
            yield from _innermost(part)
    else:
        frame = next(ops.source_frames(location), None)
        if frame is not None:
            yield frame
