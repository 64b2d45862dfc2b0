"""Rewrites of StableHLO that IREE 3.13 does not lower, lowers badly, or computes wrong.

`definitions` replaces an op by a JAX program of the same meaning; the other modules rewrite ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mlirfuse.frontends.jax_repairs import (
    contractions,
    custom_calls,
    dynamic_shapes,
    elementwise,
    loops,
    scatters,
    sorting,
    windows,
)
from mlirfuse.frontends.jax_repairs.definitions import define
from mlirfuse.frontends.jax_repairs.rewriting import operations, replace

if TYPE_CHECKING:
    from iree.compiler import ir

__all__ = ["operations", "repair"]

_Repairs = Mapping[str, "Callable[[ir.Operation], None]"]


def repair(module: ir.Module) -> None:
    """Applies all repairs."""
    _apply(module, _DEFINITIONS)
    # The definitions' own ops need these too.
    _apply(module, _REWRITES)
    loops.keep_loops(module)


def _apply(module: ir.Module, repairs: _Repairs) -> None:
    for op in list(operations(module.operation)):
        if apply := repairs.get(op.name):
            apply(op)


def _keep_erf(op: ir.Operation) -> None:
    """Keeps erf as one op: IREE would expand it into 50, in which no pass recognizes a gelu."""
    from iree.compiler import ir

    with op.location, ir.InsertionPoint(op):
        erf = ir.Operation.create("math.erf", [op.results[0].type], [op.operands[0]])
    replace(op, erf.result)


def _fft(op: ir.Operation) -> None:
    from iree.compiler import ir

    from mlirfuse.frontends.jax_repairs.fourier import fft

    kind = str(op.attributes["fft_type"]).rpartition(" ")[2].rstrip(">")
    kind = kind.rpartition("<")[2]
    lengths = list(ir.DenseI64ArrayAttr(op.attributes["fft_length"]))
    define(op, lambda x: fft(x, kind=kind, lengths=lengths))


def _cholesky(op: ir.Operation) -> None:
    from iree.compiler import ir

    from mlirfuse.frontends.jax_repairs.linear_algebra import general_cholesky

    lower = "lower" in op.attributes and ir.BoolAttr(op.attributes["lower"]).value
    define(op, lambda a: general_cholesky(a, lower=lower))


def _triangular_solve(op: ir.Operation) -> None:
    from iree.compiler import ir

    from mlirfuse.frontends.jax_repairs.linear_algebra import general_triangular_solve

    def flag(name: str) -> bool:
        return bool(ir.BoolAttr(op.attributes[name]).value)

    left, lower, unit = flag("left_side"), flag("lower"), flag("unit_diagonal")
    transpose = str(op.attributes["transpose_a"]).rpartition(" ")[2].rstrip(">")
    transpose = transpose.rpartition("<")[2]
    define(
        op,
        lambda a, b: general_triangular_solve(
            a, b, left=left, lower=lower, transpose=transpose, unit_diagonal=unit
        ),
    )


_DEFINITIONS: _Repairs = {
    "chlo.top_k": sorting.top_k,
    "stablehlo.atan2": elementwise.atan2,
    "stablehlo.cbrt": elementwise.cbrt,
    "stablehlo.cholesky": _cholesky,
    "stablehlo.convert": elementwise.convert,
    "stablehlo.custom_call": custom_calls.repair_custom_call,
    "stablehlo.fft": _fft,
    "stablehlo.power": elementwise.power,
    "stablehlo.scatter": scatters.scatter,
    "stablehlo.select_and_scatter": windows.select_and_scatter,
    "stablehlo.triangular_solve": _triangular_solve,
}
"""Ops that become programs of other ops."""

_REWRITES: _Repairs = {
    "chlo.erf": _keep_erf,
    "chlo.top_k": sorting.lower_top_k,
    "stablehlo.convolution": contractions.accumulate_in_float32,
    "stablehlo.dot_general": contractions.dot_general,
    "stablehlo.dynamic_broadcast_in_dim": dynamic_shapes.broadcast,
    "stablehlo.dynamic_reshape": dynamic_shapes.reshape,
    "stablehlo.sort": sorting.sort,
}
