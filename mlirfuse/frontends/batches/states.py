"""Tensors of a batch as the analysis of its samples sees them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from iree.compiler import ir

_DIM = re.compile(r"d(\d+)")


class Dependent(Exception):
    """A sample depends on another one, or the analysis cannot tell that it does not."""


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """A tensor.

    Attributes:
      axis: the dimension of the samples; None where it has none.
      rows: elements of that dimension that one sample has.
      periods: dimension -> the number of elements after which they repeat.
      counted: the dimension whose indices are the elements; None for others.
    """

    axis: int | None = None
    rows: int = 1
    periods: Mapping[int, int] = dataclasses.field(default_factory=dict)
    counted: int | None = None


Access = list[tuple[int | None, frozenset[int]]]
"""For each dimension of an operand: its loop, if its index is one, and the loops in its index."""


def accesses(attribute: ir.Attribute) -> Access:
    """The indices of an operand, by its indexing map."""
    found: Access = []
    for expression in ir.AffineMapAttr(attribute).value.results:
        text = str(expression)
        used = frozenset(map(int, _DIM.findall(text)))
        plain = next(iter(used)) if _DIM.fullmatch(text) else None
        found.append((plain, used))
    return found
