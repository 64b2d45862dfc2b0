"""Scalar bodies of linalg ops as lines of a Triton kernel.

Every value is a tile, or a scalar that all elements of the tile share. Tiles have two dimensions
and broadcast. Element types are those of the MLIR: bf16 is computed in f32 and rounded after each
operation, which gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.builders.numbers import HALVES
from mlirfuse.kernels.codegen.element_types import TYPES, Unsupported, literal
from mlirfuse.kernels.codegen.index_ranges import IndexRanges
from mlirfuse.kernels.codegen.scalar_expressions import (
    bound_expression,
    constant_divisor,
    is_folded,
    plus_one_operand,
    scalar_expression,
)
from mlirfuse.kernels.codegen.scalar_forms import ABOVE, FLOAT
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.structured.ir import ops

MIN_I8, MAX_I8 = -128.0, 127.0

LONG_FUNCTIONS = frozenset(
    f"math.{name}"
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh"),
        *("erf", "erfc", "powf", "sin", "sinh", "tan", "tanh"),
    )
)
"""Functions whose code is long."""

MAX_ROUNDED_OPS = 8
"""Elementwise ops in a row of which the last one rounds, at most."""

MAX_FACTORS = 8
"""Factors of a power with a constant exponent, at most."""


def is_rounded(block: ir.Block) -> bool:
    """Whether a body yields f16 or bf16 alone, or numbers that elementwise ops round to these."""
    yielded = [str(v.type) for v in list(block.operations)[-1].operation.operands]
    if yielded and HALVES.issuperset(yielded):
        return True
    owner = block.owner.operation
    return ops.is_elementwise(owner) and _is_rounded_later(owner)


def _is_rounded_later(op: ir.Operation) -> bool:
    """Whether elementwise users of an op yield f16 or bf16, or their users do, and no others."""
    level = [op]
    for _ in range(MAX_ROUNDED_OPS):
        later: dict[ir.Operation, None] = {}
        for made in level:
            users = [use.owner.operation for value in made.results for use in value.uses]
            # A user in a scalar body reads elements; no analysis is cached about it.
            if not all(user.name.startswith("linalg.") for user in users):
                return False
            if not users or not all(map(ops.is_elementwise, users)):
                return False
            later.update(
                (user, None)
                for user in users
                if any(ops.element_type(value) not in HALVES for value in user.results)
            )
        if not later:
            return True
        level = [*later]
    return False


class Body:
    """Translates scalar bodies, line by line.

    Attributes:
      writer: the lines of the kernel.
      types: element types in Triton's spelling, `TYPES` or `WIDE`.
      short: whether all results are rounded to 16 bits or less, so that `SHORT` forms will do, as
        they do for bodies whose results are rounded, and for ops of f16 and bf16.
      layout: layout of the tiles, where the lines are Gluon's; empty for Triton.
      large: whether a thread has many elements of a tile, as in the epilogue of a contraction.
      outer: names of scalars that bodies read from outside of their ops.
    """

    def __init__(
        self, types: Mapping[str, str] = TYPES, *, short: bool = False, layout: str = ""
    ) -> None:
        self.writer = Writer()
        self.types = types
        self.short = short
        self.layout = layout
        self.large = False
        self.outer: dict[ir.Value, str] = {}
        # Name of a whole number -> the name before rounding, and its lower and upper bound.
        self._whole: dict[str, tuple[str, float, float]] = {}
        self._ranges = IndexRanges() if types["index"] == TYPES["i32"] and not layout else None

    def name(self, text: str) -> str:
        """Gives the value of an expression a name."""
        return self.writer.name(text)

    def block(
        self,
        block: ir.Block,
        arguments: Sequence[str | None],
        loop_index: Callable[[int], str],
        skip: Collection[ir.Operation] = (),
        gather: Callable[[ir.Operation, Sequence[str]], str] | None = None,
    ) -> dict[ir.Value, str]:
        """The names of the values of a body.

        Args:
          block: the body.
          arguments: the tile of each block argument; None for one without users.
          loop_index: writes the index of a loop, for `linalg.index`.
          skip: ops that are left out.
          gather: writes the elements that a `tensor.extract` reads at given indices; None where
            there are none.

        Raises:
          Unsupported: an op without translation.
        """
        known = {
            argument: name
            for argument, name in zip(block.arguments, arguments, strict=True)
            if name is not None
        }

        def read(value: ir.Value) -> str:
            if value not in known and value in self.outer:
                known[value] = self.outer[value]
            elif value not in known:
                number = ops.constant(value)
                if number is None:
                    raise Unsupported("a scalar from outside its op")
                known[value] = self.name(literal(number, str(value.type), self.types, self.layout))
            return known[value]

        rounded = self.short or is_rounded(block)
        for op in (o.operation for o in block.operations):
            if op in skip or op.name in (
                "linalg.yield",
                "iree_linalg_ext.yield",
                "cf.assert",  # as IREE does on GPUs
            ):
                continue
            short = self._is_short(op, rounded)
            if is_folded(op, short=short):
                continue
            if op.name == "linalg.index":
                text = loop_index(op.attributes["dim"].value)
                zero = literal(0, "index", self.types, self.layout)
                known[op.results[0]] = self.name(f"{text} + {zero}")
                if self._ranges is not None:
                    self._ranges.note_index(known[op.results[0]], op)
            elif op.name == "tensor.extract" and gather is not None:
                indices = [read(v) for v in list(op.operands)[1:]]
                known[op.results[0]] = self.name(gather(op, indices))
            elif op.name == "arith.constant":
                read(op.results[0])
            elif op.name in ("math.fpowi", "math.ipowi"):
                known[op.results[0]] = self._power(op, [read(v) for v in op.operands])
            elif (inner := plus_one_operand(op, short=short)) is not None:
                form = ABOVE[inner.name]
                known[op.results[0]] = self.name(form.format(read(inner.operands[0])))
            elif short and (number := constant_divisor(op)) is not None:
                inverse = self.name(literal(1.0 / number, "f32", self.types, self.layout))
                known[op.results[0]] = self.name(f"{read(op.operands[0])} * {inverse}")
            else:
                operands = [read(v) for v in op.operands]
                if self._ranges is not None:
                    narrow = self._ranges.computed(op, operands, self.name)
                    if narrow is not None:
                        known[op.results[0]] = narrow
                        continue
                    operands = self._ranges.widened(op, operands)
                text = self._byte(op, operands) or scalar_expression(
                    op,
                    operands,
                    self.types,
                    short,
                    gluon=bool(self.layout),
                    large=self.large,
                )
                known[op.results[0]] = self.name(text)
                self._note_whole(op, operands, known[op.results[0]])
        for value in list(block.operations)[-1].operation.operands:
            owner = value.owner
            place = owner if isinstance(owner, ir.Block) else owner.operation.block
            if place != block or ops.constant(value) is not None:
                read(value)
        return known

    def _note_whole(self, op: ir.Operation, operands: Sequence[str], name: str) -> None:
        """Records a whole number: one that was rounded, or one with a bound."""
        if op.name == "math.roundeven":
            self._whole[name] = operands[0], -math.inf, math.inf
        text = bound_expression(op) or FLOAT.get(op.name, "")
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
        if low < MIN_I8 or high > MAX_I8:
            return None
        return f"library.byte({start}, {low!r}, {high!r})"

    def _is_short(self, op: ir.Operation, rounded: bool) -> bool:
        """Whether an op is computed in f32, and its result or all results have 16 bits or less."""
        kinds = [str(value.type) for value in op.results]
        narrow = rounded or (len(kinds) == 1 and kinds[0] in HALVES)
        return narrow and [self.types.get(kind) for kind in kinds] == ["tl.float32"]

    def _power(self, op: ir.Operation, operands: Sequence[str]) -> str:
        """A power with a whole exponent: products where it is a small constant."""
        exponent, kind = ops.constant(op.operands[1]), str(op.results[0].type)
        floating = op.name == "math.fpowi"
        if kind not in self.types:
            raise Unsupported(f"{op.name} of type {kind}")
        wide = ("tl.float64" if kind == "f64" else "tl.float32") if floating else self.types[kind]
        base = f"{operands[0]}.to({wide})"
        lowest = -MAX_FACTORS if floating else 1
        if isinstance(exponent, int) and exponent and lowest <= exponent <= MAX_FACTORS:
            text = " * ".join([base] * abs(exponent))
            text = f"1.0 / ({text})" if exponent < 0 else text
        elif floating:
            text = f"library.power({base}, {operands[1]}.to({wide}))"
        else:
            raise Unsupported(f"math.ipowi with the exponent {exponent}")
        return self.name(f"({text}).to({self.types[kind]})")
