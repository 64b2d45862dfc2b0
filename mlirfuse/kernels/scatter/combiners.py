"""How an update gets into memory: by a store, by an atomic op, or by compare-and-swap.

| combiner | unique indices | others |
| --- | --- | --- |
| replaces the element | store | store |
| sum, and, or, xor, extremes | load, combine, store | atomic |
| others | load, combine, store | compare-and-swap |
"""

from __future__ import annotations

import dataclasses

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.scatters import Scatter

STORE, PLAIN, ATOMIC, SWAP = "store", "plain", "atomic", "compare_and_swap"

ATOMIC_ADD = "tl.atomic_add"

_ATOMICS = {
    "arith.addf": ATOMIC_ADD,
    "arith.addi": ATOMIC_ADD,
    "arith.andi": "tl.atomic_and",
    "arith.ori": "tl.atomic_or",
    "arith.xori": "tl.atomic_xor",
    "arith.maxsi": "tl.atomic_max",
    "arith.minsi": "tl.atomic_min",
    "arith.maxui": "scatters.atomic_max_unsigned",
    "arith.minui": "scatters.atomic_min_unsigned",
    "arith.maximumf": "scatters.atomic_maximum",
    "arith.minimumf": "scatters.atomic_minimum",
}
"""Combiner -> the function that applies it to memory."""

MIN_ATOMIC_BITS = 32
"""Width of the narrowest element with atomic ops: `scatter_fusion` widens narrower ones."""


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """How an update gets into memory.

    Attributes:
      kind: `STORE`, `PLAIN`, `ATOMIC` or `SWAP`.
      function: name of the function of an atomic op; empty elsewhere.
    """

    kind: str
    function: str = ""


def way_of(found: Scatter) -> Way | NoMatch:
    """The way of a scatter's combiner."""
    combiner = found.combiner
    if combiner == "":
        return Way(STORE)
    if found.unique:
        return Way(PLAIN)
    if ops.element_bits(found.destination) < MIN_ATOMIC_BITS:
        kind = ops.element_type(found.destination)
        return NoMatch(Reason.ELEMENT_TYPE, f"no atomic ops on {kind}")
    if combiner in _ATOMICS:
        return Way(ATOMIC, _ATOMICS[combiner])
    return Way(SWAP)
