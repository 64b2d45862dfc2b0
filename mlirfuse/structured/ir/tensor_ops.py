"""Reshapes, slices and pads of tensors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.structured.ir.values import block_of, users

RESHAPES = frozenset({"tensor.expand_shape", "tensor.collapse_shape"})


def reassociation(op: ir.Operation) -> tuple[tuple[int, ...], ...]:
    """Groups of dimensions of the expanded shape, one per dimension of the collapsed shape."""
    return tuple(tuple(i.value for i in group) for group in op.attributes["reassociation"])


def wide_dims(groups: Sequence[Sequence[int]], sizes: Sequence[int | None]) -> list[int]:
    """The first dimension of several elements of each group of them, else the last one."""
    return [next((d for d in group if sizes[d] != 1), group[-1]) for group in groups]


def merges_units(groups: Sequence[Sequence[int]], sizes: Sequence[int | None]) -> bool:
    """Whether each group of dimensions has one of several elements at most."""
    return all(sum(sizes[d] != 1 for d in group) <= 1 for group in groups)


def users_through_reshapes(value: ir.Value) -> list[ir.Operation]:
    """The users of a tensor and of its reshapes, these left out."""
    found = users(value)
    for user in found:
        if user.name in RESHAPES:
            found += users(user.results[0])
    return [user for user in found if user.name not in RESHAPES]


def static_slice(op: ir.Operation) -> tuple[tuple[int, int | None], ...] | None:
    """Static offset and size along each dimension of the source; None for a dynamic size.

    Returns:
      None for any op but `tensor.extract_slice`, for strides other than one and for dynamic
      offsets. The result may drop dimensions of size one.
    """
    if op.name != "tensor.extract_slice" or not has_unit_strides(op):
        return None
    bounds = _static_bounds(op)
    return None if bounds is None else tuple(zip(*bounds, strict=True))


@dataclasses.dataclass(frozen=True, slots=True)
class SliceParams:
    """Parameters of a `tensor.extract_slice` or `tensor.insert_slice`.

    Attributes:
      boxes: offset, size and stride along each dimension: a number, or the value that holds it.
    """

    boxes: tuple[tuple[int | ir.Value, int | ir.Value, int | ir.Value], ...]

    @property
    def dynamic_sizes(self) -> list[ir.Value]:
        """The dynamic sizes, in order."""
        return [size for _, size, _ in self.boxes if isinstance(size, ir.Value)]

    @property
    def static_sizes(self) -> list[int | None]:
        """The size along each dimension; None for a dynamic one."""
        return [None if isinstance(size, ir.Value) else size for _, size, _ in self.boxes]

    def is_whole(self, dimension: int, size: int | None) -> bool:
        """Whether the slice certainly covers all of a dimension of that size."""
        return size is not None and self.boxes[dimension] == (0, size, 1)


def slice_params(op: ir.Operation) -> SliceParams:
    """Offsets, sizes and strides of a `tensor.extract_slice` or `tensor.insert_slice`."""
    dynamic = ir.ShapedType.get_dynamic_size()
    given = iter(list(op.operands)[2 if op.name == "tensor.insert_slice" else 1 :])
    columns = [
        [next(given) if n == dynamic else n for n in op.attributes[f"static_{name}"]]
        for name in ("offsets", "sizes", "strides")
    ]
    return SliceParams(tuple(zip(*columns, strict=True)))


def static_insert(op: ir.Operation) -> tuple[tuple[int, ...], tuple[int | None, ...]] | None:
    """Static offsets and sizes of a `tensor.insert_slice`; None for a dynamic size.

    Returns:
      None for any other op and for dynamic offsets.
    """
    return _static_bounds(op) if op.name == "tensor.insert_slice" else None


def _static_bounds(op: ir.Operation) -> tuple[tuple[int, ...], tuple[int | None, ...]] | None:
    """Offsets and sizes of an op on slices, None for a dynamic size; None for dynamic offsets."""
    dynamic = ir.ShapedType.get_dynamic_size()
    offsets = tuple(op.attributes["static_offsets"])
    if dynamic in offsets:
        return None
    return offsets, tuple(None if s == dynamic else s for s in op.attributes["static_sizes"])


def kept_dimensions(sizes: Sequence[int | None], shape: Sequence[int | None]) -> list[int]:
    """The dimensions of a slice of these sizes that its type of that shape has, in order."""
    kept: list[int] = []
    for dim, size in enumerate(sizes):
        if len(kept) < len(shape) and size == shape[len(kept)]:
            kept.append(dim)
    return kept


def split_range(start: int, size: int, sizes: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
    """Start and size of a range of a dimension along each of those that it is split into.

    Args:
      start: the first index.
      size: the number of indices.
      sizes: the sizes of the dimensions in place of the one.

    Returns:
      None where the range is no box of these dimensions.
    """
    if not sizes:
        return ()
    if 0 in sizes:
        return None
    inner = math.prod(sizes[1:])
    if start % inner == 0 and size % inner == 0:
        return ((start // inner, size // inner), *((0, whole) for whole in sizes[1:]))
    if start // inner != (start + size - 1) // inner:
        return None
    rest = split_range(start % inner, size, sizes[1:])
    return None if rest is None else ((start // inner, 1), *rest)


def has_unit_strides(op: ir.Operation) -> bool:
    """Whether a `tensor.extract_slice` or `tensor.insert_slice` has unit strides."""
    return all(stride == 1 for stride in op.attributes["static_strides"])


def padding_value(op: ir.Operation) -> ir.Value | None:
    """The value that a `tensor.pad` pads with; None when it depends on the position."""
    block = op.regions[0].blocks[0]
    value: ir.Value = block.operations[len(block.operations) - 1].operation.operands[0]
    return value if block_of(value) != block else None


def padding_amounts(op: ir.Operation) -> tuple[tuple[int, int], ...] | None:
    """Padding before and after each dimension of a `tensor.pad`; None if dynamic or negative."""
    low, high = (list(op.attributes[name]) for name in ("static_low", "static_high"))
    if any(amount < 0 for amount in (*low, *high)):
        return None
    return tuple(zip(low, high, strict=True))
