"""Runs the engine on a module on disk and writes the grouped module next to it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from pathlib import Path

from iree.compiler import ir

from mlirfuse.backend import final_program
from mlirfuse.builders import codegen_repairs, loop_order
from mlirfuse.core import Report
from mlirfuse.explain import graph
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import containment, unmatched
from mlirfuse.pipelines.engine import Starting
from mlirfuse.pipelines.faults import DATA_TILING, GRAPH, GROUPS, REPAIRS, REQUEST, Faults, attempt
from mlirfuse.pipelines.must_fuse import MustFuse
from mlirfuse.pipelines.pass_run import Observer
from mlirfuse.structured.ir import data_tiling, marks, ops
from mlirfuse.support import dialect_modules
from mlirfuse.targets.base import Target

_CONSTANTS = frozenset({"arith.constant", "tensor.empty"})


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A group of the module.

    Attributes:
      pass_name: the pass that formed it.
      match: index of the match.
      positions: the innermost source positions of its ops.
      form: its text without names, positions and match: IREE makes one dispatch of equal ones.
    """

    pass_name: str
    match: int
    positions: frozenset[str]
    form: str

    @property
    def name(self) -> tuple[str, int]:
        """Pass and match."""
        return self.pass_name, self.match


@dataclasses.dataclass(frozen=True, slots=True)
class Grouped:
    """A module with its groups, as bytecode.

    Attributes:
      path: the bytecode.
      report: report of the engine.
      hinted: whether a contraction is marked for data tiling.
      groups: the groups; the ops of each are marked by its index, see `marks.GROUP_FILE`.
      functions: symbol names of the functions, in order.
      must_fuse: whether ops have to end in one dispatch.
    """

    path: Path
    report: Report
    hinted: bool
    groups: tuple[Group, ...]
    functions: tuple[str, ...]
    must_fuse: bool


def group(
    source: Path,
    output: Path,
    *,
    target: Target,
    options: FusionOptions,
    observer: Observer | None = None,
    dump_dir: Path | None = None,
    faults: Faults | None = None,
    starting: Starting | None = None,
) -> Grouped:
    """Groups the module at `source`, which is at IREE's global-optimization level.

    Args:
      source: bytecode or text.
      output: the file for the grouped module's bytecode.
      target: the machine that it will be compiled for.
      options: every switch.
      observer: called around each rewrite.
      dump_dir: existing directory for the IR before and after each pass that changed something.
      faults: parts of our own code that are left out since they raised; those that raise now are
        added. Without the feature `fallback` whatever raises is an error.
      starting: called with the name of each pass before it runs.

    Raises:
      UsageError, PassFailedError, MustFuseError: as `containment.run`.
    """
    faults = (faults or Faults()) if options.feature("fallback") else None
    dialect_modules.add()
    with ir.Context():
        module = ir.Module.parseFile(os.fspath(source))
        fused, report = containment.run(
            module,
            target=target,
            options=options,
            faults=faults,
            observer=observer,
            dump_dir=dump_dir,
            starting=starting,
            checks_must_fuse=False,
        )
        groups: list[Group] = []
        report.graph = attempt(faults, GRAPH, lambda: graph.of_module(fused).to_dict(), None)
        attempt(faults, GROUPS, lambda: _mark_groups(fused, groups), None)
        attempt(faults, GRAPH, lambda: _place_arithmetic(fused), None)
        hinted = attempt(faults, DATA_TILING, lambda: data_tiling.complete_hints(fused), False)
        exact = options.numerics == "exact"
        attempt(
            faults,
            REPAIRS,
            lambda: codegen_repairs.repair_grouped(fused, target, exact=exact),
            False,
        )
        report.notes = attempt(
            faults, REQUEST, lambda: unmatched.warnings(module, report, options), []
        )
        if faults is not None:
            faults.record(report)
        with output.open("wb") as file:
            fused.operation.write_bytecode(file)
        return Grouped(
            output,
            report,
            hinted,
            tuple(groups),
            tuple(ops.symbol_name(f) for f in ops.functions(fused)),
            bool(options.must_fuse or marks.must_fuse(fused)),
        )


def order_loops(grouped: Path) -> bool:
    """Repairs a grouped module for `loop_order.DIAGNOSTICS`; returns whether there was a cause."""
    with ir.Context():
        module = ir.Module.parseFile(os.fspath(grouped))
        if not loop_order.repair(module):
            return False
        # The module reads large constants from its file, which stays as it is.
        ordered = grouped.with_suffix(".ordered")
        with ordered.open("wb") as file:
            module.operation.write_bytecode(file)
    ordered.replace(grouped)
    return True


def check_dispatches(report: Report, options: FusionOptions, phases: Path) -> None:
    """Checks the required groups in the dispatches that IREE has formed.

    Args:
      report: the engine's report.
      options: the switches.
      phases: the folder of `final_program.flags`.

    Raises:
      MustFuseError: ops of a group are in several of them.
    """
    with ir.Context():
        MustFuse(options.must_fuse, marked=True).check(final_program.formed(phases), report)


def _place_arithmetic(module: ir.Module) -> None:
    """Gives the arithmetic of ops their location, which it has lines of its own for in MLIR text.

    It keeps the location where IREE merges the op into another one.
    """
    for function in ops.functions(module):
        for op in ops.nested_ops(function):
            if not ops.is_generic(op):
                continue
            location = op.location
            for scalar in ops.nested_ops(op):
                if scalar.location == location:
                    break  # a frontend made all of it
                scalar.location = location


def _mark_groups(module: ir.Module, groups: list[Group]) -> None:
    """Adds the groups in order, and marks their ops."""
    found = [
        op
        for function in ops.functions(module)
        for op in ops.nested_ops(function)
        if marks.PASS_ATTRIBUTE in op.attributes
    ]
    for index, op in enumerate(found):
        places: dict[ir.Attribute, list[ir.Operation]] = {}
        for member in (op, *ops.nested_ops(op)):
            places.setdefault(member.location.attr, []).append(member)
        locations = {p: ir.Location.from_attr(p, module.context) for p in places}
        found_group = Group(
            op.attributes[marks.PASS_ATTRIBUTE].value,
            op.attributes[marks.MATCH_ATTRIBUTE].value,
            frozenset(p for location in locations.values() for p in _innermost(location)),
            _form(op),
        )
        groups.append(found_group)
        mark = [ir.Location.file(marks.GROUP_FILE, index, 1, context=module.context)]
        for place, members in places.items():
            marked = ir.Location.callsite(locations[place], mark)
            for member in members:
                # Those of several groups become one.
                if member.name not in _CONSTANTS:
                    member.location = marked


_VALUE = re.compile(r"%[\w#]+")
_MATCH = re.compile(rf"{re.escape(marks.MATCH_ATTRIBUTE)} = \d+ : i64")


def _form(op: ir.Operation) -> str:
    # To print an op MLIR numbers all values around it: the copy stands alone.
    read = ops.external_operands(op)
    with op.context, op.location:
        home = ir.Operation.create("builtin.module", regions=1).regions[0]
        block = home.blocks.append(*(value.type for value in read))
    copy = op.clone(ir.InsertionPoint(block)).operation
    instead = dict(zip(read, block.arguments, strict=True))
    for user in (copy, *ops.nested_ops(copy)):
        for index, value in enumerate(user.operands):
            if value in instead:
                user.operands[index] = instead[value]
    text = copy.get_asm(assume_verified=True, use_local_scope=True, large_elements_limit=16)
    names: dict[str, str] = {}
    renamed = _VALUE.sub(lambda v: names.setdefault(v[0], f"%{len(names)}"), text)
    return _MATCH.sub("", renamed)


def _innermost(location: ir.Location) -> Iterator[str]:
    """The positions that MLIR prints of a location in a diagnostic, one for each fused location."""
    if isinstance(location, ir.FusedLoc):
        for part in location.locations:
            yield from _innermost(part)
    else:
        frame = next(ops.source_frames(location), None)
        if frame is not None:
            yield frame
