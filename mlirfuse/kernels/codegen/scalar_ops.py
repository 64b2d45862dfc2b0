"""Scalar bodies of linalg ops as lines of a Triton kernel.

Every value is a tile, or a scalar for what is the same in the whole tile. Tiles have two
dimensions and broadcast. Element types are those of the MLIR: bf16 is computed in f32 and rounded
after each operation, which gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.structured.ir import ops

TYPES = {
    "f16": "tl.float16",
    "bf16": "tl.bfloat16",
    "f32": "tl.float32",
    "i1": "tl.int1",
    "i4": "tl.int8",
    "i8": "tl.int8",
    "i16": "tl.int16",
    "i32": "tl.int32",
    "i64": "tl.int64",
    "index": "tl.int64",
}
"""Element types that kernels compute with, in Triton's spelling."""

POINTERS = {
    "f16": "*fp16",
    "bf16": "*bf16",
    "f32": "*fp32",
    "i1": "*i8",
    "i4": "*i8",
    "i8": "*i8",
    "i16": "*i16",
    "i32": "*i32",
    "i64": "*i64",
}
"""The same in memory; an i1 takes a byte there, two i4 one."""

_FLOAT = {
    "arith.addf": "{0} + {1}",
    "arith.subf": "{0} - {1}",
    "arith.mulf": "{0} * {1}",
    "arith.divf": "{0} / {1}",
    "arith.negf": "-{0}",
    "arith.maximumf": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "arith.minimumf": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "arith.maxnumf": "tl.maximum({0}, {1})",
    "arith.minnumf": "tl.minimum({0}, {1})",
    "math.absf": "tl.abs({0})",
    "math.ceil": "tl.ceil({0})",
    "math.cos": "tl.cos({0})",
    "math.erf": "tl.erf({0})",
    "math.exp": "tl.exp({0})",
    "math.exp2": "tl.exp2({0})",
    "math.floor": "tl.floor({0})",
    "math.fma": "{0} * {1} + {2}",
    "math.log": "tl.log({0})",
    "math.log2": "tl.log2({0})",
    "math.roundeven": "library.round_even({0})",
    "math.rsqrt": "tl.rsqrt({0})",
    "math.sin": "tl.sin({0})",
    "math.sqrt": "tl.sqrt({0})",
    "math.tanh": "library.tanh({0})",
}

SHORT = {
    "math.exp": "tl.exp2({0} * 1.4426950408889634)",
    "math.erf": "library.short_erf({0})",
    "math.tanh": "library.short_tanh({0})",
}
"""Cheaper forms in f32, wrong by 1e-5 of the result, at most."""

HIDING = frozenset({"f16", "bf16", "i8"})
"""Element types of results that hide an error of 1e-5 of them."""

ABOVE = {"math.tanh": "2.0 / (tl.exp2({0} * -2.8853900817779268) + 1.0)"}
"""The same of their sum with one, which needs no care near zero: wrong by 1e-6 of the sum."""

_SHORT_ROUND = "library.short_round({0})"

_BYTE = -128.0, 127.0
"""Bounds of an i8."""

_LESS, _GREATER, _UNORDERED = {4, 5, 11, 12}, {2, 3, 9, 10}, {9, 10, 11, 12}
"""Numbers of `arith.cmpf`."""

_INTEGER = {
    "arith.addi": "{0} + {1}",
    "arith.subi": "{0} - {1}",
    "arith.muli": "{0} * {1}",
    "arith.andi": "{0} & {1}",
    "arith.ori": "{0} | {1}",
    "arith.xori": "{0} ^ {1}",
    "arith.maxsi": "tl.maximum({0}, {1})",
    "arith.minsi": "tl.minimum({0}, {1})",
    "arith.select": "tl.where({0}, {1}, {2})",
}

_CASTS = frozenset(
    {"arith.extf", "arith.truncf", "arith.extsi", "arith.trunci", "arith.index_cast"}
    | {"arith.sitofp", "arith.fptosi"}
)

_NATIVE = frozenset({"arith.addf", "arith.subf", "arith.mulf"})
"""What is computed in f16 where the type is f16; all else is computed in f32 and rounded."""

# Numbers are those of `arith.cmpf` and `arith.cmpi`. A comparison of Triton is ordered, and `!=` is
# not.
_COMPARE_FLOAT = {
    1: "{0} == {1}",
    2: "{0} > {1}",
    3: "{0} >= {1}",
    4: "{0} < {1}",
    5: "{0} <= {1}",
    6: "({0} < {1}) | ({0} > {1})",
    7: "({0} == {0}) & ({1} == {1})",
    8: "({0} == {1}) | ({0} != {0}) | ({1} != {1})",
    9: "({0} > {1}) | ({0} != {0}) | ({1} != {1})",
    10: "({0} >= {1}) | ({0} != {0}) | ({1} != {1})",
    11: "({0} < {1}) | ({0} != {0}) | ({1} != {1})",
    12: "({0} <= {1}) | ({0} != {0}) | ({1} != {1})",
    13: "{0} != {1}",
    14: "({0} != {0}) | ({1} != {1})",
}

_COMPARE_SIGNED = {
    0: "{0} == {1}",
    1: "{0} != {1}",
    2: "{0} < {1}",
    3: "{0} <= {1}",
    4: "{0} > {1}",
    5: "{0} >= {1}",
}


_SMALLEST, _LARGEST = 2.0**-100, 2.0**100
"""Between them a number and its inverse are normal in f32."""


class Unsupported(Exception):
    """A scalar op, type or value that has no translation; the message names it."""


def literal(number: float, element: str, types: Mapping[str, str] = TYPES, layout: str = "") -> str:
    """A constant in a kernel's text; with a layout, in Gluon's."""
    if element not in types:
        raise Unsupported(f"a constant of type {element}")
    if isinstance(number, float) and not math.isfinite(number):
        text = f'float("{number}")'
    elif isinstance(number, float):
        text = repr(number)
    elif element == "i1":
        text = "1" if number else "0"
    else:
        text = str(number)
    if layout:
        return f"gl.full([1, 1], {text}, {types[element]}, {layout})"
    return f"tl.full([1, 1], {text}, {types[element]})"


WIDE = {**TYPES, "f16": "tl.float32", "bf16": "tl.float32"}
"""Types of kernels that round to f16 and bf16 only what they store."""


class Body:
    """Translates scalar bodies, line by line.

    Attributes:
      writer: the lines of the kernel.
      types: element types in Triton's spelling, `TYPES` or `WIDE`.
      short: whether all results are rounded to 16 bits or less, so that `SHORT` forms will do.
      layout: of the tiles, where the lines are Gluon's.
    """

    def __init__(
        self, types: Mapping[str, str] = TYPES, *, short: bool = False, layout: str = ""
    ) -> None:
        self.writer = Writer()
        self.types = types
        self.short = short
        self.layout = layout
        # Whole number -> what it was rounded from, and the least and greatest that it can be.
        self._whole: dict[str, tuple[str, float, float]] = {}

    @property
    def lines(self) -> list[str]:
        """The lines written so far."""
        return self.writer.lines

    @lines.setter
    def lines(self, lines: list[str]) -> None:
        self.writer.lines = lines

    def name(self, text: str) -> str:
        """Gives the value of an expression a name."""
        return self.writer.name(text)

    def block(
        self,
        block: ir.Block,
        arguments: Sequence[str | None],
        loop_index: Callable[[int], str],
        skip: ir.Operation | None = None,
        gather: Callable[[ir.Value, Sequence[str]], str] | None = None,
    ) -> dict[ir.Value, str]:
        """The names of the values of a body.

        Args:
          block: the body.
          arguments: the tile that each block argument is; None where nothing reads it.
          loop_index: the number of a loop, as `linalg.index` asks for it.
          skip: an op that is left out.
          gather: what a tensor holds at computed places; None where nothing may ask.

        Raises:
          Unsupported: an op without translation.
        """
        known = {
            argument: name
            for argument, name in zip(block.arguments, arguments, strict=True)
            if name is not None
        }

        def read(value: ir.Value) -> str:
            if value not in known:
                number = ops.constant(value)
                if number is None:
                    raise Unsupported("a scalar from outside its op")
                known[value] = self.name(literal(number, str(value.type), self.types, self.layout))
            return known[value]

        for op in (o.operation for o in block.operations):
            if (skip is not None and op == skip) or op.name in (
                "linalg.yield",
                "iree_linalg_ext.yield",
            ):
                continue
            if self._is_short(op) and _needless(op):
                continue
            if op.name == "linalg.index":
                text = loop_index(op.attributes["dim"].value)
                zero = literal(0, "index", self.types, self.layout)
                known[op.results[0]] = self.name(f"{text} + {zero}")
            elif op.name == "tensor.extract" and gather is not None:
                places = [read(v) for v in list(op.operands)[1:]]
                known[op.results[0]] = self.name(gather(op.operands[0], places))
            elif op.name == "arith.constant":
                read(op.results[0])
            elif op.name == "math.fpowi":
                known[op.results[0]] = self._power(op, read(op.operands[0]))
            elif self._is_short(op) and (inner := _above(op)) is not None:
                form = ABOVE[inner.name]
                known[op.results[0]] = self.name(form.format(read(inner.operands[0])))
            elif self._is_short(op) and (number := _divisor(op)) is not None:
                inverse = self.name(literal(1.0 / number, "f32", self.types, self.layout))
                known[op.results[0]] = self.name(f"{read(op.operands[0])} * {inverse}")
            else:
                operands = [read(v) for v in op.operands]
                text = self._byte(op, operands) or _scalar(op, operands, self.types, self.short)
                known[op.results[0]] = self.name(text)
                self._note_whole(op, operands, known[op.results[0]])
        for value in list(block.operations)[-1].operation.operands:
            if value not in known and ops.constant(value) is not None:
                read(value)
        return known

    def _note_whole(self, op: ir.Operation, operands: Sequence[str], name: str) -> None:
        """Takes note of a whole number: one that was rounded, or one with a bound."""
        if op.name == "math.roundeven":
            self._whole[name] = operands[0], -math.inf, math.inf
        text = _bound(op) or _FLOAT.get(op.name, "")
        numbers = [ops.constant(value) for value in op.operands]
        bounds = [n for n in numbers if isinstance(n, float) and n.is_integer()]
        known = [self._whole[o] for o in operands if o in self._whole]
        if len(bounds) != 1 or len(known) != 1 or not text.startswith(("tl.max", "tl.min")):
            return
        start, low, high = known[0]
        if text.startswith("tl.max"):
            low, high = max(low, bounds[0]), max(high, bounds[0])
        else:
            low, high = min(low, bounds[0]), min(high, bounds[0])
        self._whole[name] = start, low, high

    def _byte(self, op: ir.Operation, operands: Sequence[str]) -> str | None:
        """A whole number within the bounds of an i8, in fewer steps than by rounding and casts."""
        if op.name != "arith.fptosi" or str(op.results[0].type) != "i8" or self.layout:
            return None
        start, low, high = self._whole.get(operands[0], ("", -math.inf, math.inf))
        if low < _BYTE[0] or high > _BYTE[1]:
            return None
        return f"library.byte({start}, {low!r}, {high!r})"

    def _is_short(self, op: ir.Operation) -> bool:
        """Whether an op is computed in f32 for results of 16 bits or less."""
        kinds = [self.types.get(str(value.type)) for value in op.results]
        return self.short and kinds == ["tl.float32"]

    def _power(self, op: ir.Operation, base: str) -> str:
        exponent = ops.constant(op.operands[1])
        if not isinstance(exponent, int) or not 1 <= exponent <= 8:
            raise Unsupported(f"math.fpowi with the exponent {exponent}")
        kind = str(op.results[0].type)
        text = " * ".join([f"{base}.to(tl.float32)"] * exponent)
        return self.name(f"({text}).to({self.types[kind]})")


def _scalar(op: ir.Operation, operands: list[str], types: Mapping[str, str], short: bool) -> str:
    """One op as an expression."""
    if len(op.results) != 1:
        raise Unsupported(op.name)
    kind = str(op.results[0].type)
    if kind not in types or any(str(v.type) not in types for v in op.operands):
        raise Unsupported(f"{op.name} of type {kind}")
    source = str(op.operands[0].type) if len(op.operands) else kind
    if "i4" in (kind, source) and op.name not in ("arith.extsi", "arith.sitofp"):
        raise Unsupported(f"{op.name} of an i4")
    if op.name in _CASTS:
        if source == "i1" and op.name in ("arith.extsi", "arith.sitofp"):
            raise Unsupported(f"{op.name} of an i1")
        return f"{operands[0]}.to({types[kind]})"
    if op.name in ("arith.extui", "arith.uitofp") and source == "i1":
        return f"{operands[0]}.to({types[kind]})"
    if op.name == "arith.cmpf":
        form = _COMPARE_FLOAT.get(op.attributes["predicate"].value)
    elif op.name == "arith.cmpi":
        form = _COMPARE_SIGNED.get(op.attributes["predicate"].value)
    else:
        form = _bound(op) or _FLOAT.get(op.name) or _INTEGER.get(op.name)
    if form is None:
        raise Unsupported(op.name)
    if short and types[kind] == "tl.float32":
        form = SHORT.get(op.name, form)
    narrow = types[kind] != "tl.float32" and (
        kind == "bf16" or (kind == "f16" and op.name not in _NATIVE)
    )
    if op.name == "math.roundeven" and narrow:
        form = _SHORT_ROUND
    if op.name in _FLOAT and narrow:
        text = form.format(*(f"{name}.to(tl.float32)" for name in operands))
        return f"({text}).to({types[kind]})"
    return form.format(*operands)


def _above(op: ir.Operation) -> ir.Operation | None:
    """The function whose sum with one an op is."""
    if op.name != "arith.addf":
        return None
    first, second = op.operands
    for value, other in ((first, second), (second, first)):
        inner = ops.defining_op(value)
        if inner is not None and inner.name in ABOVE and ops.constant(other) == 1.0:
            return inner
    return None


def _divisor(op: ir.Operation) -> float | None:
    """The number that an op divides by, a constant or its root; None where there is none.

    Multiplying with the inverse differs in the last bit of f32.
    """
    if op.name != "arith.divf":
        return None
    found = ops.constant(op.operands[1])
    root = ops.defining_op(op.operands[1])
    if root is not None and root.name == "math.sqrt":
        found = ops.constant(root.operands[0])
        found = math.sqrt(found) if isinstance(found, float) and found > 0.0 else None
    return found if isinstance(found, float) and _SMALLEST <= abs(found) <= _LARGEST else None


def _needless(op: ir.Operation) -> bool:
    """Whether an op is computed only as a part of those that read it."""
    readers = [use.owner.operation for use in op.results[0].uses]
    if op.name in ABOVE:
        found = [_above(reader) for reader in readers]
        return bool(found) and all(inner is not None and inner == op for inner in found)
    if op.name == "math.sqrt":
        return bool(readers) and all(
            _divisor(reader) is not None and reader.operands[0] != op.results[0]
            for reader in readers
        )
    return False


def _bound(op: ir.Operation) -> str | None:
    """A select that bounds a number by a constant, as one minimum or maximum."""
    if op.name != "arith.select":
        return None
    condition, first, second = op.operands
    compare = ops.defining_op(condition)
    numbers = [ops.constant(first), ops.constant(second)]
    known = [number for number in numbers if isinstance(number, float)]
    if compare is None or compare.name != "arith.cmpf" or len(known) != 1:
        return None
    # Zeros may differ in their sign.
    if known[0] == 0.0 or math.isnan(known[0]):
        return None
    predicate = compare.attributes["predicate"].value
    sides = list(compare.operands)
    if sides not in ([first, second], [second, first]) or predicate not in _LESS | _GREATER:
        return None
    smaller = (predicate in _LESS) == (sides[0] == first)
    function = "tl.minimum" if smaller else "tl.maximum"
    # Of a NaN and the constant, which is taken: the first where the comparison holds.
    taken = numbers[0] if predicate in _UNORDERED else numbers[1]
    kept = "" if taken is not None else ", propagate_nan=tl.PropagateNan.ALL"
    return f"{function}({{1}}, {{2}}{kept}).to({{1}}.dtype)"
