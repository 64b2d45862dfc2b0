"""Rewrites of StableHLO that IREE 3.13 does not lower, lowers badly, or computes wrong.

`definitions` replaces an op by a JAX program of the same meaning; the other modules rewrite ops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mlirfuse.core import MlirfuseError
from mlirfuse.frontends.containment import attempt, leave_out
from mlirfuse.frontends.jax_repairs import (
    complex_numbers,
    contractions,
    conversions,
    custom_calls,
    dynamic_shapes,
    elementwise,
    gathers,
    loops,
    scatters,
    sorting,
    windows,
)
from mlirfuse.frontends.jax_repairs.dead_values import remove_dead_values
from mlirfuse.frontends.jax_repairs.definitions import define
from mlirfuse.frontends.jax_repairs.rewriting import operations, replace
from mlirfuse.frontends.jax_repairs.signs import strip_signs
from mlirfuse.support import dialect_modules

if TYPE_CHECKING:
    from iree.compiler import ir

__all__ = ["operations", "repaired"]

_Repairs = Mapping[str, "Callable[[ir.Operation], None]"]
_Step = Callable[["ir.Module"], None]


def repaired(read: Callable[[], ir.Module | None], write: Callable[[ir.Module], None]) -> bool:
    """Applies all repairs to a module, but for those that raise.

    Args:
      read: reads the module in the current context; None where there is nothing to repair. It is
        read again, in another context, without a step that raised: its half was changed.
      write: takes the repaired module.

    Returns:
      Whether there was a module.
    """
    from iree.compiler import ir

    dialect_modules.add()
    steps = list(_STEPS)
    while True:
        with ir.Context() as context:
            # Sharding annotations and XLA's attributes, which have no meaning on one device.
            context.allow_unregistered_dialects = True
            module = read()
            if module is None:
                return False
            failed = _apply_steps(module, steps)
            if failed is None:
                write(module)
                return True
        steps.remove(failed)


def _apply_steps(module: ir.Module, steps: Sequence[_Step]) -> _Step | None:
    """The step that raised, after those before it; None where none did."""
    for step in steps:
        try:
            step(module)
        except MlirfuseError:
            raise
        except Exception as error:
            leave_out(step.__name__.strip("_"), error)
            return step
    return None


def _remove_sharding(module: ir.Module) -> None:
    """Removes meshes and annotations of sharding, of a dialect that IREE does not know."""
    for op in list(operations(module.operation)):
        if op.name == "sdy.mesh":
            op.erase()
            continue
        for name in [name for name in op.attributes if name.startswith("sdy.")]:
            del op.attributes[name]
        for name in ("arg_attrs", "res_attrs"):
            if name in op.attributes and "sdy." in str(op.attributes[name]):
                del op.attributes[name]


def _apply(module: ir.Module, repairs: _Repairs) -> None:
    found = [(op, repairs[op.name]) for op in operations(module.operation) if op.name in repairs]
    # Ops in the region of another come after it, and are erased with it.
    for op, apply in reversed(found):
        attempt(f"the repair of {op.name}", functools.partial(apply, op), None)


def _keep_erf(op: ir.Operation) -> None:
    """Keeps erf as one op: IREE would expand it into 50, in which no pass recognizes a gelu."""
    from iree.compiler import ir

    with op.location, ir.InsertionPoint(op):
        erf = ir.Operation.create("math.erf", [op.results[0].type], [op.operands[0]])
    replace(op, erf.result)


def _forward(op: ir.Operation) -> None:
    """Removes an annotation of the sharding of a value: there is one device."""
    replace(op, op.operands[0])


def _complex_function(op: ir.Operation) -> None:
    """A function of complex numbers in real arithmetic, with JAX's results at the branch cuts."""
    from iree.compiler import ir

    if isinstance(ir.RankedTensorType(op.operands[0].type).element_type, ir.ComplexType):
        from jax import lax

        define(op, getattr(lax, op.name.partition(".")[2]), expanded=True)


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


_FIRST: _Repairs = {
    **dict.fromkeys(
        (
            f"chlo.{name}"
            for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh")
        ),
        _complex_function,
    ),
    "stablehlo.composite": sorting.restore_top_k,
}
"""Ops whose programs hold ops that become programs."""

_DEFINITIONS: _Repairs = {
    "chlo.top_k": sorting.top_k,
    "stablehlo.atan2": elementwise.atan2,
    "stablehlo.cbrt": elementwise.cbrt,
    "stablehlo.cholesky": _cholesky,
    "stablehlo.convert": elementwise.convert,
    "stablehlo.custom_call": custom_calls.repair_custom_call,
    "stablehlo.fft": _fft,
    "stablehlo.power": elementwise.power,
    "stablehlo.select_and_scatter": windows.select_and_scatter,
    "stablehlo.triangular_solve": _triangular_solve,
}
"""Ops that become programs of other ops."""

_SECOND: _Repairs = {
    "stablehlo.scatter": scatters.scatter,
}
"""Ops that the programs of others hold, and that become programs themselves."""

_REWRITES: _Repairs = {
    "chlo.erf": _keep_erf,
    "sdy.sharding_constraint": _forward,
    "chlo.top_k": sorting.lower_top_k,
    "stablehlo.convolution": contractions.convolution,
    "stablehlo.dot_general": contractions.dot_general,
    "stablehlo.gather": gathers.gather,
    "stablehlo.dynamic_broadcast_in_dim": dynamic_shapes.broadcast,
    "stablehlo.dynamic_reshape": dynamic_shapes.reshape,
    "stablehlo.sort": sorting.sort,
    "stablehlo.while": loops.unroll,
}


def _define_first(module: ir.Module) -> None:
    _apply(module, _FIRST)


def _define(module: ir.Module) -> None:
    _apply(module, _DEFINITIONS)


def _define_second(module: ir.Module) -> None:
    _apply(module, _SECOND)


def _rewrite(module: ir.Module) -> None:
    _apply(module, _REWRITES)


_STEPS: tuple[_Step, ...] = (
    _remove_sharding,
    _define_first,
    _define,
    complex_numbers.split,
    _define_second,  # the programs' own ops need these too
    remove_dead_values,
    _rewrite,
    conversions.merge_equal,
    strip_signs,
)
