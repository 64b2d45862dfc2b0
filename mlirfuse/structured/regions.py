"""Guards that several passes share."""

from __future__ import annotations

from mlirfuse.core import Match, NoMatch, Reason
from mlirfuse.structured import ops


def legal_float(match: Match) -> NoMatch | None:
    """Refuses a group with tensors that are not f16, bf16 or f32."""
    for op in match.ops:
        for value in (*op.operands, *op.results):
            if not ops.is_float(value):
                return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(value))
    return None
