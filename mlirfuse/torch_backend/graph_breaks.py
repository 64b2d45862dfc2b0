"""Where Dynamo ends a graph before its function ends, and why."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_nodes import innermost

if TYPE_CHECKING:
    import torch

_BRANCH = "generic_jump"
"""Dynamo's word for a jump of Python that depends on a tensor."""


@dataclasses.dataclass(frozen=True, slots=True)
class GraphBreak:
    """The end of a graph at an operation of Python that Dynamo leaves to it.

    Attributes:
      reason: Dynamo's reason and its explanation, on one line.
      line: source line of the model, `file:line`; empty when it is not known.
    """

    reason: str
    line: str

    def __str__(self) -> str:
        """Reason and line."""
        return self.reason + (f" ({self.line})" if self.line else "")


def of_graph(graph: torch.fx.GraphModule) -> GraphBreak | None:
    """The break that ended a graph of Dynamo; None for one that ends with its function."""
    found = getattr(graph, "compile_subgraph_reason", None)
    if found is None or not found.graph_break:
        return None
    lines = [f"{frame.filename}:{frame.lineno}" for frame in found.user_stack]
    return GraphBreak(_one_line(found.reason), innermost(lines))


def _one_line(reason: str) -> str:
    """Dynamo's summary and its explanation, without hints."""
    if reason.startswith(_BRANCH):
        return "Data-dependent branching: Python takes a branch by the value of a tensor"
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    explained = [line for line in lines[1:] if line.startswith("Explanation:")]
    words = [*lines[:1], *(line.removeprefix("Explanation:").strip() for line in explained)]
    return re.sub(r"\s+", " ", ": ".join(words)) or "no reason is known"
