"""Equivalence of structured ops."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from iree.compiler import ir

from mlirfuse.structured.ir import ops


def are_equivalent(
    one: ir.Operation,
    other: ir.Operation,
    outside: Mapping[ir.Value, ir.Value] = MappingProxyType({}),
) -> bool:
    """Whether two structured ops compute the same function of possibly different operands.

    Args:
      one: a structured op.
      other: the op to compare it with.
      outside: for values captured by the body of `one`, the values that `other` captures.
    """
    if ops.indexing_maps(one) != ops.indexing_maps(other):
        return False
    if ops.iterator_types(one) != ops.iterator_types(other):
        return False
    kinds = [ops.element_type(value) for value in (*one.operands, *one.results)]
    if kinds != [ops.element_type(value) for value in (*other.operands, *other.results)]:
        return False
    arguments = zip(ops.body(one).arguments, ops.body(other).arguments, strict=True)
    known = {**outside, **dict(arguments)}
    bodies = [[o.operation for o in ops.body(op).operations] for op in (one, other)]
    if len(bodies[0]) != len(bodies[1]):
        return False
    for a, b in zip(*bodies, strict=True):
        if a.name != b.name or [known.get(v, v) for v in a.operands] != list(b.operands):
            return False
        if {n: a.attributes[n] for n in a.attributes} != {n: b.attributes[n] for n in b.attributes}:
            return False
        known.update(zip(a.results, b.results, strict=True))
    return True
