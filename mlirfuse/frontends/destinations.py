"""Keeps ops from writing into one and the same memory.

    %i = linalg.generic outs(%e) { linalg.index }          // reads nothing
    %s = iree_linalg_ext.sort outs(%x, %i)
    %t = iree_linalg_ext.sort outs(%y, %i)
  becomes, for the second one,
    %z = util.optimization_barrier 0
    %j = linalg.generic ins(%i) { addi %z }                // equal, and no common subexpression
    %t = iree_linalg_ext.sort outs(%y, %j)

IREE 3.13 computes such a value once for each op that writes into it, in place of a copy, and later
merges the two computations as equal: both ops write into the same memory.

    %s = tensor.insert_slice %x into %v
    %t = tensor.insert_slice %y into %v                    // %j in place of %v
    %c = tensor.concat %a, %x
    %d = tensor.concat %a, %y                              // util.optimization_barrier %a

Both updates of `%v` write into its memory where `%y` is computed before `%x`. A concatenation is
such a chain of updates, and equal first parts are one update.

    %c = linalg.generic ins(%re, %im) { complex.create }   // the parts of an argument
    %s = iree_linalg_ext.scatter outs(%c)                  // the sum of %c and %z

IREE computes `%c` in the dispatch of the scatter, where it is folded to the argument: the scatter
writes into the memory of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from mlirfuse import builders
from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir

_WRITERS = (
    "iree_linalg_ext.sort",
    "iree_linalg_ext.scatter",
    "tm_tensor.sort",
    "tm_tensor.scatter",
)
"""Ops that read and write their last operands, one for each result."""


def separate_destinations(module: ir.Module) -> bool:
    """Gives each op a destination of its own; returns whether anything changed."""
    from iree.compiler import ir

    nested = list(ops.nested_ops(module.operation))
    shared = [*_of_indices(nested)[1:], *_of_updates(nested), *_of_complex_numbers(nested)]
    for op, index in shared:
        with op.location, ir.InsertionPoint(op):
            op.operands[index] = _copied(op.operands[index])
    first_parts = _of_concatenations(nested)
    for op, index in first_parts:
        with op.location, ir.InsertionPoint(op):
            op.operands[index] = _opaque(op.operands[index])
    return bool(shared or first_parts)


Place = tuple["ir.Operation", int]
"""An op and the index of one of its operands."""


def _written(nested: Sequence[ir.Operation]) -> list[Place]:
    """Destinations of sorts and scatters."""
    return [
        (op, index)
        for op in nested
        if op.name in _WRITERS
        for index in range(len(op.operands) - len(op.results), len(op.operands))
    ]


def _of_indices(nested: Sequence[ir.Operation]) -> list[Place]:
    """Destinations of sorts and scatters that are computed without reading a tensor."""
    return [(op, n) for op, n in _written(nested) if _reads_nothing(op.operands[n])]


def _of_complex_numbers(nested: Sequence[ir.Operation]) -> list[Place]:
    """Destinations of sorts and scatters that are complex numbers made of their parts."""
    return [
        (op, index)
        for op, index in _written(nested)
        if ops.element_type(op.operands[index]).startswith("complex")
        and _made_by(ops.strip_views(op.operands[index], ops.RESHAPES), "linalg.generic")
    ]


def _of_updates(nested: Sequence[ir.Operation]) -> list[Place]:
    """All destinations of updates of one computed tensor but the first one."""
    updates = [(op, 1) for op in nested if op.name == "tensor.insert_slice"]
    return _repeated(updates, lambda op: op.operands[1] if _is_computed(op.operands[1]) else None)


def _of_concatenations(nested: Sequence[ir.Operation]) -> list[Place]:
    """The first parts of concatenations, or of chains of updates, that begin as another one."""

    def start(op: ir.Operation) -> Hashable | None:
        if op.name == "tensor.concat":
            return (op.operands[0], op.attributes["dim"], op.results[0].type)
        if _made_by(op.operands[1], "tensor.empty"):
            return (op.operands[0], op.results[0].type)
        return None

    names = ("tensor.concat", "tensor.insert_slice")
    return _repeated([(op, 0) for op in nested if op.name in names], start)


def _repeated(
    places: Sequence[Place], key: Callable[[ir.Operation], Hashable | None]
) -> list[Place]:
    """The places whose ops have the key of an earlier one."""
    seen: set[Hashable] = set()
    found = []
    for place in places:
        own = key(place[0])
        if own in seen:
            found.append(place)
        if own is not None:
            seen.add(own)
    return found


def _made_by(value: ir.Value, name: str) -> bool:
    op = ops.defining_op(value)
    return op is not None and op.name == name


def _is_computed(value: ir.Value) -> bool:
    """Whether an op computes the numbers of a tensor that `_copied` copies."""
    op = ops.defining_op(value)
    if op is None or op.name in ("arith.constant", "linalg.fill", "tensor.empty"):
        return False
    return _is_number(value)


def _reads_nothing(value: ir.Value) -> bool:
    """Whether a value is computed without reading a tensor."""
    from iree.compiler import ir

    owner = value.owner
    return (
        not isinstance(owner, ir.Block)
        and owner.name == "linalg.generic"
        and ops.num_inputs(owner) == 0
        and _is_number(value)
    )


def _is_number(value: ir.Value) -> bool:
    """Whether a value is a tensor of integers or floating-point numbers."""
    from iree.compiler import ir

    return isinstance(value.type, ir.RankedTensorType) and isinstance(
        value.type.element_type, ir.IntegerType | ir.FloatType
    )


def _opaque(value: ir.Value) -> ir.Value:
    """The value, which the compiler does not know to be the same."""
    from iree.compiler import ir

    return ir.Operation.create("util.optimization_barrier", [value.type], [value]).result


def _copied(value: ir.Value) -> ir.Value:
    """The sum with a zero that the compiler does not know."""
    kind, shape = ops.element_type(value), ops.shape(value)
    part = kind.removeprefix("complex<").rstrip(">")
    integral = part.startswith("i")
    # -0.0 changes no number, not even a zero.
    zero = builders.scalar_constant(0 if integral else -0.0, part)
    unknown = _opaque(zero)
    sizes = builders.dynamic_sizes(value)
    identity = tuple(range(len(shape)))
    add = "arith.addi" if integral else "arith.addf"

    def added(arguments: Sequence[ir.Value]) -> list[ir.Value]:
        if part == kind:
            return [builders.scalar(add, [arguments[0], unknown], kind)]
        parts = [builders.scalar(f"complex.{p}", [arguments[0]], part) for p in ("re", "im")]
        sums = [builders.scalar(add, [p, unknown], part) for p in parts]
        return [builders.scalar("complex.create", sums, kind)]

    return builders.generic(
        [value],
        [builders.empty(shape, kind, sizes)],
        [identity, identity],
        ["parallel"] * len(shape),
        added,
    ).results[0]
