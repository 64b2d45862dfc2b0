"""Norms, losses and reductions of half precision, which accumulate in float32 as in PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Table = dict[Any, Callable[..., Any]]
"""Op -> its decomposition."""


def table(default: Table) -> Table:
    """The decompositions, around those of `default`."""
    import torch

    aten = torch.ops.aten
    ops = (
        aten.sum.default,
        aten.sum.dim_IntList,
        aten.mean.default,
        aten.mean.dim,
        aten.cumsum.default,
        aten.linalg_vector_norm.default,
        aten.native_layer_norm.default,
        aten.native_group_norm.default,
        aten._softmax.default,
        aten._log_softmax.default,
        aten.avg_pool1d.default,
        aten.avg_pool2d.default,
        aten.avg_pool3d.default,
        aten.nll_loss_forward.default,
        aten.nll_loss2d_forward.default,
        aten.std.correction,
        aten.std_mean.correction,
        aten.var.correction,
        aten.var_mean.correction,
    )
    return {
        aten._native_batch_norm_legit_no_training.default: _batch_norm_inference,
        aten._native_batch_norm_legit.no_stats: _batch_norm_no_stats,
        **{op: _accumulated_in_float32(op, default.get(op)) for op in ops},
    }


def is_half(dtype: torch.dtype | None) -> bool:
    """Whether a type is of 16 bits."""
    import torch

    return dtype in (torch.float16, torch.bfloat16)


def is_empty(x: torch.Tensor) -> bool:
    """Whether a size is zero for all sizes that are dynamic."""
    return any(isinstance(size, int) and size == 0 for size in x.shape)


def _batch_norm_inference(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`x * scale + shift`; both are constants, which IREE computes once."""
    import torch

    scale = torch.rsqrt(running_var.float() + eps)
    if weight is not None:
        scale = scale * weight.float()
    shift = -running_mean.float() * scale
    if bias is not None:
        shift = shift + bias.float()
    shape = [1, -1] + [1] * (x.dim() - 2)
    y = x.float() * scale.view(shape) + shift.view(shape)
    empty = x.new_empty(0)
    return y.to(x.dtype), empty, empty


def _batch_norm_no_stats(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Batch norm with the statistics of the batch itself."""
    import torch

    axes = [0, *range(2, x.dim())]
    wide = x.float() if is_half(x.dtype) else x
    mean = wide.mean(axes, keepdim=True)
    centered = wide - mean
    rstd = torch.rsqrt((centered * centered).mean(axes, keepdim=True) + eps)
    y = centered * rstd
    shape = [1, -1] + [1] * (x.dim() - 2)
    if weight is not None:
        y = y * weight.view(shape)
    if bias is not None:
        y = y + bias.view(shape)
    kept = x.dtype if x.device.type == "cpu" else mean.dtype
    return y.to(x.dtype), mean.flatten().to(kept), rstd.flatten().to(kept)


@contextlib.contextmanager
def grouped_instances(program: torch.export.ExportedProgram) -> Iterator[None]:
    """Has group norms, of a channel each, in place of instance norms with an image's statistics.

    PyTorch decomposes these into a batch norm of one image, for which it repeats weight and bias in
    memory. The program is unchanged after the `with` block.
    """
    import torch

    aten, before = torch.ops.aten, []
    for node in program.graph.find_nodes(op="call_function", target=aten.instance_norm.default):
        x, weight, bias, mean, variance, own, _, eps, _ = node.args
        channels = x.meta["val"].shape[1]
        if mean is None and variance is None and own and isinstance(channels, int) and channels:
            before.append((node, node.args))
            node.target, node.args = aten.group_norm.default, (x, channels, weight, bias, eps)
    if before:
        program.graph_module.recompile()
    try:
        yield
    finally:
        for node, args in before:
            node.target, node.args = aten.instance_norm.default, args
        if before:
            program.graph_module.recompile()


def _accumulated_in_float32(op: Any, otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    """Computes `op` of half precision tensors in float32; other types are unchanged.

    IREE's lowering of these ops accumulates in the element type: 4 % error in a float16 layer norm
    over 4096 elements, where PyTorch's is 0.04 %.
    """
    import torch

    reshaped = op in (torch.ops.aten._softmax.default, torch.ops.aten._log_softmax.default)

    def decomposition(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:

        if reshaped and (not x.dim() or is_empty(x)):
            # IREE 3.13 never ends on a softmax of no elements.
            return (
                op(x.unsqueeze(0), 0, *args[1:], **kwargs).squeeze(0) if not x.dim() else x.clone()
            )
        if op is torch.ops.aten.linalg_vector_norm.default and not x.dim():
            order = args[0] if args else kwargs.get("ord", 2)
            return op(x.view(1), order, None, False, dtype=kwargs.get("dtype"))
        if op is torch.ops.aten.linalg_vector_norm.default:
            found = _root_of_squares(x, *args, **kwargs)
            if found is not None:
                return found
        asked = kwargs.get("dtype")
        if op is torch.ops.aten.cumsum.default and not x.dim():  # IREE sums along an axis only
            return op(x.view(1), *args, **kwargs).view(())
        if not is_half(x.dtype) or not (asked is None or is_half(asked)):
            return otherwise(x, *args, **kwargs) if otherwise else NotImplemented
        if asked is not None:
            kwargs = {**kwargs, "dtype": None}
        wide = [
            a.float() if isinstance(a, torch.Tensor) and is_half(a.dtype) else a for a in (x, *args)
        ]
        result = op(*wide, **kwargs)
        dtype = asked or x.dtype
        if isinstance(result, torch.Tensor):
            return result.to(dtype)
        return tuple(part.to(dtype) for part in result)

    return decomposition


def _root_of_squares(
    x: torch.Tensor,
    order: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor | None:
    """The norm of order two; None for others. IREE's importer calls `pow` for each element."""
    import torch

    if order != 2 or not x.is_floating_point() or (dim is not None and not len(dim)):
        return None
    kept = dtype or x.dtype
    wide = x.float() if is_half(kept) else x.to(kept)
    axes = [*range(x.dim())] if dim is None else list(dim)
    return torch.sqrt((wide * wide).sum(axes, keepdim)).to(kept)
