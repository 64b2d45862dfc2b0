"""Zeros between and around the elements of an image, of a PyTorch program.

    %y = torch.operator "torch.mlirfuse.spread"(%x, %low, %high, %stride)
  becomes
    %z = linalg.fill ins(%zero)
    %y = tensor.insert_slice %x into %z[0, 0, low...] [...] [1, 1, stride...]

Decompositions write the operator `torch.ops.mlirfuse.spread`. The kernels of convolutions know this
form of the image of a transposed convolution, and read no zeros.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_operators import TensorType, integer, operators, registered, replace

if TYPE_CHECKING:
    import torch
    from iree.compiler import ir

NAME = "torch.mlirfuse.spread"


def is_lowered(x: torch.Tensor, low: Sequence[int], high: Sequence[int]) -> bool:
    """Whether an image of floats and these numbers of zeros before and behind it are lowered."""
    static = all(isinstance(size, int) for size in x.shape)
    return static and x.dtype.is_floating_point and min(*low, *high) >= 0


@functools.cache
def spread_op() -> Any:
    """The operator `spread(x, low, high, stride)`.

    It maps an image, (batch, channels, ...), to one with `stride - 1` zeros between its elements
    along each axis of positions, `low` zeros before them and `high` behind them.
    """

    def spread(
        x: torch.Tensor, low: Sequence[int], high: Sequence[int], stride: Sequence[int]
    ) -> torch.Tensor:
        y = x.new_zeros(_result(x.shape, low, high, stride))
        y[(..., *(slice(a, n - b, s) for a, b, s, n in _axes(y.shape, low, high, stride)))] = x
        return y

    return registered(
        "spread",
        "(Tensor x, int[] low, int[] high, int[] stride) -> Tensor",
        spread,
        lambda x, low, high, stride: x.new_empty(_result(x.shape, low, high, stride)),
    )


def _axes(
    shape: Sequence[int], low: Sequence[int], high: Sequence[int], stride: Sequence[int]
) -> list[tuple[int, int, int, int]]:
    return list(zip(low, high, stride, shape[2:], strict=True))


def _result(
    shape: Sequence[int], low: Sequence[int], high: Sequence[int], stride: Sequence[int]
) -> list[int]:
    axes = _axes(shape, low, high, stride)
    return [*shape[:2], *(a + (n - 1) * s + 1 + b for a, b, s, n in axes)]


def lower_spreads(module: ir.Module) -> None:
    """Replaces the operators in a module of the torch dialect."""
    for operator in operators(module, NAME):
        source, low, _, stride = operator.operands
        kinds = TensorType.of(source), TensorType.of(operator.results[0])
        lists = [[integer(n) for n in numbers.owner.operands] for numbers in (low, stride)]
        replace(operator, [source], _function(*kinds, *lists))


def _function(
    image: TensorType, result: TensorType, low: Sequence[int], stride: Sequence[int]
) -> str:
    """The text of a function that inserts its argument into zeros."""
    sizes = ", ".join(image.sizes)
    return f"""
func.func @spread(%a: {image.torch_type}) -> {result.torch_type} {{
  %x = torch_c.to_builtin_tensor %a : {image.torch_type} -> {image.text}
  %zero = arith.constant 0.0 : {image.element}
  %e = tensor.empty() : {result.text}
  %z = linalg.fill ins(%zero : {image.element}) outs(%e : {result.text}) -> {result.text}
  %y = tensor.insert_slice %x into %z{[0, 0, *low]} [{sizes}] {[1, 1, *stride]}
      : {image.text} into {result.text}
  %made = torch_c.from_builtin_tensor %y : {result.text} -> {result.torch_type}
  return %made : {result.torch_type}
}}"""
