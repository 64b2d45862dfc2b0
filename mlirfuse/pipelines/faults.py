"""Faults of our own code: the parts that raised, which are left out of every later run.

A pass that raised is left out of its function, repeated layers are not deduplicated, no graph is
drawn: the program is compiled without that part. Each is a decision with the reason `fell_back`,
and is logged once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TypeVar

from mlirfuse.core import Decision, Kind, Reason, Report
from mlirfuse.support.contained import LOG, described, trace

T = TypeVar("T")

ENGINE = "engine"
"""All passes, where the engine itself failed: the module stays as it is."""

REPEATED_LAYERS = "repeated_layers"
"""The deduplication of repeated layers."""

GRAPH = "graph"
"""The graph of the groups in the report."""

GROUPS = "groups"
"""The identities of the groups, by which diagnostics name them."""

DATA_TILING = "data_tiling"
"""The hints of functions without one."""

REPAIRS = "codegen_repairs"
"""The rewrites of ops that IREE compiles wrong."""

REQUEST = "request"
"""The warnings about switches that nothing matches."""

KERNELS = "kernels"
"""The list of the final program's kernels in the report."""

FALLBACK = "fallback"
"""The search for rewrites that IREE cannot compile: the program is the one without passes."""


@dataclasses.dataclass(slots=True)
class Faults:
    """The parts that raised, with the messages of their exceptions.

    Attributes:
      passes: pass and symbol name of the function that it is left out of -> message.
      parts: other part, as `GRAPH` -> message.
      logged: the messages that were logged, in order.
    """

    passes: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    parts: dict[str, str] = dataclasses.field(default_factory=dict)
    logged: dict[str, None] = dataclasses.field(default_factory=dict)

    def leave_out(self, name: str, functions: Iterable[str], message: str) -> bool:
        """Leaves a pass out of functions; returns whether it was in one of them."""
        new = [f for f in functions if (name, f) not in self.passes]
        for function in new:
            self.passes[name, function] = message
            self.log(f"pass '{name}' is left out of @{function}: {message}")
        return bool(new)

    def leave_part_out(self, part: str, error: BaseException) -> None:
        """Leaves another part out from now on."""
        trace(error)
        self.parts[part] = described(error)
        self.log(f"{part} left out: {self.parts[part]}")

    def log(self, message: str) -> None:
        """Logs a warning that was not logged before."""
        if message not in self.logged:
            self.logged[message] = None
            LOG.warning("%s", message)

    def merge(self, other: Faults) -> None:
        """Leaves out the parts of another process too."""
        self.passes.update(other.passes)
        self.parts.update(other.parts)
        for message in other.logged:
            self.log(message)

    def record(self, report: Report) -> None:
        """Adds a decision to the report for each part that is no pass."""
        report.decisions += [
            Decision(
                pass_name=part,
                match=None,
                kind=Kind.REWRITE,
                function="",
                ops=(),
                op_names=(),
                taken=False,
                reason=Reason.FELL_BACK,
                detail=message,
                forms_group=False,
            )
            for part, message in self.parts.items()
        ]


def attempt(faults: Faults | None, part: str, step: Callable[[], T], instead: T) -> T:
    """The result of a step of a part; `instead` where it raises, or raised before.

    Args:
      faults: the parts that are left out; None for a step whose exceptions are errors.
      part: name of the part.
      step: the step.
      instead: the result without the part.
    """
    if faults is None:
        return step()
    if part in faults.parts:
        return instead
    try:
        return step()
    except Exception as error:
        faults.leave_part_out(part, error)
        return instead
