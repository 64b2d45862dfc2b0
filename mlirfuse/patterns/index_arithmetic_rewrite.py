"""Compute the indices of a gather from its loops, in place of reading them from a table.

    %i = util.global.load @table                       tensor<256xi64>: 0, 0, 1, 1, 2, 2, ...
    %y = linalg.generic { tensor.extract %x[n, %i < 0 ? %i + 128 : %i] } ins(%i)
  becomes
    %y = linalg.generic { tensor.extract %x[n, (linalg.index 1) / 2] }

Resizes, flips, rolls, and paddings by reflection or repetition are gathers at indices that are
computed from `iota` and constants; IREE computes them once, and reads one for each element. The
other indices of such a gather are `iota` itself, with a wrap of negative ones that never occurs.
Root: an op whose body extracts an element at an index that depends on one loop of static size, on
integers alone, and is the same as a shorter expression for all iterations: a line, a quotient of a
line with bounds, or up to three lines. A `select` whose condition is known from such integers, as
that of JAX for indices out of bounds, becomes one of its operands. On CPUs only lines are computed
along the contiguous loop, or where one gather reads the tensor. Any element type. Numerics: exact.
Source: mlirfuse; TorchInductor computes such indices in the loops that read them.
"""

from __future__ import annotations

import dataclasses
import sys

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.structured.expr import predicates
from mlirfuse.structured.expr.index_forms import Form, Quotient, form_of
from mlirfuse.structured.expr.index_values import BodyValues
from mlirfuse.structured.ir import ops

_EXTRACT = "tensor.extract"
_SELECT = "arith.select"


@dataclasses.dataclass(frozen=True, slots=True)
class _Index:
    """A form of a loop's index."""

    loop: int
    form: Form


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """The values of a body that have other forms.

    Attributes:
      indices: index of a gather -> its form.
      chosen: result of a `select` -> the operand that it is for all iterations.
    """

    indices: dict[ir.Value, _Index]
    chosen: dict[ir.Value, ir.Value]


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds indices that have a shorter form, and conditions that are decided."""
    if ops.in_region(root) or not ops.is_elementwise(root) or ops.reads_inits(root):
        return None
    if None in ops.indexing_maps(root) or {_EXTRACT, _SELECT}.isdisjoint(ops.scalar_names(root)):
        return None
    values, found = BodyValues(root), _Found({}, {})
    for op in (o.operation for o in ops.body(root).operations):
        if op.name == _SELECT:
            condition = values.of(op.operands[0])
            if condition is not None and len(set(condition.flat)) == 1:
                found.chosen[op.results[0]] = op.operands[1 if condition.flat[0] else 2]
        for value in list(op.operands)[1:] if op.name == _EXTRACT else ():
            index = _index(value, values)
            if index is None or not _is_cheap(index, op, ctx):
                continue
            if index.form.num_ops < _cost(value):
                found.indices[value] = index
    return Match(root, (root,), found) if found.indices or found.chosen else None


def _index(value: ir.Value, values: BodyValues) -> _Index | None:
    array = values.of(value)
    if array is None:
        return None
    loops = [loop for loop, size in enumerate(array.shape) if size > 1]
    form = form_of(array.reshape(-1)) if len(loops) == 1 else None
    return None if form is None else _Index(loops[0], form)


def _is_cheap(index: _Index, extract: ir.Operation, ctx: PassContext) -> bool:
    """Whether an index is cheaper computed than read.

    On CPUs a line is, which the lanes of a vector read as a vector. Measured with IREE 3.13.0 on
    two threads of an AMD EPYC: other forms take twice the time of a table along the contiguous
    loop, and 1.2 times along another in a gather alone; with the 16 gathers of a bicubic resize
    they take 0.7 times, since these are one dispatch.
    """
    is_line = isinstance(index.form, Quotient) and index.form.is_line
    if ctx.target.name != "cpu" or is_line:
        return True
    contiguous = ops.plain_maps(extract.parent.operation)[-1]
    readers = [user for user in ops.users(extract.operands[0]) if user.name == _EXTRACT]
    return len(readers) > 1 and contiguous[-1:] != (index.loop,)


def _cost(value: ir.Value) -> int:
    """Scalar ops that compute a value in a body; an element of a table is more than any form."""
    pending, computing = [value], set[ir.Operation]()
    while pending:
        found = pending.pop()
        op = ops.defining_op(found)
        if op is None or op.name == _EXTRACT:
            return sys.maxsize
        if ops.constant(found) is None and op.name != "linalg.index" and op not in computing:
            computing.add(op)
            pending += op.operands
    return len(computing)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the op with the forms, and without the tables that nothing reads any more."""
    op: ir.Operation = match.root
    found: _Found = match.data
    block = ops.body(op)
    needed = _needed([o.operation for o in block.operations], found)
    read = {_source(value, found) for each in needed for value in each.operands}
    inputs, maps = ops.num_inputs(op), ops.plain_maps(op)
    kept = [n for n in range(inputs) if block.arguments[n] in read]

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        copies: dict[ir.Value, ir.Value] = {
            block.arguments[number]: new for number, new in zip(kept, arguments, strict=False)
        }
        forms = {index: _computed(index) for index in dict.fromkeys(found.indices.values())}
        copies |= {value: forms[index] for value, index in found.indices.items()}

        def copy(value: ir.Value) -> ir.Value:
            source = _source(value, found)
            return copies.get(source, source)

        for old in needed[:-1]:
            new = old.clone(ir.InsertionPoint.current).operation
            for number, value in enumerate(old.operands):
                new.operands[number] = copy(value)
            copies.update(zip(old.results, new.results, strict=True))
        return [copy(value) for value in needed[-1].operands]

    with ir.InsertionPoint(op), op.location:
        new = builders.generic(
            [op.operands[number] for number in kept],
            ops.inits(op),
            [*(maps[number] for number in kept), *maps[inputs:]],
            ops.iterator_types(op),
            body,
        )
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.erase()
    return new


def _source(value: ir.Value, found: _Found) -> ir.Value:
    """The operand that a decided `select` is, else the value itself."""
    while value in found.chosen and value not in found.indices:
        value = found.chosen[value]
    return value


def _needed(inner: list[ir.Operation], found: _Found) -> list[ir.Operation]:
    """The ops of a body that are still needed, in order, the terminator last."""
    needed = {op for op in inner if op == inner[-1] or not ops.is_pure(op)}
    for op in reversed(inner):
        if op in needed:
            sources = (_source(value, found) for value in op.operands)
            owners = (ops.defining_op(v) for v in sources if v not in found.indices)
            needed |= {owner for owner in owners if owner is not None}
    return [op for op in inner if op in needed]


def _computed(index: _Index) -> ir.Value:
    """The index, at the current insertion point."""
    position = builders.loop_index(index.loop)
    if isinstance(index.form, Quotient):
        return _quotient(index.form, position)
    *before, (_, factor, start) = index.form.lines
    found = _quotient(Quotient(factor, start), position)
    for end, factor, start in reversed(before):
        line = _quotient(Quotient(factor, start), position)
        is_before = builders.scalar("arith.cmpi", [position, _number(end)], "i1", predicates.SLT)
        found = builders.scalar("arith.select", [is_before, line, found], "index")
    return found


def _quotient(form: Quotient, position: ir.Value) -> ir.Value:
    if form.factor == 0:
        return _number(form.start)
    found = position
    if form.factor == -1:
        found = _scalar("arith.subi", _number(form.start), found)
    else:
        if form.factor != 1:
            found = _scalar("arith.muli", found, _number(form.factor))
        if form.start:
            found = _scalar("arith.addi", found, _number(form.start))
    if form.lowest is not None:
        found = _scalar("arith.maxsi", found, _number(form.lowest))
    if form.divisor != 1:
        found = _scalar("arith.divui", found, _number(form.divisor))
    if form.highest is not None:
        found = _scalar("arith.minsi", found, _number(form.highest))
    return found


def _scalar(name: str, left: ir.Value, right: ir.Value) -> ir.Value:
    return builders.scalar(name, [left, right], "index")


def _number(number: int) -> ir.Value:
    return builders.scalar_constant(number, "index")


PASS = FusionPass(
    name="index_arithmetic_rewrite",
    summary="Indices of a gather that one loop determines are computed, not read from a table",
    roots=("linalg.generic",),
    match=match,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    contained=True,
    source="mlirfuse",
)
