"""Integers that are computed from loop indices and constants, at all iterations at once.

    %i = linalg.index 3 : index                   0, 1, ..., 191
    %j = arith.addi %i, %c1 : index               1, 2, ..., 192
    %k = arith.minsi %j, %c191 : index            1, 2, ..., 191, 191

Only integers are evaluated: results of floats depend on the machine that contracts a product and a
sum. A value is unknown where an op could wrap, or divides by zero.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from iree.compiler import ir

from mlirfuse.structured.expr import predicates
from mlirfuse.structured.ir import ops, tensor_ops

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

MAX_VALUES = 1 << 16
"""Upper limit of the elements of a table that is evaluated."""

MAX_DEPTH = 32
"""Tensors that are evaluated for one, each for the one before."""

_TYPES = ("i1", "i8", "i16", "i32", "i64", "index")

_MAX_BITS = 62
"""Width of the numbers that are evaluated: sums of two fit into 64 bits."""

_SIGNED: dict[str, Callable[..., Any]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
    "arith.index_cast": operator.pos,
    "arith.extsi": operator.pos,
    "arith.trunci": operator.pos,
    "math.absi": abs,
}

_UNSIGNED: dict[str, Callable[..., Any]] = {
    "arith.divui": operator.floordiv,
    "arith.remui": operator.mod,
    "arith.index_castui": operator.pos,
    "arith.extui": operator.pos,
}
"""Ops that are the same on numbers from zero on."""

_QUOTIENTS = ("arith.div", "arith.rem", "arith.floordiv", "arith.ceildiv")


class BodyValues:
    """The values of the body of an elementwise op.

    Each is an array with one dimension a loop, of size one where it does not depend on the loop.

    Args:
      op: the op.
      tables: the tensors that are known.
    """

    def __init__(self, op: ir.Operation, tables: Tables | None = None) -> None:
        self._op = op
        self._tables = tables or Tables()
        self._known: dict[ir.Value, Array | None] = {}

    def of(self, value: ir.Value) -> Array | None:
        """The values of a scalar; None where they are not known."""
        pending = [value]
        while pending:
            missing = [v for v in self._operands(pending[-1]) if v not in self._known]
            if missing:
                pending += missing
                continue
            found = pending.pop()
            if found not in self._known:
                self._known[found] = self._evaluated(found)
        return self._known[value]

    def _operands(self, value: ir.Value) -> list[ir.Value]:
        """The scalars that a value of the body is computed from."""
        op = ops.defining_op(value)
        if op is None or op.block != ops.body(self._op):
            return []
        return [operand for operand in op.operands if ops.ranked(operand) is None]

    def _evaluated(self, value: ir.Value) -> Array | None:
        import numpy as np

        rank = len(ops.iterator_types(self._op))
        number = ops.constant(value)
        if number is not None:
            array = np.full([1] * rank, number) if isinstance(number, int) else None
            return None if array is None or not _fits(array, value) else array
        op = ops.defining_op(value)
        if op is None:
            return self._argument(ir.BlockArgument(value))
        if op.block != ops.body(self._op):
            return None
        if op.name == "linalg.index":
            loop = int(op.attributes["dim"].value)
            size = ops.loop_sizes(self._op)[loop]
            if size is None or size > MAX_VALUES:
                return None
            return np.arange(size).reshape([-1 if n == loop else 1 for n in range(rank)])
        if op.name == "tensor.extract":
            return self._element(op)
        given = self._all_of(op.operands)
        result = None if given is None else _applied(op, given)
        return None if result is None or not _fits(result, value) else result

    def _all_of(self, values: Iterable[ir.Value]) -> list[Array] | None:
        """The values of several scalars; None where one is not known, or they are too many."""
        import numpy as np

        found = [self.of(value) for value in values]
        known = [array for array in found if array is not None]
        if len(known) < len(found) or np.broadcast(np.int64(0), *known).size > MAX_VALUES:
            return None
        return known

    def _element(self, extract: ir.Operation) -> Array | None:
        """The elements of a table at computed indices; None where one is outside."""
        import numpy as np

        tensor, *indices = extract.operands
        source, given = self._tables.of(tensor), self._all_of(indices)
        sizes = ops.shape(tensor)
        if source is None or not given:
            return None
        inside = zip(given, sizes, strict=True)
        if not all(((index >= 0) & (index < size)).all() for index, size in inside):
            return None
        return np.broadcast_to(source, [size or 0 for size in sizes])[tuple(given)]

    def _argument(self, argument: ir.BlockArgument) -> Array | None:
        """The elements that an argument of the body is."""
        op, number = self._op, argument.arg_number
        if argument.owner != ops.body(op) or number >= ops.num_inputs(op):
            return None
        index_map = ops.indexing_maps(op)[number]
        if index_map is None:
            return None
        array = self._tables.of(op.operands[number])
        if array is None:
            return None
        loops = [loop for loop in index_map if loop is not None]
        array = array[tuple(0 if loop is None else slice(None) for loop in index_map)]
        array = array.transpose([loops.index(loop) for loop in sorted(loops)])
        sizes = dict(zip(sorted(loops), array.shape, strict=True))
        return array.reshape([sizes.get(n, 1) for n in range(len(ops.iterator_types(op)))])


class Tables:
    """The elements of tensors of integers that are known at compile time."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, Array | None] = {}
        self._depth = 0

    def of(self, value: ir.Value) -> Array | None:
        """The elements of a tensor; None where they are not known.

        A dimension along which they are equal may have size one.
        """
        if value not in self._known:
            self._depth += 1
            self._known[value] = self._evaluated(value) if self._depth <= MAX_DEPTH else None
            self._depth -= 1
        return self._known[value]

    def _evaluated(self, value: ir.Value) -> Array | None:
        import numpy as np

        shape, op, number = ops.shape(value), ops.defining_op(value), ops.constant(value)
        if ops.element_type(value) not in _TYPES or None in shape or op is None:
            return None
        if isinstance(number, int):
            array = np.full([1] * len(shape), number)
            return array if _fits(array, value) else None
        if ops.is_elementwise(op):
            return self._computed(op, value)
        if ops.num_elements(value) > MAX_VALUES:
            return None
        attribute, stored = ops.initial_attribute(value), ops.initializer_value(value)
        if isinstance(attribute, ir.DenseIntElementsAttr):
            array = np.array(attribute).astype(np.int64)
            return array if _fits(array, value) else None
        if stored is not None:
            return self.of(stored)
        is_view = op.name in (*ops.RESHAPES, "tensor.extract_slice")
        return self._viewed(op, value) if is_view else None

    def _viewed(self, op: ir.Operation, value: ir.Value) -> Array | None:
        """The elements of a reshape or a static slice."""
        import numpy as np

        source = self.of(op.operands[0])
        if source is None:
            return None
        whole = np.broadcast_to(source, [size or 0 for size in ops.shape(op.operands[0])])
        if op.name == "tensor.extract_slice":
            boxes = tensor_ops.slice_params(op).boxes
            static = [tuple(n for n in box if isinstance(n, int)) for box in boxes]
            if any(len(box) < 3 for box in static):
                return None
            whole = whole[tuple(slice(first, first + n * step, step) for first, n, step in static)]
        return whole.reshape([size or 0 for size in ops.shape(value)])

    def _computed(self, op: ir.Operation, value: ir.Value) -> Array | None:
        """The result of an elementwise op."""
        number = list(op.results).index(value)
        written = ops.indexing_maps(op)[ops.num_inputs(op) + number]
        if written is None or None in written or len(written) != len(ops.iterator_types(op)):
            return None
        yielded = list(ops.body(op).operations)[-1].operation.operands[number]
        array = BodyValues(op, self).of(yielded)
        order = [loop for loop in written if loop is not None]
        return None if array is None else array.transpose(order)


def _applied(op: ir.Operation, given: Sequence[Array]) -> Array | None:
    """The result of a scalar op; None for an unknown one."""
    import numpy as np

    if op.name.startswith(_QUOTIENTS):
        return _divided(op.name, *given)
    if op.name == "arith.cmpi":
        compare = predicates.SIGNED.get(ops.predicate(op))
        return None if compare is None else compare(*given).astype(np.int64)
    if op.name == "arith.select":
        return np.where(given[0] != 0, given[1], given[2])
    name = op.name.split(".")[-1]
    if name in ("minsi", "maxsi", "minui", "maxui"):
        extremum = np.minimum if name.startswith("min") else np.maximum
        return extremum(*given) if name.endswith("si") or _are_unsigned(given) else None
    if op.name in _UNSIGNED:
        return _UNSIGNED[op.name](*given) if _are_unsigned(given) else None
    if op.name == "arith.muli" and _largest(given[0]) * _largest(given[1]) >> _MAX_BITS:
        return None
    is_sign = op.name == "arith.extsi" and ops.element_type(op.operands[0]) == "i1"
    return _SIGNED[op.name](*given) if op.name in _SIGNED and not is_sign else None


def _divided(name: str, a: Array, b: Array) -> Array | None:
    """A quotient or a remainder."""
    import numpy as np

    if (b == 0).any():
        return None
    if name in _UNSIGNED:
        return _UNSIGNED[name](a, b) if _are_unsigned((a, b)) else None
    quotient = np.sign(a) * np.sign(b) * (abs(a) // abs(b))
    found: dict[str, Array] = {
        "arith.divsi": quotient,
        "arith.remsi": a - quotient * b,
        "arith.floordivsi": a // b,
        "arith.ceildivsi": -(-a // b),
    }
    return found.get(name)


def _largest(array: Array) -> int:
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0


def _are_unsigned(given: Sequence[Array]) -> bool:
    return all((array >= 0).all() for array in given)


def _fits(array: Array, value: ir.Value) -> bool:
    """Whether numbers are those of a value of its type, and may be computed with."""
    kind = ops.element_type(value)
    bits = min(_MAX_BITS, int(kind[1:]) if kind[1:].isdigit() else _MAX_BITS)
    low, high = (0, 1) if kind == "i1" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return bool((array >= low).all() and (array <= high).all())
