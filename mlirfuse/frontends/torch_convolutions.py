"""Convolutions of PyTorch programs that IREE's lowering of PyTorch has no op for: depthwise 3-D.

    %y = torch.operator "torch.mlirfuse.depthwise_conv3d"(%x, %w, %bias, %stride, %dilation)
  becomes
    %s = linalg.broadcast ins(%bias)
    %c = linalg.depthwise_conv_3d_ncdhw_cdhw ins(%x, tensor.collapse_shape %w) outs(%s)

Decompositions write the operator `torch.ops.mlirfuse.depthwise_conv3d`. Half precision accumulates
in f32.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_operators import (
    TensorType,
    builtin_type,
    integer,
    operators,
    registered,
    replace,
)

if TYPE_CHECKING:
    import torch
    from iree.compiler import ir

NAME = "torch.mlirfuse.depthwise_conv3d"

_ACCUMULATORS = {"f16": "f32", "bf16": "f32"}


def is_lowered(x: torch.Tensor, w: torch.Tensor) -> bool:
    """Whether a convolution with one filter for each channel is the operator: of volumes."""
    static = all(isinstance(size, int) for size in x.shape[1:])
    return w.dim() == 5 and w.shape[1] == 1 and x.dtype.is_floating_point and static


@functools.cache
def convolution_op() -> Any:
    """The operator `depthwise_conv3d(x, w, bias, stride, dilation)`.

    It maps a padded image, (batch, channels, depth, height, width), and a filter of
    (channels, 1, depth, height, width), of one float type.
    """
    import torch

    def convolution(
        x: torch.Tensor,
        w: torch.Tensor,
        bias: torch.Tensor | None,
        stride: Sequence[int],
        dilation: Sequence[int],
    ) -> torch.Tensor:
        return torch.conv3d(x, w, bias, stride, 0, dilation, w.shape[0])

    return registered(
        "depthwise_conv3d",
        "(Tensor x, Tensor w, Tensor? bias, int[] stride, int[] dilation) -> Tensor",
        convolution,
        lambda x, w, bias, stride, dilation: x.new_empty(_result(x.shape, w, stride, dilation)),
    )


def _result(
    shape: Sequence[Any], w: torch.Tensor, stride: Sequence[int], dilation: Sequence[int]
) -> list[Any]:
    sizes = zip(shape[2:], w.shape[2:], stride, dilation, strict=True)
    return [shape[0], shape[1], *((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in sizes)]


def lower_convolutions(module: ir.Module) -> None:
    """Replaces the operators in a module of the torch dialect."""
    for operator in operators(module, NAME):
        x, w, bias, stride, dilation = operator.operands
        tensors = [x, w] if str(bias.type) == "!torch.none" else [x, w, bias]
        steps = [[integer(n) for n in numbers.owner.operands] for numbers in (stride, dilation)]
        kinds = [TensorType.of(value) for value in (*tensors, operator.results[0])]
        replace(operator, tensors, _function(kinds, *steps))


def _function(kinds: Sequence[TensorType], stride: Sequence[int], dilation: Sequence[int]) -> str:
    """The text of a function that convolves.

    Args:
      kinds: types of the image, the filter, the bias if there is one, and the result.
      stride: along each axis.
      dilation: along each axis.
    """
    image, weight, *biases, result = kinds
    narrow = image.element
    element = _ACCUMULATORS.get(narrow, narrow)
    channels, _, *window = weight.sizes
    rows = builtin_type([channels, *window], narrow)
    sums = builtin_type(result.sizes, element)
    dynamic = "?" in result.sizes
    lines = [
        f"%x = torch_c.to_builtin_tensor %a0 : {image.torch_type} -> {image.text}",
        f"%w = torch_c.to_builtin_tensor %a1 : {weight.torch_type} -> {weight.text}",
        f"%f = tensor.collapse_shape %w [[0, 1], [2], [3], [4]] : {weight.text} into {rows}",
        "%i = arith.constant 0 : index",
        f"%n = tensor.dim %x, %i : {image.text}",
        f"%e = tensor.empty({'%n' if dynamic else ''}) : {sums}",
    ]
    if biases:
        lines += _started_from(biases[0], sums, element)
    else:
        lines += [
            f"%zero = arith.constant 0.0 : {element}",
            f"%start = linalg.fill ins(%zero : {element}) outs(%e : {sums}) -> {sums}",
        ]
    steps = f"dilations = {_dense(dilation)}, strides = {_dense(stride)}"
    lines.append(
        f"%c = linalg.depthwise_conv_3d_ncdhw_cdhw {{{steps}}}\n"
        f"    ins(%x, %f : {image.text}, {rows}) outs(%start : {sums}) -> {sums}"
    )
    made = "%c"
    if narrow != element:
        made = "%r"
        lines.append(f"%to = tensor.empty({'%n' if dynamic else ''}) : {result.text}")
        lines.append(_converted("%r", "%c", sums, "%to", result.text, "arith.truncf"))
    lines += [
        f"%made = torch_c.from_builtin_tensor {made} : {result.text} -> {result.torch_type}",
        f"return %made : {result.torch_type}",
    ]
    given = ", ".join(f"%a{n}: {kind.torch_type}" for n, kind in enumerate(kinds[:-1]))
    body = "\n".join(lines)
    return f"func.func @convolution({given}) -> {result.torch_type} {{\n{body}\n}}"


def _started_from(bias: TensorType, sums: str, element: str) -> list[str]:
    """The lines of accumulators that start from a bias of their element type or a narrower one."""
    wide = builtin_type(bias.sizes, element)
    lines = [f"%b = torch_c.to_builtin_tensor %a2 : {bias.torch_type} -> {bias.text}"]
    name = "%b"
    if bias.element != element:
        name = "%bw"
        lines.append(f"%be = tensor.empty() : {wide}")
        lines.append(_converted("%bw", "%b", bias.text, "%be", wide, "arith.extf"))
    return [
        *lines,
        f"%start = linalg.broadcast ins({name} : {wide}) outs(%e : {sums})"
        " dimensions = [0, 2, 3, 4]",
    ]


def _converted(name: str, source: str, kind: str, to: str, to_kind: str, op: str) -> str:
    """The line of an op that converts the elements of a tensor."""
    rank = kind.count("x")
    narrow, wide = (text.rpartition("x")[2].rstrip(">") for text in (kind, to_kind))
    dims = ", ".join(f"d{n}" for n in range(rank))
    same = f"affine_map<({dims}) -> ({dims})>"
    loops = ", ".join(['"parallel"'] * rank)
    return f"""{name} = linalg.generic {{indexing_maps = [{same}, {same}],
    iterator_types = [{loops}]}} ins({source} : {kind}) outs({to} : {to_kind}) {{
^bb0(%in: {narrow}, %out: {wide}):
%v = {op} %in : {narrow} to {wide}
linalg.yield %v : {wide}
}} -> {to_kind}"""


def _dense(numbers: Sequence[int]) -> str:
    return f"dense<{list(numbers)}> : tensor<{len(numbers)}xi64>"
