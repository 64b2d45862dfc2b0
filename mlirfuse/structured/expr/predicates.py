"""Predicates of `arith.cmpf` and `arith.cmpi`, as their attributes print."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

Comparison = Callable[[Any, Any], Any]

OEQ, OGT, OGE, OLT, OLE = (f"{value} : i64" for value in range(1, 6))
"""Ordered predicates of `arith.cmpf`: false if an operand is NaN."""

UGT, UGE, ULT, ULE, UNE, UNO = (f"{value} : i64" for value in range(9, 15))
"""Unordered predicates of `arith.cmpf`: true if an operand is NaN, `UNO` only then."""

EQ, NE, SLT, SLE, SGT, SGE = (f"{value} : i64" for value in range(6))
"""Predicates of `arith.cmpi`, those on signed integers."""

ORDERED_INEQUALITIES: Mapping[str, Comparison] = {
    OGT: operator.gt,
    OGE: operator.ge,
    OLT: operator.lt,
    OLE: operator.le,
}

SIGNED: Mapping[str, Comparison] = {
    EQ: operator.eq,
    NE: operator.ne,
    SLT: operator.lt,
    SLE: operator.le,
    SGT: operator.gt,
    SGE: operator.ge,
}

UNORDERED_INEQUALITIES: Mapping[str, Comparison] = {
    UGT: operator.gt,
    UGE: operator.ge,
    ULT: operator.lt,
    ULE: operator.le,
}
"""Their values for operands that are not NaN."""
