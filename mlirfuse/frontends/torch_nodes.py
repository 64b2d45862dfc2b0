"""Nodes of PyTorch's graphs: their names for users and for IREE, lines, tensors, and refusals."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_checks import CHECKS

if TYPE_CHECKING:
    import torch

_FRAME = re.compile(r'File "([^"]+)", line ([0-9]+),')

_LOWERED_NAMESPACES = frozenset({"aten", "prims", "quantized_decomposed", "mlirfuse"})
"""Namespaces with ops that IREE or our import lowers; the torch dialect has not all of them."""


@dataclasses.dataclass(slots=True)
class CurrentNode:
    """The node that the importer is at.

    Attributes:
      node: the node; None before the first one.
    """

    node: torch.fx.Node | None = None

    @property
    def op(self) -> str:
        """The node's op as the torch dialect names it; empty without a node that calls an op."""
        return dialect_name(self.node) if self.node is not None else ""

    @property
    def place(self) -> str:
        """The line that made the node, as `file:line:0`; empty when it is not known."""
        found = frames(self.node) if self.node is not None else []
        return f"{found[-1]}:0" if found else ""


def op_name(node: torch.fx.Node) -> str:
    """The op of a node as PyTorch names it, e.g. `aten.add.Tensor`."""
    return str(getattr(node.target, "__name__", node.target)) if _plain(node) else str(node.target)


def _plain(node: torch.fx.Node) -> bool:
    """Whether a node calls a function of Python, such as `operator.mul`, and no op of PyTorch."""
    import torch

    ops = (torch._ops.OpOverload, torch._ops.HigherOrderOperator)
    return callable(node.target) and not isinstance(node.target, ops)


def dialect_name(node: torch.fx.Node) -> str:
    """The op of a node as the torch dialect names it; empty for a node that calls no op.

    `aten.add.Tensor` is `torch.aten.add.Tensor`, `mylib.op.default` is `torch.mylib.op`.
    """
    if node.op != "call_function":
        return ""
    name = node.target.name() if hasattr(node.target, "name") else op_name(node)
    return "torch." + name.replace("::", ".").removesuffix(".default")


def frames(node: torch.fx.Node) -> list[str]:
    """The lines that made a node as `file:line`, from the outermost call to the innermost."""
    found = _FRAME.findall(node.meta.get("stack_trace") or "")
    return [f"{file}:{line}" for file, line in found]


def model_line(node: torch.fx.Node) -> str:
    """The innermost line outside of PyTorch's own files, as `file:line`; empty when not known."""
    return innermost(frames(node))


def innermost(found: Sequence[str]) -> str:
    """The last of some lines that is not in PyTorch's own files; empty where there is no line."""
    own = [frame for frame in found if not frame.startswith(_pytorch())]
    return (own or found or [""])[-1]


@functools.cache
def _pytorch() -> str:
    import torch

    return str(Path(torch.__file__).parent)


def tensors(node: torch.fx.Node) -> Iterator[torch.Tensor]:
    """The (fake) tensors among the results of a node."""
    import torch

    value = node.meta.get("val")
    for part in value if isinstance(value, list | tuple) else (value,):
        if isinstance(part, torch.Tensor):
            yield part


def is_number(node: torch.fx.Node) -> bool:
    """Whether a node computes a symbolic size or another number of Python, and no tensor."""
    import torch

    numbers = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)
    return node.op == "call_function" and isinstance(node.meta.get("val"), numbers)


def is_size(node: torch.fx.Node) -> bool:
    """Whether a node computes a number from sizes, in a way that IREE's importer knows."""
    import torch

    if not is_number(node):
        return False
    if node.target is torch.ops.aten.sym_size.int:
        return True
    return _plain(node) and op_name(node) in _functions_of_sizes()


@functools.cache
def _functions_of_sizes() -> frozenset[str]:
    from iree.compiler.extras import fx_importer

    return frozenset(fx_importer.PY_BUILTIN_TO_TORCH_OP)


def is_check(node: torch.fx.Node) -> bool:
    """Whether a node only raises where a value is out of range."""
    packet = getattr(node.target, "overloadpacket", None)
    return getattr(packet, "__name__", "") in CHECKS


def is_random(node: torch.fx.Node) -> bool:
    """Whether a node draws random numbers."""
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def is_custom(node: torch.fx.Node) -> bool:
    """Whether a node calls an op of another library, which the torch dialect does not have."""
    import torch

    return (
        isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace not in _LOWERED_NAMESPACES
        and not _in_dialect(dialect_name(node))
    )


@functools.cache
def _in_dialect(name: str) -> bool:
    from iree.compiler import ir

    return bool(ir.Context().is_registered_operation(name))


def refusal(node: torch.fx.Node, device: torch.device) -> str:
    """The reason why a program for a device would not compute a node as PyTorch does; or empty.

    The reason is a clause whose subject is the op.
    """
    import torch

    if node.op != "call_function":
        return ""
    if is_random(node):
        return "draws random numbers"
    if is_custom(node):
        return "is a custom op, and has no lowering in IREE"
    for value in _neighborhood(node):
        if value.layout != torch.strided:
            return f"takes or makes tensors of layout {value.layout}"
        if value.dim() and value.device != device:
            return f"takes or makes tensors on {value.device}, and the graph's are on {device}"
    return ""


def _neighborhood(node: torch.fx.Node) -> Iterator[torch.Tensor]:
    for other in (*node.all_input_nodes, node):
        yield from tensors(other)


def signature(node: torch.fx.Node) -> tuple[Any, ...]:
    """The op of a node with types and ranks of its tensors; nodes of one signature lower alike."""
    return (node.target, *((value.dtype, value.dim()) for value in _neighborhood(node)))


def meta_with(node: torch.fx.Node, value: Any) -> dict[str, Any]:
    """The metadata of a node, for one of another fake value.

    The importer takes types from `tensor_meta` where a node has one: it is left out.
    """
    kept = {key: held for key, held in node.meta.items() if key != "tensor_meta"}
    return {**kept, "val": value}
