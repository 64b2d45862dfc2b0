"""Modules with one scatter, and the same scatter by numpy."""

import dataclasses
import itertools
import math

import numpy as np

BODIES = {
    "replace": [],
    **{
        name: [f"%r = arith.{name} %e, %u : {{t}}"]
        for name in (
            *("addf", "mulf", "maximumf", "minimumf", "maxnumf"),
            *("addi", "muli", "maxsi", "minsi", "maxui", "minui", "andi", "ori", "xori"),
        )
    },
    "difference": ["%r = arith.subf %e, %u : {t}"],
    "scaled": [
        *("%h = arith.constant 0.5 : {t}", "%v = arith.mulf %u, %h : {t}"),
        "%r = arith.addf %v, %e : {t}",
    ],
    "counted": ["%h = arith.constant 1.0 : {t}", "%r = arith.addf %e, %h : {t}"],
    "hypot": [
        *("%p = arith.mulf %e, %e : {t}", "%q = arith.mulf %u, %u : {t}"),
        *("%s = arith.addf %p, %q : {t}", "%r = math.sqrt %s : {t}"),
    ],
}
"""Name -> the scalar ops of an update `%u` and an element `%e`; `{t}` is their type."""


def _unsigned(function):
    def applied(e, u):
        kind = np.dtype(e.dtype.name.replace("int", "uint"))
        return function(e.view(kind), u.view(kind)).view(e.dtype)

    return applied


BY_NUMPY = {
    "replace": lambda e, u: u,
    **dict.fromkeys(("addf", "addi"), np.add),
    **dict.fromkeys(("mulf", "muli"), np.multiply),
    **dict.fromkeys(("maximumf", "maxsi"), np.maximum),
    **dict.fromkeys(("minimumf", "minsi"), np.minimum),
    "maxnumf": np.fmax,
    "maxui": _unsigned(np.maximum),
    "minui": _unsigned(np.minimum),
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "difference": np.subtract,
    "scaled": lambda e, u: e + u * 0.5,
    "counted": lambda e, u: e + 1.0,
    "hypot": np.hypot,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A scatter.

    Attributes:
      body: a name of `BODIES`.
      shape: shape of the destination.
      batch: shape of the indices, without coordinates.
      dimensions: for each coordinate the dimension of the destination.
      element: type of the elements.
      index: type of the indices.
      unique: whether the indices are said to be unique.
      masked: whether there is a mask of the windows.
      coordinates: whether the indices have a dimension of the coordinates.
    """

    body: str
    shape: tuple[int, ...]
    batch: tuple[int, ...]
    dimensions: tuple[int, ...] = (0,)
    element: str = "f32"
    index: str = "i64"
    unique: bool = False
    masked: bool = False
    coordinates: bool = True

    @property
    def updates(self) -> tuple[int, ...]:
        """The shape of the updates."""
        return (*self.batch, *self.shape[len(self.dimensions) :])

    @property
    def indices(self) -> tuple[int, ...]:
        """The shape of the indices."""
        return (*self.batch, len(self.dimensions)) if self.coordinates else self.batch


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


def text(case: Case) -> str:
    """The module: updates, indices, a mask if there is one, and the destination as arguments."""
    u, i = tensor(case.updates, case.element), tensor(case.indices, case.index)
    d, m = tensor(case.shape, case.element), tensor(case.batch, "i1")
    lines = [line.format(t=case.element) for line in BODIES[case.body]]
    given = f"%a, %i, %m : {u}, {i}, {m}" if case.masked else f"%a, %i : {u}, {i}"
    return f"""
func.func @main(%a: {u}, %i: {i}, {f"%m: {m}, " if case.masked else ""}%d: {d}) -> {d} {{
  %y = iree_linalg_ext.scatter dimension_map = {list(case.dimensions)}
      unique_indices({str(case.unique).lower()}) ins({given}) outs(%d : {d}) {{
  ^bb0(%u: {case.element}, %e: {case.element}):
    {chr(10).join(lines)}
    iree_linalg_ext.yield {"%r" if lines else "%u"} : {case.element}
  }} -> {d}
  return %y : {d}
}}"""


def expected(case: Case, updates, indices, mask, destination):
    """The scatter by numpy, one window after the other; windows out of bounds are left out."""
    found = destination.copy()
    rows = indices.reshape(-1, len(case.dimensions))
    windows = updates.reshape(len(rows), *case.shape[len(case.dimensions) :])
    kept = np.ones(len(rows), bool) if mask is None else mask.reshape(-1) != 0
    for row, window, keep in zip(rows, windows, kept, strict=True):
        place = [0] * len(row)
        for dim, coordinate in zip(case.dimensions, row, strict=True):
            place[dim] = int(coordinate)
        if keep and all(0 <= p < n for p, n in zip(place, case.shape, strict=False)):
            with np.errstate(all="ignore"):
                combined = BY_NUMPY[case.body](np.asarray(found[tuple(place)]), np.asarray(window))
            found[tuple(place)] = combined
    return found


def draw_indices(case: Case, seed: int, *, repeat: bool, outside: bool):
    """Indices, different ones unless they may repeat, and some of them out of bounds if wanted."""
    rng = np.random.default_rng(seed)
    count = math.prod(case.batch)
    sizes = [case.shape[dim] for dim in case.dimensions]
    low, high = (-2, 3) if outside else (0, 0)
    if repeat:
        columns = [rng.integers(low, size + high, count) for size in sizes]
        rows = np.stack(columns, -1)
    else:
        every = list(itertools.product(*map(range, sizes)))
        rows = np.array(every)[rng.permutation(len(every))[:count]]
    return rows.reshape(case.indices).astype(case.index.replace("i", "int"))
