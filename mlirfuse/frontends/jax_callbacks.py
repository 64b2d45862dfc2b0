"""Calls of Python functions from JAX programs; a compiled program has no Python to call.

`jax.debug.print` and `jax.debug.callback` are left out. A function that only raises is a check,
such as `equinox.error_if`: its results become NaN, or the largest integer. Other calls are refused.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mlirfuse.core import ImportFailedError


def lowering_options(jaxpr: Any, notes: list[str]) -> dict[str, Any]:
    """Keyword arguments of `jax.stages.Traced.lower` for the calls of a program.

    Args:
      jaxpr: of the program.
      notes: gets a note about each kind of call that does not raise or print any more.

    Returns:
      No arguments for a program without calls: the way to give rules is private to JAX.
    """
    found = {each.name: each for each in _primitives(jaxpr) if each.name in _RULES}
    if not found:
        return {}
    from jax.interpreters import mlir

    unreachable: set[Any] = set()
    rules = tuple(
        (primitive, functools.partial(_RULES[name], unreachable, notes))
        for name, primitive in found.items()
    )
    return {"_private_parameters": mlir.LoweringParameters(override_lowering_rules=rules)}


def _primitives(jaxpr: Any) -> Iterator[Any]:
    """The primitives of a program, those of nested programs too."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield equation.primitive
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(getattr(inner, "jaxpr", inner), "eqns"):
                    yield from _primitives(inner)


def never_returns(function: Callable[..., Any]) -> bool:
    """Whether every path through a Python function raises."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and not any(
        instruction.opname.startswith(("RETURN_", "YIELD_"))
        for instruction in dis.get_instructions(code)
    )


def _without_debugging(
    _: set[Any], notes: list[str], context: Any, *operands: Any, **parameters: Any
) -> list[Any]:
    if context.tokens_in.effects():
        raise ImportFailedError(
            "an ordered jax.debug call has no place in a compiled program; "
            "one without ordered=True would be left out"
        )
    _add_note(notes, "calls of jax.debug are left out")
    return []


def _call(
    unreachable: set[Any], notes: list[str], context: Any, *operands: Any, **parameters: Any
) -> list[Any]:
    """A call of a function that never returns, or of one that reads its results."""
    function = getattr(parameters["callback"], "callback_func", parameters["callback"])
    raises = never_returns(function)
    if not raises and unreachable.isdisjoint(operands):
        name = getattr(function, "__qualname__", type(function).__name__)
        raise ImportFailedError(
            f"calls the Python function {name}, which a compiled program cannot; "
            "JAX operations, or a function that only raises, would be accepted"
        )
    if raises:
        _add_note(notes, "checks that raise in Python give NaN or the largest integer")
    results = [_invalid(aval.shape, aval.dtype) for aval in context.avals_out]
    unreachable.update(results)
    return results


def _invalid(shape: tuple[int, ...], dtype: Any) -> Any:
    """A constant of NaN, or of the largest number of an integer type."""
    import jax.numpy as jnp
    from jax.interpreters import mlir

    if jnp.issubdtype(dtype, jnp.inexact):
        value: Any = jnp.nan
    else:
        value = True if dtype == np.bool_ else jnp.iinfo(dtype).max
    return mlir.ir_constant(np.full(shape, value, dtype))


def _add_note(notes: list[str], note: str) -> None:
    if note not in notes:
        notes.append(note)


_RULES: dict[str, Callable[..., list[Any]]] = {
    "debug_callback": _without_debugging,
    "debug_print": _without_debugging,
    "io_callback": _call,
    "pure_callback": _call,
}
"""Lowering rules by the name of JAX's primitive."""
