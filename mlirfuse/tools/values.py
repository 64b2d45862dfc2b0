"""Tensors on the command line: `@file.npy`, `2x3xf32=0`, `4xi64=1,2,3,4`, `2x3xf32` at random."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from mlirfuse.core import MlirfuseError, UsageError, nearest
from mlirfuse.runtime.inputs import random_array
from mlirfuse.support.signature import TensorSpec

Array = np.ndarray[Any, np.dtype[Any]]

PRINTED_ELEMENTS = 1024
"""Elements of a result that are printed; the rest of a longer one is left out."""

_DTYPES: dict[str, str] = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    **{
        f"{'u' * unsigned}i{n}": f"{'u' * unsigned}int{n}"
        for unsigned in (0, 1)
        for n in (8, 16, 32, 64)
    },
}
"""Element type in MLIR's spelling -> numpy's name."""

_TENSOR = re.compile(r"(?P<shape>(?:\d+x)*)(?P<dtype>[a-z]+\d+)")
_FORMS = "@file.npy, 2x3xf32 (random), 2x3xf32=0 or 4xi64=1,2,3,4"


def parse_spec(text: str) -> TensorSpec:
    """Reads a shape and an element type, `4x128xi64`.

    Raises:
      UsageError: it is neither, or an element type that we do not know.
    """
    found = _TENSOR.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"'{text}' is not a tensor; written like 4x128xi64")
    if found["dtype"] not in _DTYPES:
        raise UsageError(
            f"unknown element type '{found['dtype']}'{nearest(found['dtype'], _DTYPES)}"
        )
    return TensorSpec(tuple(int(n) for n in found["shape"].split("x")[:-1]), found["dtype"])


def dtype_of(name: str) -> np.dtype[Any]:
    """Returns numpy's type for an element type in MLIR's spelling.

    Raises:
      UsageError: `bf16` without the package that brings it.
    """
    if name != "bf16":
        return np.dtype(_DTYPES[name])
    try:
        import ml_dtypes
    except ImportError:
        raise UsageError("bf16 needs the package ml_dtypes: pip install ml_dtypes") from None
    bf16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bf16


def spec_of(array: Array) -> str:
    """The shape and element type of an array in MLIR's spelling."""
    names = {numpy: mlir for mlir, numpy in _DTYPES.items()}
    return str(TensorSpec(array.shape, names.get(array.dtype.name, array.dtype.name)))


def is_file(text: str) -> bool:
    """Whether a value names a file and does not spell a tensor."""
    return text.startswith("@") or text.endswith(".npy")


def read(text: str, *, seed: int = 0, index: int = 0) -> Array:
    """Returns the array that a value of `--input` or `--expected` stands for.

    Args:
      text: one of the forms of the module's docstring.
      seed: of random values.
      index: position of the argument; each has random values of its own.

    Raises:
      UsageError: a form that is none of these, or a file that cannot be read.
    """
    if is_file(text):
        return _load(text.removeprefix("@"))
    head, equals, values = text.partition("=")
    try:
        spec = parse_spec(head)
    except UsageError as error:
        raise UsageError(f"{error}; accepted: {_FORMS}") from None
    shape = tuple(n for n in spec.shape if n is not None)
    if not equals:
        return random_array(shape, dtype_of(spec.dtype), seed=seed, index=index)
    return _filled(text, shape, dtype_of(spec.dtype), values)


def _load(name: str) -> Array:
    try:
        loaded = np.load(name, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise UsageError(f"{name}: not a numpy file (.npy) of numbers: {error}") from error
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise UsageError(f"{name}: an archive of arrays; give one .npy file for each argument")
    return loaded


def _filled(text: str, shape: tuple[int, ...], dtype: np.dtype[Any], values: str) -> Array:
    words = re.sub(r"[\[\],]", " ", values).split()
    count = math.prod(shape)
    if len(words) not in (1, count):
        raise UsageError(f"'{text}' has {len(words)} values; accepted: 1, or {count} for its shape")
    try:
        if dtype == np.bool_:
            numbers = np.array([_truth(word) for word in words])
        elif np.issubdtype(dtype, np.integer):
            numbers = np.array([int(word) for word in words], dtype)
        else:
            numbers = np.array([float(word) for word in words]).astype(dtype)
    except (KeyError, ValueError, OverflowError):
        raise UsageError(
            f"'{text}' has a value that is no {spec_of(np.empty((), dtype))}"
        ) from None
    return np.full(shape, numbers[0]) if len(words) == 1 else numbers.reshape(shape)


def _truth(word: str) -> bool:
    return {"0": False, "false": False, "1": True, "true": True}[word.lower()]


def show(array: Array) -> str:
    """Returns an array in the form that `read` takes, `2x2xf32=[1.0 2.0][3.0 4.0]`.

    Elements past `PRINTED_ELEMENTS` are left out and `...` stands for them.
    """
    row = array.shape[-1] if array.ndim > 1 else max(array.size, 1)
    flat = array.reshape(-1)[:PRINTED_ELEMENTS]
    words = [str(int(x)) if array.dtype == np.bool_ else str(x) for x in flat]
    rows = [" ".join(words[i : i + row]) for i in range(0, len(words), max(row, 1))]
    body = "".join(f"[{r}]" for r in rows) if array.ndim > 1 else "".join(rows)
    return f"{spec_of(array)}={body}{'...' if array.size > flat.size else ''}"


def compare(name: str, got: Array, expected: Array, *, rtol: float, atol: float) -> None:
    """Compares a result with the expected one; NaN equals NaN.

    Raises:
      MlirfuseError: they differ; the message has the count and the largest error.
    """
    if got.shape != expected.shape:
        raise MlirfuseError(f"{name} is {spec_of(got)}; expected {spec_of(expected)}")
    left, right = got.astype(np.float64), expected.astype(np.float64)
    close = np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return
    with np.errstate(invalid="ignore"):
        error = np.where(close, 0.0, np.abs(left - right))
    error = np.where(np.isnan(error), np.inf, error)
    at = np.unravel_index(int(error.argmax()), error.shape)
    place = "[" + ", ".join(str(int(i)) for i in at) + "]"
    raise MlirfuseError(
        f"{name} differs: {int((~close).sum())} of {close.size} elements beyond rtol={rtol:g},"
        f" atol={atol:g}; most at {place}: {got[at]}, expected {expected[at]}"
    )


def save(path: Path, array: Array) -> None:
    """Writes an array as a numpy file."""
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
