"""Forms of calls: a function's arguments, some of them arrays, in tables by the function's name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchmarks.conformance.jax_arguments import Array

ROW, MATRIX, CUBE = (12,), (5, 6), (2, 3, 4)


@dataclasses.dataclass(frozen=True)
class Form:
    """One way to call a function.

    Attributes:
      arguments: positional arguments: `Array`, containers of them, and static values.
      keywords: keyword arguments, static or arrays.
      call: `call(function, *arguments, **keywords)`; None for the plain call.
      dtypes: the only element types of the form; None for all.
    """

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    call: Callable[..., Any] | None = None
    dtypes: tuple[str, ...] | None = None


Table = dict[str, tuple[Form, ...]]

REAL = "float32 float16 bfloat16 int32 int8 uint8 bool float64 int64"

COMPLEX = "complex64 complex128"


def a(*shape: int, kind: str = "normal", dtype: str | None = None) -> Array:
    """An array argument of the case's element type, or of one of its own."""
    return Array(shape, kind, dtype)


def ints(*shape: int, below: int = 3) -> Array:
    """Indices below 2, 3, 4 or 9, of the type int32."""
    return Array(shape, f"index{below}", "int32")


def form(*arguments: Any, **keywords: Any) -> Form:
    """A plain call."""
    return Form(arguments, keywords)


def made(call: Callable[..., Any], *arguments: Any, dtypes: str | None = None) -> Form:
    """A call by a function that takes the function and the arrays."""
    return Form(arguments, {}, call, tuple(dtypes.split()) if dtypes else None)


def of_types(given: Form, dtypes: str) -> Form:
    """The form for some element types alone."""
    return dataclasses.replace(given, dtypes=tuple(dtypes.split()))


def table(module: str, names: str, *forms: Form) -> Table:
    """The same forms for several functions of a module."""
    return {f"{module}.{name}": forms for name in names.split()}


def angles(special: Array, *others: Form) -> tuple[Form, ...]:
    """Forms of `atan2`, which is ambiguous for complex zeros: XLA's own rounding decides there."""
    pair = form(special, special)
    return (of_types(pair, REAL), of_types(form(a(24), a(24)), COMPLEX), *others)


def joined(tables: Iterable[Table]) -> Table:
    """One table of several; a name may be in one of them only."""
    found: Table = {}
    for each in tables:
        twice = found.keys() & each.keys()
        assert not twice, f"in two tables: {sorted(twice)}"
        found |= each
    return found
