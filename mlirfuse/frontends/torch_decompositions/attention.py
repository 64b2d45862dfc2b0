"""Attention, in the form that the fusion passes recognize."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from mlirfuse.core import ImportFailedError
from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch


def table(*, whole: bool) -> Table:
    """The decompositions; `scaled_dot_product_attention` remains one op if `whole`."""
    import torch

    aten = torch.ops.aten
    found: Table = {aten._transformer_encoder_layer_fwd.default: _transformer_encoder_layer}
    if not whole:
        found[aten.scaled_dot_product_attention.default] = _attention
    return found


def decomposed_attention() -> contextlib.AbstractContextManager[Any]:
    """A context in which traced functions of PyTorch use our form of attention.

    AOTAutograd picks one of PyTorch's kernels before it consults a table of decompositions.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function is torch.nn.functional.scaled_dot_product_attention:
                function = _attention
            return function(*args, **(kwargs or {}))

    mode: contextlib.AbstractContextManager[Any] = Mode()
    return mode


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Matmul, scale, mask and softmax in float32, matmul.

    IREE folds the casts of half precision into the first matmul, whose result is not rounded.

    PyTorch's own decomposition scales query and key, and tests all scores for fully masked rows,
    which takes three more passes over the scores. Such rows come from the mask alone, so this form
    tests the mask once, and zeroes the rows in the result.
    """
    import torch

    if dropout_p > 0:
        raise ImportFailedError(
            f"scaled_dot_product_attention has dropout_p={dropout_p}; call .eval() on the module, "
            "or pass 0"
        )
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    rows, keys = query.shape[-2], key.shape[-2]
    half = is_half(query.dtype)
    query, key = (query.float(), key.float()) if half else (query * scale, key)
    heads = query.shape[:-2]
    # Query heads that share a key head are stacked along M of one matmul: keys are not repeated.
    grouped = enable_gqa and query.shape[-3] != key.shape[-3]
    if grouped and isinstance(rows, torch.SymInt):
        # A dynamic M that is rows times heads could not be split again.
        key, value = (_repeated(x, query.shape[-3] // x.shape[-3]) for x in (key, value))
        grouped = False
    if grouped:
        key = key.expand(*heads[:-1], *key.shape[-3:])
        value = value.expand(*heads[:-1], *value.shape[-3:])
        query = query.reshape(*key.shape[:-2], -1, query.shape[-1])
    scores = torch.matmul(query, key.transpose(-1, -2))
    if grouped:
        scores = scores.reshape(*heads, rows, keys)
    scores = scores * scale if half else scores
    keep = None
    if is_causal:
        row = torch.arange(rows, device=query.device).unsqueeze(-1)
        column = torch.arange(keys, device=query.device)
        scores = torch.where(row >= column, scores, float("-inf"))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask, scores, float("-inf"))
        keep = attn_mask.any(-1, keepdim=True)
    elif attn_mask is not None:
        scores = scores + attn_mask
        keep = (attn_mask != float("-inf")).any(-1, keepdim=True)
    weights = torch.softmax(scores, -1).to(value.dtype)
    if grouped:
        weights = weights.reshape(*value.shape[:-2], -1, keys)
    result = torch.matmul(weights, value)
    if grouped:
        result = result.reshape(*heads, rows, value.shape[-1])
    return result if keep is None else torch.where(keep, result, 0.0)


def _repeated(heads: torch.Tensor, times: int) -> torch.Tensor:
    """Each head of (..., heads, keys, size) repeated, copies next to each other."""
    wide = heads.unsqueeze(-3).expand(*heads.shape[:-2], times, *heads.shape[-2:])
    return wide.flatten(-4, -3)


def _transformer_encoder_layer(
    x: torch.Tensor,
    width: int,
    heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    out_weight: torch.Tensor,
    out_bias: torch.Tensor,
    gelu: bool,
    norm_first: bool,
    eps: float,
    *others: Any,
) -> torch.Tensor:
    """`torch.nn.TransformerEncoderLayer` as one op, which PyTorch uses in inference."""
    from torch.nn import functional

    *weights, mask, kind = (*others, None, None)[:10]
    scale_1, shift_1, scale_2, shift_2, up_weight, up_bias, down_weight, down_bias = weights
    keep = None
    if mask is not None:
        # 0: queries by keys; 1: batch by keys; 2: of every head; true hides a key.
        keep = ~mask.bool() if kind != 1 else ~mask.bool()[:, None, None]

    def norm(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (width,), scale, shift, eps)

    def attend(x: torch.Tensor) -> torch.Tensor:
        parts = functional.linear(x, qkv_weight, qkv_bias).unflatten(-1, (3, heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind()
        mixed = _attention(query, key, value, keep).transpose(1, 2).flatten(2)
        return functional.linear(mixed, out_weight, out_bias)

    def feed(x: torch.Tensor) -> torch.Tensor:
        wide = functional.linear(x, up_weight, up_bias)
        wide = functional.gelu(wide) if gelu else functional.relu(wide)
        return functional.linear(wide, down_weight, down_bias)

    if norm_first:
        x = x + attend(norm(x, scale_1, shift_1))
        return x + feed(norm(x, scale_2, shift_2))
    x = norm(x + attend(x), scale_1, shift_1)
    return norm(x + feed(x), scale_2, shift_2)


def zero_masked_rows(program: torch.export.ExportedProgram) -> None:
    """Zeroes the rows of whole attention that are fully masked, as PyTorch does.

    IREE's attention op divides by zero there.
    """
    import torch
    from torch.export.graph_signature import TensorArgument

    aten = torch.ops.aten
    graph = program.graph
    for node in list(graph.nodes):
        if node.target is not aten.scaled_dot_product_attention.default:
            continue
        mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
        if mask is None:
            continue

        def call(op: Any, *args: Any, like: torch.fx.Node = node) -> torch.fx.Node:
            new = graph.call_function(op, args)
            values = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args]
            new.meta = {**like.meta, "val": op(*values)}
            new.meta.pop("tensor_meta", None)
            return new

        with graph.inserting_before(node.next):
            keep = mask
            if mask.meta["val"].dtype != torch.bool:
                keep = call(aten.ne.Scalar, mask, float("-inf"))
            keep = call(aten.any.dim, keep, -1, True)
            result = call(aten.where.ScalarOther, keep, node, 0.0)
        node.replace_all_uses_with(result, delete_user_cb=lambda user, new=result: user is not new)
        for spec in program.graph_signature.output_specs:
            if spec.arg.name == node.name:
                spec.arg = TensorArgument(name=result.name)
