"""The role of a kernel: the kind of op that decides how its iterations are distributed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from iree.compiler import ir

from mlirfuse.structured.ir import ops

CONTRACTION = "contraction"
OPAQUE = "opaque"
REDUCTION = "reduction"
GATHER = "gather"
ELEMENTWISE = "elementwise"
MOVEMENT = "movement"

_ORDER = (CONTRACTION, OPAQUE, REDUCTION, GATHER, ELEMENTWISE, MOVEMENT)
"""The role of a kernel with several ops is the first one that an op of it has."""

_REDUCTIONS = ("linalg.softmax", "linalg.reduce", "linalg.pooling_")
_MOVEMENTS = ("linalg.copy", "linalg.transpose", "linalg.broadcast", "linalg.pack", "linalg.unpack")
_MOVING_EXTENSIONS = ("gather", "map_store", "map_load", "pack", "unpack", "im2col")
_FREE = frozenset({"linalg.yield", "linalg.index", "arith.constant"})


def role_of(members: Iterable[ir.Operation]) -> str:
    """The role of a kernel that computes these ops."""
    return role_of_all(map(_role, members))


def role_of_all(roles: Iterable[str]) -> str:
    """The role of a kernel whose parts have these roles."""
    found = {*roles}
    return next((role for role in _ORDER if role in found), MOVEMENT)


def moves_axes(op: ir.Operation) -> bool:
    """Whether an elementwise op reads a tensor of all its loops in another order than it writes."""
    if not ops.is_elementwise(op):
        return False
    maps, count = ops.indexing_maps(op), ops.num_inputs(op)
    pairs = itertools.product(maps[:count], maps[count:])
    return any(r and w and r != w and len(r) == len(w) and set(r) == set(w) for r, w in pairs)


def _role(op: ir.Operation) -> str:
    if "attention" in op.name or "conv_" in op.name or ops.is_contraction(op):
        return CONTRACTION
    if op.name.startswith(_REDUCTIONS):
        return REDUCTION
    if op.name.startswith("iree_linalg_ext."):
        return MOVEMENT if op.name.endswith(_MOVING_EXTENSIONS) else OPAQUE
    if op.name.startswith(_MOVEMENTS) or not op.name.startswith("linalg."):
        return MOVEMENT
    if ops.is_generic(op):
        if "reduction" in ops.iterator_types(op):
            factors = set(ops.inputs(op))  # a sum of squares is none
            return CONTRACTION if len(factors) > 1 and ops.multiplies_and_adds(op) else REDUCTION
        names = set(ops.scalar_names(op))
        if "tensor.extract" in names:
            return GATHER
        return ELEMENTWISE if names - _FREE else MOVEMENT
    return ELEMENTWISE
