"""Arithmetic on scalars, or on vectors of as many elements, of several element types.

numbers = Numbers(value.type)
numbers.add(numbers.mul(x, y), numbers.constant(1.0))
"""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.builders.tensors import scalar_attribute, scalar_constant
from mlirfuse.structured.ir import analysis_cache

ORDERED = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5}
"""Predicates of `arith.cmpf` that are false where an operand is NaN."""

SIGNED = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}
"""Predicates of `arith.cmpi`, of signed integers."""


def element_of(kind: ir.Type) -> str:
    """The element type of a vector, or the type of a scalar."""
    return str(ir.VectorType(kind).element_type if isinstance(kind, ir.VectorType) else kind)


HALVES = frozenset({"bf16", "f16"})
"""Element types that are computed in f32."""


def replace_in_f32(op: ir.Operation, compute: Callable[[Numbers, ir.Value], ir.Value]) -> None:
    """Replaces an op of one operand, f16, bf16 or f32, by others of f32; erases it."""
    result = op.results[0]
    numbers, kind = Numbers(result.type), element_of(result.type)
    with op.location, ir.InsertionPoint(op):
        x: ir.Value = op.operands[0]
        y = compute(numbers, numbers.op("arith.extf", x) if kind in HALVES else x)
        y = numbers.op("arith.truncf", y, element=kind) if kind in HALVES else y
    result.replace_all_uses_with(y)
    op.erase()


class Numbers:
    """Writes ops at the current insertion point.

    Attributes:
      shape: of the vectors; None for scalars.
      element: the element type of a number where none is given.
      fuses: whether the machine has FMA.
    """

    def __init__(self, kind: ir.Type, element: str = "f32", *, fuses: bool = True) -> None:
        """Begins with the type of one of the numbers."""
        self.element, self.fuses = element, fuses
        self.shape = list(kind.shape) if isinstance(kind, ir.VectorType) else None

    def kind(self, element: str) -> ir.Type:
        """The type of numbers of an element type."""
        single = analysis_cache.parse(ir.Type, element)
        return single if self.shape is None else ir.VectorType.get(self.shape, single)

    def constant(self, number: float, element: str = "") -> ir.Value:
        """The number, in all lanes."""
        element = element or self.element
        if element == "i64" and number >= 1 << 63:
            number -= 1 << 64
        if self.shape is None:
            return scalar_constant(number, element)
        kind = self.kind(element)
        value = ir.DenseElementsAttr.get_splat(kind, scalar_attribute(number, element))
        return ir.Operation.create(
            "arith.constant", results=[kind], attributes={"value": value}
        ).results[0]

    def op(self, name: str, *operands: ir.Value, element: str = "") -> ir.Value:
        """An op whose results have an element type."""
        return ir.Operation.create(
            name, results=[self.kind(element or self.element)], operands=list(operands)
        ).results[0]

    def integer(
        self, name: str, one: ir.Value, other: ir.Value | int, element: str = "i32"
    ) -> ir.Value:
        """An op of `arith` on two integers, the second of which may be a number, also unsigned."""
        held = other if isinstance(other, ir.Value) else self.constant(other, element)
        return self.op(f"arith.{name}", one, held, element=element)

    def add(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """The sum of two numbers."""
        return self.op("arith.addf", one, other)

    def sub(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """The difference of two numbers."""
        return self.op("arith.subf", one, other)

    def mul(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """The product of two numbers."""
        return self.op("arith.mulf", one, other)

    def fma(self, one: ir.Value, other: ir.Value, added: ir.Value | float) -> ir.Value:
        """`one * other + added`, rounded once where the machine has FMA.

        IREE 3.13 makes two ops of `math.fma` on vectors of kernels that it does not vectorize, and
        calls the C library's, which a program lacks, for a machine without FMA.
        """
        third = added if isinstance(added, ir.Value) else self.constant(added)
        if not self.fuses:
            return self.add(self.mul(one, other), third)
        return self.op("math.fma" if self.shape is None else "vector.fma", one, other, third)

    def polynomial(self, x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
        """The polynomial in x, by Horner's rule.

        Args:
          x: the numbers.
          coefficients: those of x^0, x^1, ...
        """
        *rest, total = coefficients
        found = self.constant(total)
        for coefficient in reversed(rest):
            found = self.fma(found, x, coefficient)
        return found

    def compare(self, one: ir.Value, predicate: str, other: ir.Value | float) -> ir.Value:
        """Whether two numbers are ordered so; false where one is NaN."""
        element = element_of(one.type)
        if not isinstance(other, ir.Value):
            other = self.constant(other, element)
        is_float = element.startswith(("f", "bf"))
        number = (ORDERED if is_float else SIGNED)[predicate]
        attribute = analysis_cache.parse(ir.Attribute, f"{number} : i64")
        return ir.Operation.create(
            "arith.cmpf" if is_float else "arith.cmpi",
            results=[self.kind("i1")],
            operands=[one, other],
            attributes={"predicate": attribute},
        ).results[0]

    def select(self, condition: ir.Value, one: ir.Value, other: ir.Value) -> ir.Value:
        """One number where the condition holds, else the other."""
        return ir.Operation.create(
            "arith.select", results=[one.type], operands=[condition, one, other]
        ).results[0]

    def clamp(self, x: ir.Value, least: float, most: float) -> ir.Value:
        """A number between bounds; NaN stays NaN."""
        x = self.select(self.compare(x, "gt", most), self.constant(most), x)
        return self.select(self.compare(x, "lt", least), self.constant(least), x)

    def where_any(
        self,
        condition: ir.Value,
        rare: Callable[[], list[ir.Value]],
        usual: list[ir.Value],
    ) -> list[ir.Value]:
        """Other numbers where a condition holds, which it rarely does.

        Vectors branch where it holds in no lane. Scalars do not: IREE vectorizes their loops.
        """
        if self.shape is None:
            found = rare()
        else:
            some = self._any(condition)
            kinds = [value.type for value in usual]
            branch = ir.Operation.create("scf.if", results=kinds, operands=[some], regions=2)
            forms: tuple[Callable[[], list[ir.Value]], ...] = (rare, lambda: usual)
            for region, form in zip(branch.regions, forms, strict=True):
                with ir.InsertionPoint(region.blocks.append()):
                    ir.Operation.create("scf.yield", operands=form())
            found = list(branch.results)
        return [self.select(condition, one, other) for one, other in zip(found, usual, strict=True)]

    def repeat_while(
        self,
        condition: Callable[[ir.Value], ir.Value],
        step: Callable[[ir.Value], ir.Value],
        start: ir.Value,
    ) -> ir.Value:
        """Repeats a step while a condition holds, of vectors in any lane.

        Args:
          condition: of the numbers so far.
          step: the next numbers; the same where the condition does not hold.
          start: the first numbers.
        """
        loop = ir.Operation.create("scf.while", results=[start.type], operands=[start], regions=2)
        before, after = (
            region.blocks.append(start.type, arg_locs=[ir.Location.current])
            for region in loop.regions
        )
        with ir.InsertionPoint(before):
            (rest,) = before.arguments
            some = self._any(condition(rest))
            ir.Operation.create("scf.condition", operands=[some, rest])
        with ir.InsertionPoint(after):
            ir.Operation.create("scf.yield", operands=[step(after.arguments[0])])
        return loop.results[0]

    def _any(self, condition: ir.Value) -> ir.Value:
        """Whether a condition holds in any lane."""
        if self.shape is None:
            return condition
        return ir.Operation.create(
            "vector.reduction",
            results=[ir.IntegerType.get_signless(1)],
            operands=[condition],
            attributes={"kind": ir.Attribute.parse("#vector.kind<or>")},
        ).results[0]
