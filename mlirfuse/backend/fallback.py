"""The fallback when code generation of a grouped module fails: the guilty rewrites are undone.

IREE's code generation refuses some groups, aborts on others, and now and then never ends. The
steps, each recorded as decisions with the reason `fell_back` and IREE's message:

1. stock IREE is tried: a model that it refuses too is an error of its own;
2. the group that the diagnostics name is switched off by its match, with those whose text is the
   same, of which IREE makes one dispatch; where they name none, the rewrites at their places. Then
   the module is grouped and compiled again: later passes group the parts;
3. where the diagnostics name none, data tiling is left out, and halved where that helps; else the
   applied rewrites are halved by `fusion_limit`;
4. after `MAX_COMPILES` compiles whole functions are left unfused, then the stock program is taken.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import logging
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from mlirfuse.backend import boundaries, final_program
from mlirfuse.backend.compiler import Compiler
from mlirfuse.backend.grouping import Grouped, check_dispatches, order_loops
from mlirfuse.backend.grouping_process import group
from mlirfuse.backend.statistics import Statistics
from mlirfuse.builders import loop_order
from mlirfuse.core import (
    CompileFailedError,
    Decision,
    MlirfuseError,
    MustFuseError,
    NoMatch,
    Reason,
    Report,
)
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines.faults import FALLBACK, KERNELS, Faults, attempt
from mlirfuse.plugins import registry
from mlirfuse.structured.ir import marks

MAX_COMPILES = 16
"""Compiles after the first failure until whole functions are given up. Two rewrites of some
hundred are found in it by halving, and one for each compile where the diagnostics name them."""

DATA_TILING = "data_tiling_rewrite"
"""The pass whose marks let IREE pack operands; without a mark nothing is packed."""

_log = logging.getLogger("mlirfuse")

_PLACE = re.compile(r"^(?P<place>\S.*?:\d+:\d+): error: ", re.MULTILINE)
_NAME = re.compile(r'^loc\("(?P<place>[^"]+)"[^\n]*?\): error: ', re.MULTILINE)
_DISPATCH = re.compile(r"\b(?P<function>[A-Za-z_][\w.]*)(?:\$async)?_dispatch_\d+")

_MARK = re.compile(rf"\b{re.escape(marks.GROUP_FILE)}:(?P<group>\d+):1\b")

Key = tuple[str, str, tuple[str, ...], tuple[str, ...], int]
"""Pass, function, places and names of the ops, and how many came before with the same: the
identity of a rewrite when others are undone, which can change its index."""


def keys(report: Report) -> dict[tuple[str, int], Key]:
    """Pass and match -> identity of the rewrite, whatever else is switched off."""
    found: dict[tuple[str, int], Key] = {}
    seen: collections.Counter[tuple[object, ...]] = collections.Counter()
    for d in report.decisions:
        if d.match is not None:
            source = (d.pass_name, d.function, d.ops, d.op_names)
            found[d.pass_name, d.match] = (*source, seen[source])
            seen[source] += 1
    return found


@dataclasses.dataclass(slots=True)
class Fallback:
    """Compiles a module with its groups, or with those of them that IREE can compile.

    Attributes:
      compiler: the compiler, target and options.
      source: the module at global-optimization level.
      folder: private directory for files between the phases.
      transient: whether a compile ran out of time or was killed, which may not happen again.
      faults: parts of our own code that raised, and are left out.
      switches: the options of the last grouping: `compiler.options`, and the rewrites undone.
    """

    compiler: Compiler
    source: Path
    folder: Path
    transient: bool = False
    faults: Faults = dataclasses.field(default_factory=Faults)
    switches: FusionOptions = dataclasses.field(init=False)
    _undone: dict[Key, str] = dataclasses.field(default_factory=dict)
    _unfused: dict[str, NoMatch] = dataclasses.field(default_factory=dict)
    _stock: Statistics | None = None
    _compiles: int = 0

    def leave_unfused(self, functions: Mapping[str, NoMatch]) -> None:
        """Makes no group in these functions from now on; the reasons are those of its decisions."""
        self._unfused.update(functions)

    def build(self, program: Path) -> Report:
        """Compiles into `program`.

        Raises:
          CompileFailedError: stock IREE cannot compile the module either, or the feature
            `fallback` is off.
        """
        if not self.compiler.options.feature("fallback"):
            return self._generated(self._group(), program)
        try:
            return self._built(program)
        except (MlirfuseError, OSError):
            raise
        except Exception as error:
            self.faults.leave_part_out(FALLBACK, error)
            return self._without_passes(program)

    def _built(self, program: Path) -> Report:
        grouped = self._group()
        made = self._attempt(grouped, program)
        if isinstance(made, Report):
            return made
        self._require_stock(made)
        return self._recovered(grouped, made, program)

    def _without_passes(self, program: Path) -> Report:
        """The stock program, where the search itself failed."""
        phases = self.folder / "phases"
        made = self.compiler.generate(self.source, program, fused=False, phases=phases)
        count = made.dispatches
        report = Report(
            target=str(self.compiler.target),
            iree=version("iree-base-compiler"),
            options=self.compiler.options.to_dict(),
            dispatches={"stock": count, "fused": count},
        )
        self._list_kernels(report, made, phases)
        self.faults.record(report)
        return report

    def _recovered(self, grouped: Grouped, error: CompileFailedError, program: Path) -> Report:
        while self._compiles < MAX_COMPILES:
            guilty = self._named(grouped, error) or self._unnamed(grouped, error)
            if not guilty:
                break
            self._undo(grouped, guilty, error)
            grouped = self._group()
            made = self._attempt(grouped, program)
            if isinstance(made, Report):
                return made
            error = made
        return self._without_functions(grouped, error, program)

    def _attempt(self, grouped: Grouped, program: Path) -> Report | CompileFailedError:
        """Compiles into `program`; returns a failure of code generation.

        Raises:
          CompileFailedError: a failure that other programs have too, as of a missing compiler.
        """
        try:
            return self._generated(grouped, program)
        except CompileFailedError as error:
            self._compiles += 1
            self.transient |= error.returncode in (None, -signal.SIGKILL)
            if error.stage != "codegen":
                raise
            return error

    def _undo(
        self, grouped: Grouped, guilty: Iterable[Decision], error: CompileFailedError
    ) -> None:
        known = keys(grouped.report)
        for decision in self._with_equal_groups(grouped, guilty):
            assert decision.match is not None
            found = known[decision.pass_name, decision.match]
            if found not in self._undone:
                self._undone[found] = str(error)
                _log.warning(
                    "%s; undone: %s at %s",
                    error,
                    f"{decision.pass_name}@match={decision.match} of {decision.function}",
                    decision.ops[-1] if decision.ops else "-",
                )

    @staticmethod
    def _with_equal_groups(grouped: Grouped, guilty: Iterable[Decision]) -> list[Decision]:
        """These, and those that formed an equal group."""
        names = {(d.pass_name, d.match) for d in guilty}
        forms = {g.form for g in grouped.groups if g.name in names}
        names |= {g.name for g in grouped.groups if g.form in forms}
        return [d for d in grouped.report.decisions if d.taken and (d.pass_name, d.match) in names]

    # --- grouping and compiling -----------------------------------------------------------------

    def _group(self, limit: int | None = None) -> Grouped:
        """Groups the module without the rewrites that were undone.

        A rewrite that is undone can change the indices of matches of later passes, never of its own
        or earlier ones: the indices are right after as many rounds as there are passes.
        """
        options = self.compiler.options
        if limit is not None:
            options = dataclasses.replace(options, fusion_limit=limit)
        with registry.scope(options.load_pass):
            known = registry.passes()
        whole = [f"{name}@func={f}" for name, f in itertools.product(known, self._unfused)]
        chosen: tuple[str, ...] = ()
        for _ in range(len(known) + 1):
            off = (*options.disable_pass, *whole, *chosen)
            self.switches = dataclasses.replace(options, disable_pass=off)
            grouped = self._grouped()
            found = tuple(
                f"{name}@match={match}"
                for (name, match), identity in keys(grouped.report).items()
                if identity in self._undone
            )
            if found == chosen:
                break
            chosen = found
        self._explain(grouped.report)
        return grouped

    def _grouped(self) -> Grouped:
        """Groups with the present switches."""
        return group(
            self.source,
            self.folder / "grouped.mlirbc",
            target=self.compiler.target,
            options=self.switches,
            faults=self.faults,
        )

    def _explain(self, report: Report) -> None:
        """Gives the decisions that were switched off here their reason."""
        report.options = self.compiler.options.to_dict()
        undone = {name: self._undone.get(identity) for name, identity in keys(report).items()}
        for index, decision in enumerate(report.decisions):
            why = self._unfused.get(decision.function)
            match = decision.match
            message = None if match is None else undone[decision.pass_name, match]
            if message is not None:
                why = NoMatch(Reason.FELL_BACK, message)
            if why and decision.reason is Reason.DISABLED and self._was_on(decision):
                report.decisions[index] = dataclasses.replace(
                    decision, reason=why.reason, detail=why.detail
                )

    def _was_on(self, decision: Decision) -> bool:
        options: FusionOptions = self.compiler.options
        name, match = decision.pass_name, decision.match
        return options.pass_switch(name) is not False and (
            match is None or options.allows(name, decision.function, match)
        )

    def _generated(self, grouped: Grouped, program: Path) -> Report:
        phases = self.folder / "phases"
        try:
            made = self.compiler.generate(
                grouped.path, program, fused=True, data_tiling=grouped.hinted, phases=phases
            )
        except CompileFailedError as error:
            misordered = any(text in error.diagnostics for text in loop_order.DIAGNOSTICS)
            if misordered and order_loops(grouped.path):
                return self._generated(grouped, program)
            raise
        grouped.report.set_dispatches(made.dispatches, made.kernels, made.left)
        groups = [group.name for group in grouped.groups]
        self._list_kernels(grouped.report, made, phases, groups)
        if grouped.must_fuse:
            self._check_dispatches(grouped.report, phases)
        return grouped.report

    def _check_dispatches(self, report: Report, phases: Path) -> None:
        """Checks the required groups in the final program.

        Raises:
          MustFuseError: ops of a group are in several dispatches; the message names a rewrite that
            was undone, or a pass that is left out.
        """
        try:
            check_dispatches(report, self.compiler.options, phases)
        except MustFuseError as error:
            causes = [f"IREE could not compile the group: {m}" for m in self._undone.values()]
            causes += [
                f"pass '{name}' is left out of @{function}: {message}"
                for (name, function), message in self.faults.passes.items()
            ]
            if not causes:
                raise
            raise MustFuseError(f"{error}; {causes[0]}") from error

    def _list_kernels(
        self,
        report: Report,
        made: Statistics,
        phases: Path,
        groups: Sequence[tuple[str, int]] = (),
    ) -> None:
        """Adds the kernels of a compiled program to its report."""
        faults = self.faults if self.compiler.options.feature("fallback") else None
        attempt(
            faults,
            KERNELS,
            lambda: boundaries.record(
                report, final_program.read(phases, made, groups, given=report.places)
            ),
            None,
        )

    def _compiles_with(self, grouped: Grouped) -> bool:
        if isinstance(self._attempt(grouped, self.folder / "trial.vmfb"), CompileFailedError):
            return False
        self._compiles += 1
        return True

    # --- guilty rewrites ------------------------------------------------------------------------

    @staticmethod
    def _named(grouped: Grouped, error: CompileFailedError) -> list[Decision]:
        """The applied rewrites that the diagnostics name.

        They are the groups of the marks, else those at the places, else other rewrites there.
        """
        marked = {int(found["group"]) for found in _MARK.finditer(error.diagnostics)}
        places = {
            found["place"]
            for pattern in (_PLACE, _NAME)
            for found in pattern.finditer(error.diagnostics)
        }
        taken = [d for d in grouped.report.decisions if d.taken and d.match is not None]
        named = {g.name for i, g in enumerate(grouped.groups) if i in marked}
        named = named or {g.name for g in grouped.groups if not places.isdisjoint(g.positions)}
        groups = {g.name for g in grouped.groups}
        return [d for d in taken if (d.pass_name, d.match) in named] or [
            d
            for d in taken
            if (d.pass_name, d.match) not in groups and not places.isdisjoint(d.ops)
        ]

    def _unnamed(self, grouped: Grouped, error: CompileFailedError) -> list[Decision]:
        """The rewrite without which all before it compile, by halving."""
        taken = [d for d in grouped.report.decisions if d.taken]
        tiling = [d for d in taken if d.pass_name == DATA_TILING]
        if 0 < len(tiling) < len(taken) and self._compiles_without(tiling, grouped, error):
            good, bad = 0, len(tiling)
            while bad - good > 1 and self._compiles < MAX_COMPILES:
                middle = (good + bad) // 2
                if self._compiles_without(tiling[middle:], grouped, error):
                    good = middle
                else:
                    bad = middle
            return tiling[good:bad]
        good, bad = 0, len(taken)
        while bad - good > 1:
            if self._compiles >= MAX_COMPILES:
                return []
            middle = (good + bad) // 2
            if self._compiles_with(self._group(middle)):
                good = middle
            else:
                bad = middle
        return taken[good:bad]

    def _compiles_without(
        self, some: Iterable[Decision], grouped: Grouped, error: CompileFailedError
    ) -> bool:
        before, known = dict(self._undone), keys(grouped.report)
        self._undone |= {
            known[d.pass_name, d.match]: str(error) for d in some if d.match is not None
        }
        compiles = self._compiles_with(self._group())
        self._undone = before
        return compiles

    # --- the last steps -------------------------------------------------------------------------

    def _require_stock(self, error: CompileFailedError) -> None:
        """Compiles without any pass of ours.

        Raises:
          CompileFailedError: that fails too.
        """
        if self._stock is not None:
            return
        try:
            made = self.compiler.generate(
                self.source, self._stock_program, fused=False, phases=self._stock_phases
            )
            self._stock = made
        except CompileFailedError as stock:
            message = str(stock).replace(" error: ", " ")
            raise CompileFailedError(
                f"stock IREE cannot compile this model either: {message}",
                stage=stock.stage,
                returncode=stock.returncode,
                diagnostics=stock.diagnostics,
            ) from error

    @property
    def _stock_phases(self) -> Path:
        return self.folder / "stock_phases"

    @property
    def _stock_program(self) -> Path:
        return self.folder / "stock.vmfb"

    def _without_functions(
        self, grouped: Grouped, error: CompileFailedError, program: Path
    ) -> Report:
        """Leaves one function after the other unfused: those of the diagnostics come first."""
        named = {found["function"] for found in _DISPATCH.finditer(error.diagnostics)}
        waiting = sorted(
            dict.fromkeys(d.function for d in grouped.report.decisions if d.taken),
            key=lambda f: f.removesuffix("$async") not in named,
        )
        for index, function in enumerate(waiting):
            self._unfused[function] = NoMatch(Reason.FELL_BACK, str(error))
            _log.warning("%s; unfused: %s", error, function)
            grouped = self._group()
            if index == len(waiting) - 1:
                break
            made = self._attempt(grouped, program)
            if isinstance(made, Report):
                return made
            error = made
        assert self._stock is not None
        self._stock_program.replace(program)
        count = self._stock.dispatches
        grouped.report.dispatches |= {"stock": count, "fused": count}
        self._list_kernels(grouped.report, self._stock, self._stock_phases)
        return grouped.report
