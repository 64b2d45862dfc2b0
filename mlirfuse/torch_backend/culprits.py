"""The ops for which a part of a graph cannot be compiled.

An error of the import names the op, its line, or both. One of code generation names neither: the
part is halved, and the half that fails is halved again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlirfuse.core import CompileFailedError, ImportFailedError, MlirfuseError
from mlirfuse.frontends.lowering import one_line
from mlirfuse.frontends.torch_nodes import dialect_name, frames, signature
from mlirfuse.torch_backend.left_out import NO_LOWERING, LeftOp
from mlirfuse.torch_backend.options import SOURCE

if TYPE_CHECKING:
    import torch

Attempt = Callable[[Sequence["torch.fx.Node"]], MlirfuseError | None]
"""Compiles some consecutive nodes of a part; returns the error, or None."""


def culprits(
    error: MlirfuseError, nodes: Sequence[torch.fx.Node], attempt: Attempt
) -> list[LeftOp]:
    """The ops to leave out of a part that cannot be compiled; at least one.

    Ops of the same kind on tensors of the same types and ranks are left out together.

    Args:
      error: the failure.
      nodes: the nodes of the part, in their order.
      attempt: compiles some of these nodes, which are neighbors in their order.
    """
    found: Sequence[torch.fx.Node] = []
    if isinstance(error, ImportFailedError) and (found := _named(error, nodes)):
        known = "IREE has no lowering" in str(error)
        message = _message(error).removeprefix("IREE's importer does not take it: ")
        message = message.removesuffix(f" ({error.place})")
        reason = NO_LOWERING if known else f"cannot be imported: {message}"
    elif isinstance(error, CompileFailedError) and error.returncode is not None:
        found, error = _halved(error, nodes, attempt)
        reason = f"cannot be compiled: {_message(error)}"
    else:
        found = nodes
        reason = in_failing_part(error)
    kinds = {signature(node) for node in found}
    return [LeftOp.of(node, reason) for node in nodes if signature(node) in kinds]


def in_failing_part(error: MlirfuseError) -> str:
    """The reason for leaving out all ops of a part."""
    return f"is in a part that cannot be compiled: {_message(error)}"


def _message(error: MlirfuseError) -> str:
    return one_line(str(error).removeprefix(f"{SOURCE}: "))


def _named(error: ImportFailedError, nodes: Sequence[torch.fx.Node]) -> Sequence[torch.fx.Node]:
    """The nodes that an error names by their op, by their line, or by both."""
    place = error.place.rpartition(":")[0]
    by_op = [node for node in nodes if error.op and dialect_name(node) == error.op]
    by_line = [node for node in nodes if place and place in frames(node)[-1:]]
    return [node for node in by_op if node in by_line] or by_op or by_line


def _halved(
    error: MlirfuseError, nodes: Sequence[torch.fx.Node], attempt: Attempt
) -> tuple[Sequence[torch.fx.Node], MlirfuseError]:
    """The fewest nodes found that fail by themselves, and their error.

    Where both halves compile, it is all of them.
    """
    while len(nodes) > 1:
        middle = len(nodes) // 2
        for half in (nodes[:middle], nodes[middle:]):
            failure = attempt(half)
            if failure is not None:
                nodes, error = half, failure
                break
        else:
            break
    return nodes, error
