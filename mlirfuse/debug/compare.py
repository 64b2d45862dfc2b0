"""Errors between the results of two programs, and their tolerances."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mlirfuse.core import Numerics, Report
from mlirfuse.plugins import registry
from mlirfuse.runtime.arrays import dtype_name, numpy_dtype, numpy_of
from mlirfuse.runtime.inputs import Array

TOLERANCES: dict[Numerics, dict[str, float]] = {
    Numerics.EXACT: {"f64": 1e-5, "f32": 1e-5, "f16": 4e-3, "bf16": 3e-2},
    Numerics.REASSOCIATING: {"f64": 2e-5, "f32": 2e-5, "f16": 8e-3, "bf16": 5e-2},
    Numerics.PRECISION_CHANGING: {"f64": 1e-3, "f32": 1e-3, "f16": 2e-2, "bf16": 1e-1},
}
"""Numerics class of the rewrites -> element type of the result -> tolerance, relative to the
largest magnitude of the result. f32: about 80 roundings of 1.2e-7, since IREE's tiling changes the
order of accumulation even without fusion; f16 and bf16: four roundings; f64 is computed in f32,
IREE's default. Results of other types must be equal."""

MAX_RATIO_TO_UNFUSED = 4.0
"""Allowed ratio of the fused program's error against float64 to the unfused program's: where that
one loses digits to cancellation, so does every other order of the same operations."""

HUGE = 1e30
"""Smallest magnitude that counts as a mask's stand-in for infinity instead of a result's scale."""


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One result of a program, compared.

    Attributes:
      name: name of the result.
      dtype: its element type.
      against: the reference: `float64`, `unfused`, or the framework.
      max_error: largest difference, relative to the largest magnitude of the result; infinite where
        shapes, NaNs or infinities differ.
      norm_error: 2-norm of the differences, relative to that of the result.
      unfused_error: `max_error` of the unfused program; None without a float64 reference.
      allowed: largest allowed error.
    """

    name: str
    dtype: str
    against: str
    max_error: float
    norm_error: float
    unfused_error: float | None
    allowed: float

    @property
    def ok(self) -> bool:
        """Whether both errors are allowed."""
        return max(self.max_error, self.norm_error) <= self.allowed

    def __str__(self) -> str:
        """One line."""
        unfused = "" if self.unfused_error is None else f", unfused {self.unfused_error:.1e}"
        return (
            f"{self.name} ({self.dtype}): max error {self.max_error:.1e}, norm error"
            f" {self.norm_error:.1e} against {self.against}{unfused}; allowed {self.allowed:.1e}:"
            f" {'ok' if self.ok else 'DIFFERS'}"
        )


def loosest(report: Report) -> Numerics:
    """The loosest numerics class of the passes that rewrote something."""
    order = list(Numerics)
    with registry.scope(report.options["load_pass"]):
        passes = registry.passes()
    applied = [passes[d.pass_name].numerics for d in report.decisions if d.taken]
    return max(applied, key=order.index, default=Numerics.EXACT)


def compare(
    fused: Sequence[Array],
    unfused: Sequence[Array],
    reference: Sequence[Array] | None,
    *,
    numerics: Numerics,
    tolerance: float | None = None,
) -> list[Difference]:
    """Compares results in order.

    Args:
      fused: results of the program under test.
      unfused: results of the program without our passes.
      reference: results in float64; None if there are none.
      numerics: numerics class of the rewrites, for the tolerance.
      tolerance: tolerance instead of that of `TOLERANCES`; None for that one.
    """
    found = []
    for index, (ours, theirs) in enumerate(zip(fused, unfused, strict=True)):
        exact = theirs if reference is None else reference[index]
        dtype = dtype_name(ours)
        largest, norm = errors(ours, exact)
        unfused_error = None if reference is None else errors(theirs, exact)[0]
        allowed = _allowed(numerics, dtype, tolerance)
        if unfused_error is not None and np.isfinite(unfused_error):
            allowed = max(allowed, MAX_RATIO_TO_UNFUSED * unfused_error)
        against = "unfused" if reference is None else "float64"
        found.append(
            Difference(f"result {index}", dtype, against, largest, norm, unfused_error, allowed)
        )
    return found


def with_framework(
    ours: Sequence[Array],
    dtypes: Sequence[str],
    theirs: Sequence[Any],
    *,
    framework: str,
    demoted: bool,
    tolerance: float | None,
) -> list[Difference]:
    """Compares results with the framework's; another count or element type is an infinite error.

    Args:
      ours: results of the program.
      dtypes: their element types as the program states them.
      theirs: results of the framework, arrays of any kind.
      framework: `torch`, `jax` or `onnx`.
      demoted: whether f32 stands for f64.
      tolerance: as for `compare`. The default is that of rewrites that change precision: frameworks
        accumulate in other orders and types.
    """
    if len(ours) != len(theirs):
        name = f"{len(ours)} results for {len(theirs)}"
        return [Difference(name, "-", framework, np.inf, np.inf, None, 0.0)]
    found = []
    for index, (result, dtype, other) in enumerate(zip(ours, dtypes, theirs, strict=True)):
        wanted = np.asarray(numpy_of(other))
        kind = dtype_name(wanted)
        same = dtype == (kind.replace("f64", "f32") if demoted else kind)
        got = result if result.dtype == wanted.dtype else result.view(numpy_dtype(dtype))
        errors_found = errors(got, wanted) if same or demoted else (np.inf, np.inf)
        name = f"result {index}" if same else f"result {index}, {kind} in {framework}"
        found.append(
            Difference(
                name,
                dtype,
                framework,
                *errors_found,
                None,
                _allowed(Numerics.PRECISION_CHANGING, dtype, tolerance),
            )
        )
    return found


def _allowed(numerics: Numerics, dtype: str, tolerance: float | None) -> float:
    """The allowed error of a result; a complex one has that of its parts."""
    if tolerance is not None:
        return tolerance
    part = dtype.removeprefix("complex<").removesuffix(">")
    return TOLERANCES[numerics].get(part, 0.0)


def errors(got: Array, wanted: Array) -> tuple[float, float]:
    """The largest and the 2-norm error, each relative to the wanted values."""
    if got.shape != wanted.shape:
        return np.inf, np.inf
    if np.iscomplexobj(wanted):
        got, wanted = (np.stack([array.real, array.imag]) for array in (got, wanted))
    left, right = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(right)
    special = np.array_equal(left[~finite], right[~finite], equal_nan=True)
    if not special or not np.isfinite(left[finite]).all():
        return np.inf, np.inf
    left, right = left[finite], right[finite]
    with np.errstate(all="ignore"):
        huge = np.abs(right) >= HUGE
        far = _ratio(np.abs(left - right)[huge], np.abs(right)[huge])
        left, right = left[~huge], right[~huge]
        near = _ratio(_largest(np.abs(left - right)), _largest(np.abs(right)))
        norm = _ratio(np.linalg.norm(left - right), np.linalg.norm(right))
    return max(_largest(far), float(near)), float(norm)


def scale(values: Array) -> float:
    """The scale of relative errors: the largest magnitude, or 1 where there is none."""
    wide = np.abs(values.astype(np.float64))
    return _largest(wide[np.isfinite(wide) & (wide < HUGE)]) or 1.0


def _largest(values: Any) -> float:
    return float(np.max(values, initial=0.0))


def _ratio(error: Any, scale: Any) -> Any:
    """The error over the scale; where the scale is zero, the error itself."""
    return np.where(np.asarray(scale) > 0.0, error / np.where(scale == 0.0, 1.0, scale), error)


def worst(differences: Iterable[Difference]) -> Difference | None:
    """The difference with the largest error of those beyond tolerance; None if there is none."""
    wrong = [d for d in differences if not d.ok]
    return max(wrong, key=lambda d: max(d.max_error, d.norm_error), default=None)
