"""Operators of mlirfuse in a module of the torch dialect, and MLIR in their place.

Decompositions write operators, `torch.ops.mlirfuse.NAME`, for computations that IREE's lowering of
PyTorch has no op for.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.jax_repairs import operations
from mlirfuse.frontends.jax_repairs.definitions import copied

if TYPE_CHECKING:
    import torch
    from iree.compiler import ir

_TENSOR = re.compile(r"!torch\.vtensor<\[(?P<sizes>[^\]]*)\],(?P<element>\w+)>")


@dataclasses.dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor's type.

    Attributes:
      torch_type: in the torch dialect.
      sizes: of its axes; `?` for a dynamic one.
      element: its element type, of which integers have no sign.
    """

    torch_type: str
    sizes: tuple[str, ...]
    element: str

    @classmethod
    def of(cls, value: ir.Value) -> TensorType:
        """The type of a value of the torch dialect that is a tensor."""
        text = str(value.type)
        found = _TENSOR.fullmatch(text)
        assert found is not None
        return cls(text, tuple(found["sizes"].split(",")), found["element"].removeprefix("s"))

    @property
    def text(self) -> str:
        """The builtin type."""
        return builtin_type(self.sizes, self.element)


def builtin_type(sizes: Sequence[str], element: str) -> str:
    """A builtin type of a tensor."""
    return f"tensor<{'x'.join([*sizes, element])}>"


def registered(
    name: str, schema: str, call: Callable[..., torch.Tensor], fake: Callable[..., torch.Tensor]
) -> Any:
    """Registers the operator `torch.ops.mlirfuse.NAME`, once in a process.

    Args:
      name: its name.
      schema: as PyTorch's, such as `(Tensor x, int dim) -> Tensor`.
      call: computes the result.
      fake: the same, of fake tensors.
    """
    import torch

    custom = torch.library.custom_op(f"mlirfuse::{name}", call, mutates_args=(), schema=schema)
    custom.register_fake(fake)
    return getattr(torch.ops.mlirfuse, name).default


def operators(module: ir.Module, name: str) -> list[ir.Operation]:
    """The operators of a name such as `torch.mlirfuse.scan`."""
    from iree.compiler import ir

    return [
        op
        for op in list(operations(module.operation))
        if op.name == "torch.operator" and ir.StringAttr(op.attributes["name"]).value == name
    ]


def integer(value: ir.Value) -> int:
    """The number of a `torch.constant.int`."""
    from iree.compiler import ir

    return int(ir.IntegerAttr(value.owner.attributes["value"]).value)


def replace(operator: ir.Operation, operands: Sequence[ir.Value], text: str) -> None:
    """Puts the ops of a function in front of an operator, and erases it.

    Args:
      operator: has one result.
      operands: values for the function's arguments.
      text: a module of one function, which returns the result, of the torch dialect.
    """
    from iree.compiler import ir

    parsed = ir.Module.parse(text, operator.context)
    (function,) = parsed.body.operations
    (result,) = copied(function.operation.regions[0].blocks[0], operands, operator)
    operator.results[0].replace_all_uses_with(result)
    operator.erase()
