"""Sizes and reshapes from the results of `structured.shape_arithmetic`."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import Match
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.shape_arithmetic import Atom, Compound, Dim, Reshape, Size


def rewrite(match: Match) -> ir.Operation:
    """Replaces the reshape, or the extracted element."""
    op = match.root
    result = op.results[0]
    with ir.InsertionPoint(op), op.location:
        if isinstance(match.data, Size):
            value = _build_as(match.data, ops.element_type(result))
        else:
            value = reshape(op.operands[0], match.data)
            value = cast(value, list(ops.shape(result)))
    result.replace_all_uses_with(value)
    op.erase()
    owner: ir.Operation = ir.OpResult(value).owner.operation
    return owner


def reshape(value: ir.Value, form: Reshape) -> ir.Value:
    """The value reshaped by one collapse and one expand at most."""
    value = builders.collapse(cast(value, static(form.before)), [inner for inner, _ in form.parts])
    if all(len(outer) == 1 for _, outer in form.parts):
        return value
    dynamic = [build(size) for size in form.after if size.atoms]
    return builders.expand(value, [outer for _, outer in form.parts], static(form.after), dynamic)


def cast(value: ir.Value, shape: list[int | None]) -> ir.Value:
    """`tensor.cast` to the known sizes, or the value itself."""
    if list(ops.shape(value)) == shape:
        return value
    kind = builders.tensor_type(shape, ops.element_type(value))
    return ir.Operation.create("tensor.cast", results=[kind], operands=[value]).results[0]


def static(sizes: Sequence[Size]) -> list[int | None]:
    """The sizes as types have them."""
    return [None if size.atoms else size.coefficient for size in sizes]


def build(size: Size) -> ir.Value:
    """The size as a value of type index, at the insertion point."""
    values = [_build_atom(atom) for atom in size.atoms]
    if size.coefficient != 1 or not values:
        values.append(builders.scalar_constant(size.coefficient, "index"))
    found = values[0]
    for factor in values[1:]:
        found = builders.scalar("arith.muli", [found, factor], "index")
    return found


def _build_as(size: Size, kind: str) -> ir.Value:
    if not size.atoms:
        return builders.scalar_constant(size.coefficient, kind)
    value = build(size)
    return value if kind == "index" else builders.scalar("arith.index_cast", [value], kind)


def _build_atom(atom: Atom) -> ir.Value:
    if isinstance(atom, Dim):
        axis = builders.scalar_constant(atom.axis, "index")
        return builders.scalar("tensor.dim", [atom.value, axis], "index")
    if isinstance(atom, Compound):
        return builders.scalar(atom.op, [build(arg) for arg in atom.args], "index")
    if ops.element_type(atom) == "index":
        return atom
    return builders.scalar("arith.index_cast", [atom], "index")
