"""Types of values: shape, element type, size in memory."""

from __future__ import annotations

import functools
import math

from iree.compiler import ir

_FLOATS = frozenset({"f16", "bf16", "f32"})

MAX_FINITE = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38}
"""Largest finite number of each floating-point type; its negative is the lowest."""

ASSUMED_DYNAMIC_SIZE = 128
"""Size assumed for a dynamic dimension where the cost model needs a number."""


def ranked(value: ir.Value) -> ir.RankedTensorType | None:
    """The value's ranked tensor type; None for any other type."""
    return value.type if isinstance(value.type, ir.RankedTensorType) else None


@functools.cache
def _decode_type(kind: ir.Type) -> tuple[tuple[int | None, ...], str]:
    """Sizes and element type of a ranked tensor type; no sizes for any other type."""
    if not isinstance(kind, ir.RankedTensorType):
        return (), str(kind)
    sizes = tuple(
        None if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank)
    )
    return sizes, str(kind.element_type)


def shape(value: ir.Value) -> tuple[int | None, ...]:
    """Sizes of a ranked tensor, None for a dynamic one; empty for any other type."""
    return _decode_type(value.type)[0]


def element_type(value: ir.Value) -> str:
    """Element type in MLIR's spelling; the type itself if it is no ranked tensor."""
    return _decode_type(value.type)[1]


@functools.cache
def type_shape(kind: ir.Type) -> tuple[int, ...]:
    """Sizes of a static ranked tensor type."""
    return tuple(ir.RankedTensorType(kind).shape)


def type_element(kind: ir.Type) -> str:
    """Element type of a ranked tensor type in MLIR's spelling; the type itself for any other."""
    return _decode_type(kind)[1]


def is_float(value: ir.Value) -> bool:
    """Whether the elements are f16, bf16 or f32, the floating-point types that passes accept."""
    return element_type(value) in _FLOATS


_WIDTHS = {"index": 64, "i1": 8}


def element_bits(value: ir.Value) -> int:
    """Size of one element in memory, in bits."""
    return _bits(element_type(value))


@functools.cache
def _bits(name: str) -> int:
    if name in _WIDTHS:
        return _WIDTHS[name]
    digits = "".join(c for c in name.removeprefix("bf") if c.isdigit())
    return int(digits) if digits else 32


def num_elements(value: ir.Value, dynamic_size: int = 1) -> int:
    """Number of elements, with `dynamic_size` for each dynamic dimension."""
    return _elements(value.type, dynamic_size)


@functools.cache
def _elements(kind: ir.Type, dynamic_size: int) -> int:
    return math.prod(dynamic_size if s is None else s for s in _decode_type(kind)[0])


def num_bytes(value: ir.Value, dynamic_size: int = 1) -> int:
    """Size of the tensor in memory, in bytes, with `dynamic_size` for each dynamic dimension."""
    return _bytes(value.type, dynamic_size)


def type_bytes(kind: ir.Type) -> int | None:
    """Size of a tensor of a type, in bytes; None where a dimension is dynamic."""
    return None if None in _decode_type(kind)[0] else _bytes(kind, 1)


@functools.cache
def _bytes(kind: ir.Type, dynamic_size: int) -> int:
    return (_elements(kind, dynamic_size) * _bits(_decode_type(kind)[1]) + 7) // 8


def clear_caches() -> None:
    """Drops the decoded types, which keep their context alive."""
    _decode_type.cache_clear()
    type_shape.cache_clear()
    _elements.cache_clear()
    _bytes.cache_clear()
