"""Ranges of integers that a kernel computes from indices, which 32 bits hold.

    %i = linalg.index 3                           0 to 191 in a loop of 192
    %j = arith.index_cast %i : index to i64       0 to 191
    %k = arith.floordivsi %j, 2 : i64             0 to 95, `//` of 32 bits
    %n = arith.cmpi slt, %k, 0 : i64              false
    %m = arith.select %n, ..., %k                 0 to 95, no instruction

Models compute positions in i64. A GPU adds, multiplies and divides these with several instructions
of 32 bits each, dozens for a division: an integer whose range fits is computed in 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse.structured.ir import ops

Range = tuple[int, int]
"""The smallest and the largest value."""

_LIMIT = 1 << 31

_FORMS = {
    "arith.addi": "{0} + {1}",
    "arith.subi": "{0} - {1}",
    "arith.muli": "{0} * {1}",
    "arith.minsi": "tl.minimum({0}, {1})",
    "arith.maxsi": "tl.maximum({0}, {1})",
    "arith.divsi": "{0} // {1}",
    "arith.divui": "{0} // {1}",
    "arith.floordivsi": "{0} // {1}",
    "arith.remsi": "{0} % {1}",
    "arith.remui": "{0} % {1}",
    "math.absi": "tl.abs({0})",
}
"""Ops of integers in 32 bits; quotients of numbers from zero on are the same for all of them."""

_DIVISIONS = frozenset({"arith.divsi", "arith.divui", "arith.floordivsi"})
_REMAINDERS = frozenset({"arith.remsi", "arith.remui"})

_COPIES = frozenset({"arith.index_cast", "arith.index_castui", "arith.extsi", "arith.trunci"})
"""Casts that keep a number whose range fits."""

_TAKES_NARROW = frozenset({"arith.sitofp", "arith.select", "arith.index_cast", "arith.cmpi"})
"""Ops whose forms take integers of 32 bits in place of wider ones, but for unsigned comparisons."""

_FIRST_UNSIGNED = 6
"""The first predicate of `arith.cmpi` of unsigned numbers."""


class IndexRanges:
    """The ranges of the values of a kernel whose indices have 32 bits."""

    def __init__(self) -> None:
        self._ranges: dict[str, Range] = {}
        self._decided: dict[str, bool] = {}

    def note_index(self, name: str, op: ir.Operation) -> None:
        """Records the result of a `linalg.index`, an element of which may be masked."""
        size = ops.loop_sizes(op.block.owner)[int(op.attributes["dim"].value)]
        if size:
            self._ranges[name] = (0, size - 1)

    def computed(
        self, op: ir.Operation, operands: Sequence[str], named: Callable[[str], str]
    ) -> str | None:
        """The name of the result of an op in 32 bits; None where its range is not known to fit.

        Args:
          op: an op of a scalar body.
          operands: the names of its operands.
          named: gives an expression a name.
        """
        if op.name == "arith.cmpi":
            decided = self._comparison(op, operands)
            if decided is None:
                return None
            name = named(f"tl.full([1, 1], {int(decided)}, tl.int1)")
            self._decided[name] = decided
            return name
        if op.name == "arith.select" and operands[0] in self._decided:
            return operands[1 if self._decided[operands[0]] else 2]
        if not _is_integer(op):
            return None
        given = self._of_operands(op, operands)
        if op.name in _COPIES:
            return operands[0] if given[0] is not None else None
        if op.name == "arith.select":
            return self._selected(op, operands, given, named)
        found = _result(op.name, given)
        if found is None or not _fits(found):
            return None
        name = named(_FORMS[op.name].format(*self._texts(op, operands)))
        self._ranges[name] = found
        return name

    def widened(self, op: ir.Operation, operands: Sequence[str]) -> list[str]:
        """The operands of an op that is not computed in 32 bits, in their own width."""
        unsigned = op.name == "arith.cmpi" and (
            int(op.attributes["predicate"].value) >= _FIRST_UNSIGNED
        )
        if op.name in _TAKES_NARROW and not unsigned:
            return list(operands)
        wide = [str(value.type) == "i64" for value in op.operands]
        return [
            f"{name}.to(tl.int64)" if is_wide and name in self._ranges else name
            for name, is_wide in zip(operands, wide, strict=True)
        ]

    def _of_operands(self, op: ir.Operation, operands: Sequence[str]) -> list[Range | None]:
        found: list[Range | None] = []
        for value, name in zip(op.operands, operands, strict=True):
            number = ops.constant(value)
            constant = isinstance(number, int) and not isinstance(number, bool)
            found.append((number, number) if constant else self._ranges.get(name))  # type: ignore[arg-type]
        return found

    def _texts(self, op: ir.Operation, operands: Sequence[str]) -> list[str]:
        """Operands in 32 bits."""
        numbers = [ops.constant(value) for value in op.operands]
        return [
            f"tl.full([1, 1], {number}, tl.int32)" if isinstance(number, int) else name
            for number, name in zip(numbers, operands, strict=True)
        ]

    def _comparison(self, op: ir.Operation, operands: Sequence[str]) -> bool | None:
        """The result of a comparison that the ranges decide."""
        first, second = self._of_operands(op, operands)
        predicate = int(op.attributes["predicate"].value)
        if first is None or second is None or predicate >= _FIRST_UNSIGNED:
            return None
        (low, high), (least, most) = first, second
        below, above = high < least, low > most
        never_above, never_below = high <= least, low >= most
        yes, no = {
            0: (low == high == least == most, below or above),
            1: (below or above, low == high == least == most),
            2: (below, never_below),
            3: (never_above, above),
            4: (above, never_above),
            5: (never_below, below),
        }[predicate]
        return True if yes else False if no else None

    def _selected(
        self,
        op: ir.Operation,
        operands: Sequence[str],
        given: Sequence[Range | None],
        named: Callable[[str], str],
    ) -> str | None:
        first, second = given[1:]
        if first is None or second is None:
            return None
        texts = self._texts(op, operands)
        name = named(f"tl.where({operands[0]}, {texts[1]}, {texts[2]})")
        self._ranges[name] = min(first[0], second[0]), max(first[1], second[1])
        return name


def _is_integer(op: ir.Operation) -> bool:
    return len(op.results) == 1 and str(op.results[0].type) in ("i32", "i64", "index")


def _fits(values: Range) -> bool:
    return values[0] >= -_LIMIT and values[1] < _LIMIT


def _result(name: str, given: Sequence[Range | None]) -> Range | None:
    """The range of an op of `_FORMS`; None where it is not known."""
    if name not in _FORMS or any(each is None or not _fits(each) for each in given):
        return None
    known = [each for each in given if each is not None]
    if name == "math.absi":
        (low, high) = known[0]
        return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    (low, high), (least, most) = known
    if name in _DIVISIONS | _REMAINDERS:
        if low < 0 or least <= 0:
            return None
        return (low // most, high // least) if name in _DIVISIONS else (0, min(high, most - 1))
    pairs = [(a, b) for a in (low, high) for b in (least, most)]
    numbers = {
        "arith.addi": [a + b for a, b in pairs],
        "arith.subi": [a - b for a, b in pairs],
        "arith.muli": [a * b for a, b in pairs],
        "arith.minsi": [min(low, least), min(high, most)],
        "arith.maxsi": [max(low, least), max(high, most)],
    }[name]
    return min(numbers), max(numbers)
