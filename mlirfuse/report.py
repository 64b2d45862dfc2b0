"""Decisions of the engine, and the report that holds them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from mlirfuse import report_html
from mlirfuse.boundaries import Boundary
from mlirfuse.detached_kernels import DetachedKernels
from mlirfuse.errors import MlirfuseError
from mlirfuse.final_kernels import FinalKernel, Place, places
from mlirfuse.fusion_pass import Kind, forms_group
from mlirfuse.reasons import Reason

SCHEMA_VERSION = 1
"""Version of the dictionary that `Report.to_dict` returns and `--decisions` writes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """One candidate fusion and its outcome.

    Attributes:
      pass_name: the pass that considered it.
      match: index of the match among those of this pass in this run; None for one refused before
        it was counted.
      kind: a word of `Kind`.
      function: symbol name of the function.
      ops: locations of the ops, as `file:line:col` or a name.
      op_names: the names of the same ops.
      layers: the parts of the model that they come from, as `blocks/0/norm`; empty names where
        unknown.
      taken: whether the rewrite was applied.
      reason: the reason of a refusal; None when taken.
      detail: the op, value or size that decided.
      bytes_saved: memory traffic that the fusion avoids against stock IREE's dispatches of the ops,
        bytes a call; modelled after IREE's rules.
      gain_us: modelled microseconds gained a call against the same; see
        `mlirfuse.explain.savings` for how far it can be trusted.
      forms_group: whether the pass forms groups; None: every `kind` but REWRITE does.
    """

    pass_name: str
    match: int | None
    kind: Kind
    function: str
    ops: tuple[str, ...]
    op_names: tuple[str, ...]
    taken: bool
    reason: Reason | None = None
    detail: str = ""
    bytes_saved: int | None = None
    gain_us: float | None = None
    forms_group: bool | None = None
    layers: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """Location and layer of each op."""
        return places(self.ops, self.layers)

    @property
    def made_group(self) -> bool:
        """Whether a group was formed, and not a rewrite applied or the candidate refused."""
        return self.taken and forms_group(self.kind, self.forms_group)

    def to_dict(self) -> dict[str, Any]:
        """The decision in the shape of the decisions schema."""
        return {
            "pass": self.pass_name,
            "match": self.match,
            "kind": str(self.kind),
            "function": self.function,
            "ops": list(self.ops),
            "op_names": list(self.op_names),
            "taken": self.taken,
            "reason": self.reason.code if self.reason else None,
            "detail": self.detail,
            "bytes_saved": self.bytes_saved,
            "gain_us": self.gain_us,
            "forms_group": forms_group(self.kind, self.forms_group),
            "layers": list(self.layers),
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Decision:
        """The decision that `to_dict` wrote."""
        codes = {r.code: r for r in Reason}
        return cls(
            pass_name=entry["pass"],
            match=entry["match"],
            kind=Kind(entry["kind"]),
            function=entry["function"],
            ops=tuple(entry["ops"]),
            op_names=tuple(entry["op_names"]),
            taken=entry["taken"],
            reason=codes[entry["reason"]] if entry["reason"] else None,
            detail=entry["detail"],
            bytes_saved=entry["bytes_saved"],
            gain_us=entry["gain_us"],
            forms_group=entry.get("forms_group"),
            layers=tuple(entry.get("layers", ())),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """One decision among all of a report, ranked by its gain.

    Attributes:
      decision: the candidate and its outcome.
      rank: rank by modelled gain, from 1.
      margin_us: gain less that of the candidate of the next rank; None where either has no model.
        It is modelled, as `Decision.gain_us` is.
    """

    decision: Decision
    rank: int
    margin_us: float | None

    def to_dict(self) -> dict[str, Any]:
        """The decision in the shape of the decisions schema, with rank and margin."""
        return {"rank": self.rank, "margin_us": self.margin_us, **self.decision.to_dict()}


@dataclasses.dataclass(slots=True)
class PassRun:
    """One pass of the pipeline in one run.

    Attributes:
      name: the pass, ours or MLIR's.
      enabled: False when a switch or the target turned it off.
      rewrites: number of applied rewrites; None for an MLIR pass, which does not count them.
      seconds: wall time.
    """

    name: str
    enabled: bool
    rewrites: int | None
    seconds: float


@dataclasses.dataclass(slots=True)
class Report:
    """The passes and decisions of one run of the engine on a module.

    Attributes:
      target: the target's spelling, e.g. `cuda:sm_90`.
      iree: version of IREE that compiles the module.
      options: the resolved options as a dictionary.
      passes: one entry per pass of the pipeline, in order.
      decisions: every candidate considered, in the order of consideration.
      dispatches: dispatch counts: `stock` without our passes, `fused` with them; a value is None
        until the program was compiled that way. `kernels` is how many of `fused` are kernels of a
        provider.
      left: names of the dispatches that IREE generated the code of.
      notes: warnings about the request, as of a switch that nothing matches.
      graph: the groups, the ungrouped ops and the tensors between them, as `explain.graph` writes
        them; None when no program was compiled.
      kernels: the dispatches of the final program, in order; empty when none was compiled.
      boundaries: the tensors that they exchange, each with the reason why it exists.
      detached: the kernels that need not end before the next command begins; None for none.
      stock_kernels: the dispatches of stock IREE's program; empty when it was not compiled.
      rates: where the rates of the modelled times come from, and of which machine they are.
      profile: the settings of a profile of `mlirfuse-tune`, and which of them apply; None without.
    """

    target: str
    iree: str
    options: dict[str, Any]
    passes: list[PassRun] = dataclasses.field(default_factory=list)
    decisions: list[Decision] = dataclasses.field(default_factory=list)
    dispatches: dict[str, int | None] = dataclasses.field(
        default_factory=lambda: {"stock": None, "fused": None}
    )
    graph: dict[str, Any] | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    left: list[str] = dataclasses.field(default_factory=list)
    kernels: list[FinalKernel] = dataclasses.field(default_factory=list)
    boundaries: list[Boundary] = dataclasses.field(default_factory=list)
    detached: DetachedKernels | None = None
    stock_kernels: list[FinalKernel] = dataclasses.field(default_factory=list)
    rates: str = ""
    profile: dict[str, Any] | None = None

    @property
    def coverage(self) -> tuple[int, int] | None:
        """Kernels of a provider, and dispatches; None until the program was compiled."""
        kernels, dispatches = self.dispatches.get("kernels"), self.dispatches["fused"]
        return None if kernels is None or dispatches is None else (kernels, dispatches)

    @property
    def places(self) -> frozenset[Place]:
        """Location and layer of each op of the grouped module; empty when none was compiled."""
        held = self.graph["ops"] if self.graph is not None else ()
        return frozenset((op["location"], op["layer"]) for op in held if op["location"] != "-")

    def disables(self, feature: str) -> bool:
        """Whether a feature was turned off."""
        return feature in self.options.get("disable_feature", ())

    def set_dispatches(self, dispatches: int, kernels: int, left: Iterable[str]) -> None:
        """Records the dispatches of the fused program."""
        self.dispatches |= {"fused": dispatches, "kernels": kernels}
        self.left = list(left)

    def set_stock(self, stock: Report) -> None:
        """Records the dispatches of stock IREE's program, from its own report."""
        self.dispatches["stock"] = stock.dispatches["stock"]
        self.stock_kernels = list(stock.kernels)

    def counts(self) -> dict[str, int]:
        """Applied rewrites per pass, for passes that fired."""
        return {p.name: p.rewrites for p in self.passes if p.rewrites}

    def _repr_html_(self) -> str:
        """A summary for notebooks."""
        return report_html.table("mlirfuse report", self.summary()) + self.details_html()

    def summary(self) -> list[tuple[str, str]]:
        """Names and values of the most important facts."""
        dispatches = (f"{n} {name}" for name, n in self.dispatches.items() if n is not None)
        groups = sum(decision.made_group for decision in self.decisions)
        refused = sum(not decision.taken for decision in self.decisions)
        return [
            ("target", self.target),
            ("dispatches", ", ".join(dispatches) or "not compiled"),
            ("groups", str(groups)),
            ("candidates refused", str(refused)),
        ]

    def details_html(self) -> str:
        """The rewrites by pass, the refusals by reason and the notes, folded."""
        refused = collections.Counter(
            decision.reason.code for decision in self.decisions if decision.reason is not None
        )
        return (
            report_html.folded("rewrites by pass", report_html.counted(self.counts()))
            + report_html.folded("refusals by reason", report_html.counted(refused))
            + report_html.folded("notes", self.notes)
        )

    def to_dict(self) -> dict[str, Any]:
        """The versioned dictionary that `--decisions=FILE.json` writes."""
        stock = self.stock_kernels
        return {
            "schema": SCHEMA_VERSION,
            "target": self.target,
            "iree": self.iree,
            "options": self.options,
            "dispatches": dict(self.dispatches),
            "passes": [dataclasses.asdict(p) for p in self.passes],
            "decisions": [d.to_dict() for d in self.decisions],
            "graph": self.graph,
            **({"notes": list(self.notes)} if self.notes else {}),
            **({"left_to_iree": list(self.left)} if self.left else {}),
            **({"kernels": [k.to_dict() for k in self.kernels]} if self.kernels else {}),
            **({"boundaries": [b.to_dict() for b in self.boundaries]} if self.boundaries else {}),
            **({"detached": self.detached.to_dict()} if self.detached else {}),
            **({"stock_kernels": [k.to_dict() for k in stock]} if stock else {}),
            **({"rates": self.rates} if self.rates else {}),
            **({"profile": self.profile} if self.profile else {}),
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Report:
        """The report that `to_dict` wrote.

        Raises:
          MlirfuseError: the schema has another version.
        """
        if entry.get("schema") != SCHEMA_VERSION:
            raise MlirfuseError(
                f"report has schema {entry.get('schema')!r}; this mlirfuse reads {SCHEMA_VERSION}"
            )
        return cls(
            target=entry["target"],
            iree=entry["iree"],
            options=dict(entry["options"]),
            passes=[PassRun(**p) for p in entry["passes"]],
            decisions=[Decision.from_dict(d) for d in entry["decisions"]],
            dispatches=dict(entry["dispatches"]),
            graph=entry.get("graph"),
            notes=list(entry.get("notes", ())),
            left=list(entry.get("left_to_iree", ())),
            kernels=[FinalKernel.from_dict(k) for k in entry.get("kernels", ())],
            boundaries=[Boundary.from_dict(b) for b in entry.get("boundaries", ())],
            detached=DetachedKernels.from_dict(entry["detached"]) if "detached" in entry else None,
            stock_kernels=[FinalKernel.from_dict(k) for k in entry.get("stock_kernels", ())],
            rates=entry.get("rates", ""),
            profile=entry.get("profile"),
        )
