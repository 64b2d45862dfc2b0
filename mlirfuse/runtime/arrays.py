"""Arrays of numpy, PyTorch and JAX: kinds, element types, checks and conversions.

torch and jax are never imported here: a caller that passes their arrays has imported them.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mlirfuse.core import CallError
from mlirfuse.support.signature import TensorSpec
from mlirfuse.support.tensor_bytes import bytes_of

ALIGNMENT = 64
"""Bytes to which generated code takes arguments as aligned; iree-runtime copies host memory that is
not."""

_MLIR = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "bool": "i1",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (8, 16, 32, 64)},
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
    "float4_e2m1fn": "f4E2M1FN",
    **{f"{sign}int{n}": f"{sign}i{n}" for sign in ("", "u") for n in (2, 4)},
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}
"""numpy's name of an element type -> MLIR's."""

_NUMPY = {mlir: name for name, mlir in _MLIR.items()} | {"index": "int64"}

STORED = frozenset({"f4E2M1FN", "f8E8M0FNU", "i2", "i4", "ui2", "ui4"})
"""Element types of models that are bytes in their programs, as in numpy."""

Kind = str
"""Package of an array: `numpy`, `torch` or `jax`."""


_kinds: dict[type, Kind | None] = {}
"""Results of `kind_of`, by type."""


def kind_of(value: Any) -> Kind | None:
    """The package of an array; None for scalars and lists."""
    found = type(value)
    if found not in _kinds:
        _kinds[found] = _kind(value)
    return _kinds[found]


def _kind(value: Any) -> Kind | None:
    if (torch := sys.modules.get("torch")) and isinstance(value, torch.Tensor):
        return "torch"
    if (jax := sys.modules.get("jax")) and isinstance(value, jax.Array):
        return "jax"
    return "numpy" if isinstance(value, np.ndarray | np.generic) else None


def common_kind(values: Iterable[Any]) -> Kind:
    """The kind of all arrays among the values; `numpy` when kinds differ or there is no array."""
    kinds = {kind for value in values if (kind := kind_of(value)) is not None}
    return kinds.pop() if len(kinds) == 1 else "numpy"


def dtype_name(value: Any) -> str:
    """The element type of an array in MLIR's spelling."""
    return dtype_spelling(value.dtype)


@functools.cache
def dtype_spelling(dtype: Any) -> str:
    """An element type of numpy or torch in MLIR's spelling."""
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    return _MLIR.get(name, name)


def numpy_dtype(mlir: str) -> np.dtype[Any]:
    """Numpy's element type for MLIR's; signless integers are signed."""
    name = _NUMPY[re.sub(r"^si(?=\d)", "i", mlir)]
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found


def converted(value: Any, spec: TensorSpec, where: str) -> Any:
    """An array as it is, or in the program's narrower type; a scalar or lists as one of numpy.

    Args:
      value: array, scalar or lists.
      spec: of the argument.
      where: name of the argument, for the error.

    Raises:
      CallError: the value cannot become an array.
    """
    kind = kind_of(value)
    if kind is not None:
        return _narrowed(value, spec) if spec.wide and dtype_name(value) == spec.wide else value
    try:
        return np.asarray(value, dtype=numpy_dtype(spec.dtype))
    except (TypeError, ValueError, OverflowError):
        raise CallError(f"{where} is of type {type(value).__name__}; expected {spec}") from None


def _narrowed(array: Any, spec: TensorSpec) -> Any:
    dtype = numpy_dtype(spec.dtype)
    if kind_of(array) == "torch":
        return array.to(getattr(sys.modules["torch"], dtype.name))
    return array.astype(dtype)


def checked(value: Any, spec: TensorSpec, where: str) -> Any:
    """The result of `converted`, once its shape and element type are checked.

    Arguments are those of `converted`.

    Raises:
      CallError: shape or element type are not the spec's.
    """
    value = converted(value, spec, where)
    shape = tuple(value.shape)
    fits = len(shape) == len(spec.shape) and all(
        want is None or want == got for want, got in zip(spec.shape, shape, strict=True)
    )
    if not fits or _signless(dtype_name(value)) != _signless(spec.dtype):
        got = TensorSpec(shape, dtype_name(value))
        raise CallError(f"{where} is {got}; expected {spec}")
    return value


@functools.cache
def _signless(dtype: str) -> str:
    return re.sub(r"^[su](?=i\d)", "", dtype)


def permuted(array: Any, order: Sequence[int]) -> Any:
    """A view of an array with its axes in another order; the array itself where that is empty."""
    if not order:
        return array
    return array.permute(order) if kind_of(array) == "torch" else array.transpose(order)


def numpy_of(array: Any) -> Any:
    """An array of any kind as one of numpy, on the host; numpy has fewer types than torch."""
    if kind_of(array) != "torch":
        return np.asarray(array)
    raw = bytes_of(array).numpy()
    return raw.view(numpy_dtype(dtype_name(array))).reshape(array.shape)


def torch_of(array: Any) -> Any:
    """A tensor that shares the memory of an array; torch has more types than numpy."""
    torch = sys.modules["torch"]
    if not array.flags.writeable:
        array = array.copy()
    dtype = getattr(torch, array.dtype.name)
    return torch.from_numpy(array.reshape(-1).view(np.uint8)).view(dtype).reshape(array.shape)


def copy_result(result: Any, out: Any, where: str) -> Any:
    """Copies a result into an array of the caller, and returns that array.

    Nothing is copied when the result is the array itself: the program wrote it already.

    Args:
      result: an array of any kind, or a scalar.
      out: a writable array of numpy or torch, of the result's shape and element type.
      where: name of the result, for the error.

    Raises:
      CallError: `out` is another kind of array, or does not fit.
    """
    if result is out:
        return out
    kind = kind_of(out)
    if kind not in ("numpy", "torch") or isinstance(out, np.generic):
        raise CallError(
            f"{where}: out is of type {type(out).__name__}; an array of numpy or torch would be"
            " accepted"
        )
    if kind_of(result) is None:
        result = np.asarray(result, out.dtype if kind == "numpy" else None)
    elif result.shape != out.shape or _signless(dtype_name(result)) != _signless(dtype_name(out)):
        got, has = (TensorSpec(tuple(a.shape), dtype_name(a)) for a in (result, out))
        raise CallError(f"{where}: out is {has}; expected {got}")
    if kind == "numpy":
        if not out.flags.writeable:
            raise CallError(f"{where}: out cannot be written; a writable array would be accepted")
        array = numpy_of(result)
        np.copyto(out, array if array.dtype == out.dtype else array.view(out.dtype))
    else:
        tensor = result if kind_of(result) == "torch" else torch_of(np.asarray(result))
        out.detach().copy_(tensor if tensor.dtype == out.dtype else tensor.view(out.dtype))
    return out
