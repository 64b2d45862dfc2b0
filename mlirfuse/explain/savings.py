"""The savings of groups against stock IREE's program, as explanations show them.

Where stock's program was compiled (`--count-stock`), the bytes are those of its kernels; elsewhere
its dispatches are modelled. Times are always modelled: they are shown in microseconds where the
model's error on the target is known and small, and as ranks elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from mlirfuse.core import Decision, Report
from mlirfuse.explain.printing import byte_size, printable
from mlirfuse.explain.ranking import ranked
from mlirfuse.explain.traffic import Traffic, against
from mlirfuse.targets import model_errors


class Savings:
    """The savings of a report's candidates.

    Attributes:
      error: the measured error of the model on the report's target; None where there is none.
      in_time: whether times are shown; ranks are where not.
    """

    def __init__(self, report: Report) -> None:
        self.error = model_errors.known(report.target)
        self.in_time = self.error is not None and self.error.is_small
        self._report = report
        gaining = [c.decision for c in ranked(report) if (c.decision.gain_us or 0.0) > 0]
        self._places = {decision: place for place, decision in reversed([*enumerate(gaining, 1)])}
        self._count = len(gaining)
        self._compiled: dict[tuple[str, str, int | None], Traffic] = {}
        for found in against(report.kernels, report.stock_kernels):
            for kernel in found.kernels:
                if kernel.pass_name is not None:
                    key = (kernel.model_function, kernel.pass_name, kernel.match)
                    self._compiled[key] = found

    def compiled(self, decision: Decision) -> Traffic | None:
        """The kernel of a group beside those of stock's program; None where not compiled."""
        if not decision.taken:
            return None
        function = decision.function.removesuffix("$async")
        return self._compiled.get((function, decision.pass_name, decision.match))

    def size(self, decision: Decision) -> int | None:
        """Bytes of traffic that the group saves a call; None where they are not known."""
        found = self.compiled(decision)
        return decision.bytes_saved if found is None else found.bytes_saved

    def total(self) -> int | None:
        """Bytes of traffic that the program saves a call; None where they are not known."""
        if self._report.stock_kernels:
            return Traffic(
                tuple(self._report.kernels), tuple(self._report.stock_kernels)
            ).bytes_saved
        return sum(d.bytes_saved or 0 for d in self._report.decisions if d.made_group)

    def time(self, decision: Decision) -> str:
        """The modelled time that it saves, or its rank; empty where it saves none."""
        if not (decision.gain_us or 0.0) > 0:
            return ""
        if self.in_time:
            return f"{self.microseconds(decision):.1f} us"
        return f"rank {self._places[decision]} of {self._count}"

    def microseconds(self, decision: Decision) -> float | None:
        """The modelled time that it saves, calibrated; None where it is shown as a rank."""
        if self.error is None or not self.in_time or decision.gain_us is None:
            return None
        return self.error.scale * decision.gain_us

    def text(self, decision: Decision) -> str:
        """Both in one phrase; empty for a decision without a model."""
        if decision.bytes_saved is None and decision.gain_us is None:
            return ""
        found = self.compiled(decision)
        if found is not None:
            return _traffic(found)
        parts = [f"{byte_size(decision.bytes_saved)} of traffic"] if decision.bytes_saved else []
        if time := self.time(decision):
            parts.append(time if self.in_time else f"{time} by time")
        if parts and parts[0].startswith("rank"):
            parts.insert(0, "no traffic")
        return f"saves {', '.join(parts)}" if parts else "saves nothing: stock IREE fuses it"

    def notes(self) -> Iterator[str]:
        """Lines on the program beside ours, the error of the model and the rates' machine."""
        if all(d.bytes_saved is None and d.gain_us is None for d in self._report.decisions):
            return
        stock = "its program" if self._report.stock_kernels else "a model of its fusion"
        yield f"savings: against stock IREE by {stock}; {self._trust()}"
        if self._report.rates:
            yield f"rates: {printable(self._report.rates)}"

    def _trust(self) -> str:
        if self.in_time:
            return f"times are estimates: {self.error}"
        if self.error is None:
            return (
                "times are modelled, and ranks only: their error was not measured on"
                f" {printable(self._report.target)}"
            )
        return f"times are modelled, and ranks only: {self.error}"

    def entry(self, decision: Decision) -> dict[str, Any]:
        """The saving of a decision, for JSON and the HTML report."""
        return {"bytes": self.size(decision), "time": self.time(decision)}

    def error_entry(self) -> dict[str, Any] | None:
        """The error of the model, for JSON; None where it was not measured on the target."""
        return None if self.error is None else dataclasses.asdict(self.error)

    def to_dict(self) -> dict[str, Any]:
        """What all savings have in common, for JSON and the HTML report."""
        return {
            "bytes": self.total(),
            "notes": list(self.notes()),
            "times": "estimate" if self.in_time else "rank",
            "model_error": self.error_entry(),
        }


def _traffic(found: Traffic) -> str:
    ours, stock = len(found.kernels), len(found.stock)
    here = "this kernel" if ours == 1 else f"{ours} kernels with it"
    there = "1 kernel" if stock == 1 else f"{stock} kernels"
    moved = f"{byte_size(found.bytes)} here, {byte_size(found.stock_bytes)} there"
    return f"{here} instead of {there} of stock IREE: {moved}"
