"""Arithmetic on bytes and booleans, in 32 bits.

    y = aten.mul(x: ui8, 2)
  becomes
    y = aten.to(aten.mul(aten.to(x, i32), 2), ui8)         // modulo 256, as in PyTorch

IREE 3.13's importer crashes on these ops for bytes, takes bytes for signed, or takes the sum of two
booleans for one bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch

_OF_BYTES = (
    *("add", "sub", "rsub", "mul", "neg", "abs", "sign", "remainder", "fmod"),
    *("sum", "prod", "cumsum", "amax", "amin", "max", "min", "maximum", "minimum", "clamp"),
    *("mm", "bmm", "mv", "dot", "vdot", "addmm", "addmv", "addr", "baddbmm", "addcmul", "addcdiv"),
    *("convolution", "scatter_add", "relu", "pow", "floor_divide"),
)
"""Ops that are computed in 32 bits for bytes, with or without a sign."""

_OF_BOOLEANS = (
    "clamp_min",
    "clamp_max",
    "index_add",
    "index_put",
    "scatter",
    "scatter_reduce",
    "_unsafe_index_put",
)
"""Ops that are computed in 32 bits for booleans too."""


def table(default: Table) -> Table:
    """The decompositions, around those of `default`."""
    import torch

    bytes_ = {torch.uint8, torch.int8}
    found: Table = {}
    for names, types in ((_OF_BYTES, bytes_), (_OF_BOOLEANS, {*bytes_, torch.bool})):
        for op in _overloads(names):
            found[op] = _in_32_bits(op, types, default.get(op))
    for op in _overloads(("any", "all")):
        found[op] = _of_bytes_as_booleans(op, default.get(op))
    return found


def _overloads(names: tuple[str, ...]) -> Iterator[Any]:
    """The overloads that write into no argument."""
    import torch

    for name in names:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if not op._schema.is_mutable and "Dimname" not in str(op._schema):
                yield op


def _in_32_bits(
    op: Any, types: set[torch.dtype], otherwise: Callable[..., Any] | None
) -> Callable[..., Any]:
    import torch
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
    from torch.utils import _pytree as pytree

    def narrow(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.dtype in types

    def widened(value: Any) -> Any:
        return value.to(torch.int32) if narrow(value) else value

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        if not any(map(narrow, (*args, *kwargs.values()))):  # lists hold indices and masks
            return otherwise(*args, **kwargs) if otherwise else NotImplemented
        with disable_proxy_modes_tracing():
            promised = op(*args, **kwargs)
        wide_args = map(widened, args)
        wide_kwargs = {name: widened(value) for name, value in kwargs.items()}
        if narrow_type(wide_kwargs.get("dtype")):
            wide_kwargs = {**wide_kwargs, "dtype": torch.int32}
        return pytree.tree_map(
            lambda value, like: value.to(like.dtype), op(*wide_args, **wide_kwargs), promised
        )

    def narrow_type(dtype: torch.dtype | None) -> bool:
        return dtype in types

    return decomposition


def _of_bytes_as_booleans(op: Any, otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    """`any` and `all`, whose results are bytes for bytes."""

    def decomposition(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        import torch

        if x.dtype == torch.uint8:
            return op(x != 0, *args, **kwargs).to(torch.uint8)
        return otherwise(x, *args, **kwargs) if otherwise else NotImplemented

    return decomposition
