"""The functions of `jax.numpy`, `jax.lax`, `jax.nn` and `jax.scipy.special` on arrays of each type.

A group is one function, e.g. `numpy.add`; `x64.numpy.add` is the same one on types of 64 bits. A
case is one form of call with arguments of one element type that JAX accepts for it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import types
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from benchmarks.conformance import (
    jax_lax_forms,
    jax_nn_forms,
    jax_numpy_forms,
    jax_programs,
)
from benchmarks.conformance.jax_arguments import Array
from benchmarks.conformance.jax_forms import Form, joined
from benchmarks.conformance.suite import Case, NotExportedError, Program

MODULES = (
    "numpy",
    "numpy.linalg",
    "numpy.fft",
    "lax",
    "lax.linalg",
    "nn",
    "scipy.special",
)
"""Modules of JAX that are walked for functions."""

DTYPES = ("float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool", "complex64")

WIDE_DTYPES = ("float64", "int64", "complex128")

WIDE_MODULES = ("numpy", "lax")
"""Modules whose functions are called with types of 64 bits too."""

TOLERANCES = {
    "float64": (1e-9, 1e-10),
    "complex128": (1e-9, 1e-10),
    "float32": (2e-4, 2e-5),
    "complex64": (2e-4, 2e-5),
    "float16": (1e-2, 4e-3),
    "bfloat16": (5e-2, 3e-2),
}
"""Relative error allowed, and absolute error relative to the largest element, up to 100. The order
of sums and the polynomials of transcendental functions are free."""

FORMS = joined((jax_numpy_forms.FORMS, jax_lax_forms.FORMS, jax_nn_forms.FORMS, jax_programs.FORMS))


def public_functions() -> list[str]:
    """Names of all public functions of the modules."""
    found = []
    for name in MODULES:
        module = importlib.import_module(f"jax.{name}")
        for attribute in sorted(dir(module)):
            value = getattr(module, attribute)
            if attribute.startswith("_") or isinstance(value, type | types.ModuleType):
                continue
            if callable(value):
                found.append(f"{name}.{attribute}")
    return found


def _function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.rpartition(".")
    if module == "programs":
        return jax_programs.PROGRAMS[attribute]
    found: Callable[..., Any] = getattr(importlib.import_module(f"jax.{module}"), attribute)
    return found


def _is_array(value: Any) -> bool:
    return isinstance(value, Array)


class JaxFunctions:
    """JAX's functions, with JAX on the CPU as the reference."""

    name = "jax"
    merges = True

    def groups(self) -> Sequence[str]:
        """Functions with cases, in the order of the tables."""
        wide = [f"x64.{name}" for name in FORMS if name.rpartition(".")[0] in WIDE_MODULES]
        return [*FORMS, *wide]

    def cases(self, group: str) -> Sequence[Case]:
        """The cases of a function: each form with each element type that JAX takes for it."""
        name = group.removeprefix("x64.")
        wide = name != group
        with jax.enable_x64(wide), jax.default_device(jax.devices("cpu")[0]):
            calls = [
                _call(f"{group}/{dtype}/{index}", _function(name), form, dtype)
                for dtype in (WIDE_DTYPES if wide else DTYPES)
                for index, form in enumerate(FORMS[name])
                if form.dtypes is None or dtype in form.dtypes
            ]
            return _evaluated([call for call in calls if call.accepted()])

    def program(self, cases: Sequence[Case]) -> Program:
        """One function of a tuple of arguments for each case."""
        arguments = tuple(case.arguments for case in cases)
        flat = tuple(np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(arguments))
        merged = _merged(cases)
        if not _wide(cases):
            return Program(merged, arguments, flat)
        try:
            with jax.enable_x64(True):
                exported = jax.export.export(_jitted(merged), platforms=["cpu"])(*arguments)
        except Exception as error:
            raise NotExportedError(str(error)) from error
        return Program(exported, None, flat)

    def stock(self, cases: Sequence[Case], folder: Path) -> tuple[Path, str]:
        """StableHLO as JAX lowers it."""
        arguments = tuple(case.arguments for case in cases)
        with jax.enable_x64(_wide(cases)):
            module = _jitted(_merged(cases)).lower(*arguments).compiler_ir("stablehlo")
        path = folder / "stock.mlir"
        path.write_text(module.operation.get_asm(print_generic_op_form=True))
        return path, "stablehlo"


def _wide(cases: Sequence[Case]) -> bool:
    return any(case.name.startswith("x64.") for case in cases)


def _jitted(function: Callable[..., Any]) -> Any:
    # Unused arguments are kept, as mlirfuse does.
    return jax.jit(function, keep_unused=True)


def _merged(cases: Sequence[Case]) -> Callable[..., tuple[Any, ...]]:
    def merged(*groups: tuple[Any, ...]) -> tuple[Any, ...]:
        results = [
            case.call(*arrays) if case.call else ()
            for case, arrays in zip(cases, groups, strict=True)
        ]
        return tuple(jax.tree_util.tree_leaves(results))

    return merged


_REFUSALS = (TypeError, ValueError, NotImplementedError, IndexError, OverflowError)
"""Errors by which JAX refuses arguments of an element type."""


@dataclasses.dataclass(frozen=True)
class _Call:
    """A function of arrays, and its arguments.

    Attributes:
      name: of the case.
      function: takes the arrays, and fills in the static arguments.
      arrays: arguments.
    """

    name: str
    function: Callable[..., Any]
    arrays: tuple[Any, ...]

    def accepted(self) -> bool:
        """Whether JAX traces it."""
        try:
            jax.eval_shape(self.function, *self.arrays)
        except _REFUSALS:
            return False
        return True

    def wide(self) -> _Call | None:
        """The call with float32 in place of half precision, as a reference; None without any."""
        if not any(array.dtype in _HALF for array in self.arrays):
            return None
        arrays = tuple(x.astype(np.float32) if x.dtype in _HALF else x for x in self.arrays)
        call = dataclasses.replace(self, arrays=arrays)
        return call if call.accepted() else None


_HALF = (np.dtype("float16"), np.dtype(jnp.bfloat16))


def _call(name: str, function: Callable[..., Any], form: Form, dtype: str) -> _Call:
    leaves, tree = jax.tree_util.tree_flatten(
        (form.arguments, dict(form.keywords)), is_leaf=_is_array
    )
    arrays = tuple(
        leaf.values(dtype, f"{name}/{index}")
        for index, leaf in enumerate(leaves)
        if _is_array(leaf)
    )

    def call(*given: Any) -> Any:
        remaining = iter(given)
        filled = [next(remaining) if _is_array(leaf) else leaf for leaf in leaves]
        arguments, keywords = jax.tree_util.tree_unflatten(tree, filled)
        target = function if form.call is None else functools.partial(form.call, function)
        return target(*arguments, **keywords)

    return _Call(name, call, arrays)


_REFERENCE = {"xla_allow_excess_precision": False, "xla_backend_optimization_level": 0}
"""Options of XLA: each operation rounds to its type."""


def _results(calls: Sequence[_Call]) -> list[tuple[Any, ...] | None]:
    """Flat results of each call; None where JAX cannot compile it. One program where it can."""

    def together(groups: tuple[tuple[Any, ...], ...]) -> Any:
        return [
            tuple(jax.tree_util.tree_leaves(call.function(*arrays)))
            for call, arrays in zip(calls, groups, strict=True)
        ]

    arguments = tuple(call.arrays for call in calls)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(jax.jit(together, compiler_options=_REFERENCE)(arguments))
        except (*_REFUSALS, jax.errors.JaxRuntimeError):
            if len(calls) == 1:
                return [None]
    return [result for call in calls for result in _results([call])]


def _evaluated(calls: Sequence[_Call]) -> list[Case]:
    """The cases of calls that JAX accepts."""
    references = [call.wide() for call in calls]
    evaluated = iter(_results([*calls, *(call for call in references if call)]))
    results = [next(evaluated) for _ in calls]
    exact = [next(evaluated) if call else None for call in references]
    return [
        Case(
            name=call.name,
            arguments=call.arrays,
            expected=result,
            rtol=TOLERANCES.get(_dtype(call), TOLERANCES["float32"])[0],
            atol=_absolute(_dtype(call), result, reference or ()),
            call=call.function,
        )
        for call, result, reference in zip(calls, results, exact, strict=True)
        if result is not None
    ]


def _dtype(call: _Call) -> str:
    return call.name.split("/")[1]


def _absolute(dtype: str, results: Sequence[Any], exact: Sequence[Any]) -> float:
    """The absolute error allowed: at least JAX's own distance from float32, twice."""
    _, atol = TOLERANCES.get(dtype, TOLERANCES["float32"])
    atol *= min(100.0, max([1.0, *(_largest(result) for result in results)]))
    for ours, theirs in zip(results, exact, strict=False):
        if ours.shape == theirs.shape and theirs.dtype.kind in "fc":
            with np.errstate(all="ignore"):
                difference = np.asarray(ours).astype(theirs.dtype) - np.asarray(theirs)
            atol = max(atol, 2 * _largest(difference))
    return float(atol)


def _largest(array: Any) -> float:
    """The largest magnitude of the finite floating-point elements; 0 without any."""
    values = np.asarray(array)
    if values.dtype.kind == "V":
        values = values.astype(np.float32)
    if values.dtype.kind not in "fc":
        return 0.0
    magnitudes = np.abs(values[np.isfinite(values)])
    return float(magnitudes.max(initial=0.0))
