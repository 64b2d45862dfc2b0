"""Ops of a graph that PyTorch runs, with the reasons."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_nodes import model_line, op_name, refusal, tensors
from mlirfuse.targets.base import Target

if TYPE_CHECKING:
    import torch

_MAX_OPS_NAMED = 8
"""Distinct ops and reasons named in one message."""

NO_LOWERING = "has no lowering in IREE"

_F64_FUNCTIONS = frozenset(
    {
        *("acos", "asin", "atan", "atan2", "cos", "digamma", "erf", "erfc", "gelu", "lgamma"),
        *("log10", "log2", "mish", "remainder", "sin", "tan", "tanh"),
    }
)
"""Functions whose code for a CPU calls libm in float64, which IREE 3.13 does not link."""


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOp:
    """An op of a graph that PyTorch runs.

    Attributes:
      op: name of the op in PyTorch, e.g. `aten.rand.default`.
      node: name of its node in the graph.
      line: source line of the model, `file:line`; empty when it is not known.
      reason: why no program computes it, as a clause whose subject is the op.
      supported: whether a program could compute it, and its part is too small to pay for one.
    """

    op: str
    node: str
    line: str
    reason: str
    supported: bool = False

    def __str__(self) -> str:
        """Op, reason and line."""
        return f"'{self.op}' {self.reason}" + (f" ({self.line})" if self.line else "")

    @classmethod
    def of(cls, node: torch.fx.Node, reason: str, *, supported: bool = False) -> LeftOp:
        """The op of a node."""
        return cls(op_name(node), node.name, model_line(node), reason, supported)


def static_reason(node: torch.fx.Node, target: Target, device: torch.device) -> str:
    """The reason for leaving a node to PyTorch that is known without compiling it; or empty."""
    import torch

    if reason := refusal(node, device):
        return reason
    if node.op != "call_function":
        return ""
    around = [value for other in (*node.all_input_nodes, node) for value in tensors(other)]
    wide = {torch.float64, torch.complex128}
    if not any(value.dtype in wide and value.dim() for value in around):
        return ""
    if target.demotes_f64:
        return f"computes in float64: {target} has no float64"
    packet = getattr(node.target, "overloadpacket", None)
    if target.name == "cpu" and getattr(packet, "__name__", "") in _F64_FUNCTIONS:
        return f"computes in float64: IREE lacks a function of float64 for {target}"
    return ""


def summary(left: Iterable[LeftOp]) -> str:
    """The distinct ops with their reasons and lines, on one line."""
    counted = collections.Counter(map(str, left))
    named = [text + (f" (x{count})" if count > 1 else "") for text, count in counted.items()]
    if len(named) > _MAX_OPS_NAMED:
        named[_MAX_OPS_NAMED:] = [f"{len(named) - _MAX_OPS_NAMED} more"]
    return "; ".join(named)
