"""Our decompositions of PyTorch ops for IREE, on top of PyTorch's own.

Ops that IREE 3.13 has no lowering for; ops that it accumulates in half precision where PyTorch
accumulates in float32; ops that it lowers wrong; and attention, in the form that the fusion passes
recognize.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.containment import attempt
from mlirfuse.frontends.torch_decompositions import (
    accumulation,
    angles,
    attention,
    byte_images,
    complex_elements,
    complex_functions,
    complex_numbers,
    complex_products,
    convolutions,
    elementwise,
    embeddings,
    extremes,
    fake_quantization,
    filled,
    fourier,
    fractional_pooling,
    grouped_products,
    histograms,
    householder,
    indexing,
    interpolation,
    linear_algebra,
    losses,
    narrow_integers,
    ordering,
    polynomials,
    pooling,
    powers,
    primitives,
    products,
    quotients,
    recurrent,
    representation,
    resizing,
    scans,
    selections,
    special,
    spectral,
    unsigned_casts,
)
from mlirfuse.frontends.torch_decompositions.accumulation import Table
from mlirfuse.frontends.torch_decompositions.attention import (
    decomposed_attention,
    zero_masked_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

__all__ = ["decomposed_attention", "decomposition_table", "zero_masked_rows"]


_WITHOUT_LOWERING = {
    "aten.as_strided_copy.default",
    "aten.as_strided_scatter.default",
    "aten.permute_copy.default",
    "aten.unbind_copy.int",
    "aten.upsample_bilinear2d.default",
    "aten.upsample_bilinear2d.vec",
    "aten.view_copy.default",
    "aten.view_copy.dtype",
}
"""Ops of IREE's importer that it has no lowering for."""


def decomposition_table(*, whole_attention: bool) -> Table:
    """The table for `ExportedProgram.run_decompositions`.

    Args:
      whole_attention: whether to keep `scaled_dot_product_attention` as one op.
    """
    import torch

    table = dict(_table())
    if whole_attention:
        table.pop(torch.ops.aten.scaled_dot_product_attention.default, None)
    # Ops of other packages, and some of PyTorch's own, are known once these are imported.
    late = {
        **attention.table(whole=whole_attention),
        **grouped_products.table(),
        **losses.chunked_table(),
    }
    return {**table, **_contained(late, table)}


@functools.cache
def _table() -> Table:
    from torch.export import default_decompositions

    default: Table = dict(default_decompositions())
    table = {**default, **_unregistered(default)}
    for plain in (
        angles,
        elementwise,
        embeddings,
        extremes,
        fake_quantization,
        filled,
        fourier,
        fractional_pooling,
        histograms,
        householder,
        indexing,
        interpolation,
        linear_algebra,
        losses,
        ordering,
        polynomials,
        powers,
        primitives,
        products,
        quotients,
        representation,
        resizing,
        scans,
        selections,
        special,
        spectral,
    ):
        table.update(_contained(plain.table(), table))
    for around in (
        accumulation,
        byte_images,
        convolutions,
        pooling,
        recurrent,
        complex_numbers,
        complex_functions,
        complex_elements,
        complex_products,
        narrow_integers,
        unsigned_casts,
    ):
        table.update(_contained(around.table(table), table))
    return table


def _contained(ours: Table, others: Table) -> Table:
    """Our decompositions; where one raises, the other one of its op, or the op itself."""

    def contained(op: torch._ops.OpOverload, function: Callable[..., Any]) -> Callable[..., Any]:
        def decomposition(*args: Any, **kwargs: Any) -> Any:
            instead = object()
            step = functools.partial(function, *args, **kwargs)
            result = attempt(f"the decomposition of {op}", step, instead)
            if result is not instead:
                return result
            other = others.get(op)
            return NotImplemented if other is None else other(*args, **kwargs)

        return decomposition

    others = dict(others)
    return {op: contained(op, function) for op, function in ours.items()}


def _unregistered(default: Table) -> Table:
    """PyTorch's further decompositions of ops that IREE's importer does not know."""
    import torch
    from iree.compiler import ir
    from torch._decomp import decomposition_table as known

    context = ir.Context()

    def registered(op: torch._ops.OpOverload) -> bool:
        name = op._schema.name.replace("::", ".")
        overload = "." + op._schema.overload_name if op._schema.overload_name else ""
        return bool(context.is_registered_operation(f"torch.{name}{overload}"))

    return {
        op: function
        for op, function in known.items()
        if isinstance(op, torch._ops.OpOverload)
        and op.namespace == "aten"
        and not op._schema.is_mutable
        and op not in default
        and "lift" not in op._schema.name  # of real tensors, which a trace with fake ones refuses
        and (not registered(op) or str(op) in _WITHOUT_LOWERING)
    }
