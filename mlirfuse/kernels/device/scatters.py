"""Atomic ops of scatters that Triton lacks, or whose NaN do not propagate there.

A quiet NaN with the sign of the extreme orders before all numbers as an integer. An element that is
a NaN before the first update stays one: no lane updates it.
"""

import triton
import triton.language as tl


@triton.jit
def atomic_maximum(pointers, values, mask, sem):
    """The maximum of elements in memory and values; a NaN wins."""
    found = tl.load(pointers, mask=mask, other=0)
    bits: tl.constexpr = values.dtype.primitive_bitwidth
    if bits == 32:
        kind: tl.constexpr = tl.int32
        largest: tl.constexpr = 0x7FC00000
    else:
        kind: tl.constexpr = tl.int64
        largest: tl.constexpr = 0x7FF8000000000000
    ordered = values.to(kind, bitcast=True)
    ordered = tl.where(values != values, tl.full(values.shape, largest, kind), ordered)
    mask = mask & (found == found) & ((found > values) == 0)
    tl.atomic_max(pointers, ordered.to(values.dtype, bitcast=True), mask=mask, sem=sem)


@triton.jit
def atomic_minimum(pointers, values, mask, sem):
    """The minimum of elements in memory and values; a NaN wins."""
    found = tl.load(pointers, mask=mask, other=0)
    bits: tl.constexpr = values.dtype.primitive_bitwidth
    if bits == 32:
        kind: tl.constexpr = tl.int32
        least: tl.constexpr = -0x400000
    else:
        kind: tl.constexpr = tl.int64
        least: tl.constexpr = -0x8000000000000
    ordered = values.to(kind, bitcast=True)
    ordered = tl.where(values != values, tl.full(values.shape, least, kind), ordered)
    mask = mask & (found == found) & ((found < values) == 0)
    tl.atomic_min(pointers, ordered.to(values.dtype, bitcast=True), mask=mask, sem=sem)


@triton.jit
def atomic_max_unsigned(pointers, values, mask, sem):
    """The larger of elements in memory and values as unsigned numbers."""
    if values.dtype.primitive_bitwidth == 32:
        kind: tl.constexpr = tl.uint32
    else:
        kind: tl.constexpr = tl.uint64
    pointers = pointers.to(tl.pointer_type(kind), bitcast=True)
    tl.atomic_max(pointers, values.to(kind, bitcast=True), mask=mask, sem=sem)


@triton.jit
def atomic_min_unsigned(pointers, values, mask, sem):
    """The smaller of elements in memory and values as unsigned numbers."""
    if values.dtype.primitive_bitwidth == 32:
        kind: tl.constexpr = tl.uint32
    else:
        kind: tl.constexpr = tl.uint64
    pointers = pointers.to(tl.pointer_type(kind), bitcast=True)
    tl.atomic_min(pointers, values.to(kind, bitcast=True), mask=mask, sem=sem)
