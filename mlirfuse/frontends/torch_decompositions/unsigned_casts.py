"""Casts to unsigned integers of 16 bits and more, as views of signed ones.

    y = aten._to_copy(x, dtype=uint64)
  becomes
    y = aten.view(aten._to_copy(x, dtype=int64), uint64)

IREE 3.13's importer aborts on 16 and 64 bits, and takes 32 bits for signed ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch

_HALF_RANGE = 2.0**63
"""The first number of 64 bits that is no signed one."""


def table(default: Table) -> Table:
    """The decompositions, around those of `default`."""
    import torch

    op = torch.ops.aten._to_copy.default
    signed = {
        torch.uint16: torch.int16,
        torch.uint32: torch.int32,
        torch.uint64: torch.int64,
    }
    otherwise = default.get(op)

    def decomposition(x: torch.Tensor, *, dtype: torch.dtype | None = None, **rest: Any) -> Any:
        if dtype not in signed or x.dtype == dtype or x.dtype.is_complex:
            return otherwise(x, dtype=dtype, **rest) if otherwise else NotImplemented
        if not x.dim():  # IREE's importer crashes on the view of a scalar
            return x.view(1).to(dtype).view(())
        return _bits(x, dtype).to(signed[dtype]).view(dtype)

    return {op: decomposition}


def _bits(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The number as a signed one of 64 bits that has the same bits."""
    import torch

    if not x.dtype.is_floating_point or dtype != torch.uint64:
        return x.to(torch.int64)
    large = x >= _HALF_RANGE
    whole = torch.where(large, x - _HALF_RANGE, x).to(torch.int64)
    return torch.where(large, torch.bitwise_xor(whole, -(2**63)), whole)
