"""The text of a kernel's function in SSA form.

total = writer.value("arith.addi %a, %b : index")              %v1 = arith.addi ...
at = writer.index(Linear({"%row": 64}, 3))                     64 * %row + 3
(sum,) = writer.loop("%c0", at, 1, ["%zero"], ["f32"], body)   scf.for with carried values
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from mlirfuse.kernels.codegen.writer import Lines
from mlirfuse.kernels.vector.register_tiles import CACHE_LINE


@dataclasses.dataclass(slots=True)
class Linear:
    """A sum of values times constants, and a constant: an index. It is never changed.

    Attributes:
      terms: value -> its factor.
      constant: the constant.
    """

    terms: Mapping[str, int] = dataclasses.field(default_factory=dict)
    constant: int = 0

    def __add__(self, other: Linear | int) -> Linear:
        """The sum."""
        if isinstance(other, int):
            return Linear(self.terms, self.constant + other)
        if not other.terms:
            return Linear(self.terms, self.constant + other.constant)
        terms = dict(self.terms)
        for name, factor in other.terms.items():
            terms[name] = terms.get(name, 0) + factor
        return Linear({n: f for n, f in terms.items() if f}, self.constant + other.constant)

    def __mul__(self, factor: int) -> Linear:
        """The product with a number."""
        if factor == 0:
            return Linear()
        return Linear({n: f * factor for n, f in self.terms.items()}, self.constant * factor)

    @property
    def is_constant(self) -> bool:
        """Whether it has no terms."""
        return not self.terms


def linear(value: str | int | Linear) -> Linear:
    """A value, a number or a sum as a sum."""
    if isinstance(value, Linear):
        return value
    return Linear(constant=value) if isinstance(value, int) else Linear({value: 1})


SPECIAL_OPERATIONS = 16
"""Operations of an op of `math`, such as an exponential: a polynomial and a power of two."""


def operations(lines: Sequence[str]) -> int:
    """Approximate number of operations of some lines of a kernel."""
    return sum(SPECIAL_OPERATIONS if "math." in line else 1 for line in lines)


class Writer(Lines):
    """Collects the lines of a function's body."""

    def __init__(self) -> None:
        super().__init__()
        self._names = 0
        self._hoisted: dict[str, str] = {}

    def name(self) -> str:
        """A new name of a value."""
        self._names += 1
        return f"%v{self._names}"

    def value(self, text: str) -> str:
        """Writes an op of one result, and returns its name."""
        name = self.name()
        self.line(f"{name} = {text}")
        return name

    def constant(self, literal: str, kind: str) -> str:
        """A constant, defined once at the beginning of the function."""
        return self.hoisted(f"arith.constant {literal} : {kind}")

    def hoisted(self, text: str) -> str:
        """The value of an op without operands, written once at the beginning of the function."""
        name = self._hoisted.get(text)
        if name is None:
            name = self._hoisted[text] = f"%k{len(self._hoisted)}"
        return name

    def stack(self, kind: str, *, use: str = "") -> str:
        """A buffer on the stack, which begins with a line of the cache.

        Args:
          kind: the type of a memref.
          use: names the one buffer of the function for this use and type, which is defined at the
            beginning of the function; empty for a buffer that is defined here.
        """
        named = f' {{use = "{use}"}}' if use else ""
        text = (
            f'"memref.alloca"() <{{alignment = {CACHE_LINE} : i64, operandSegmentSizes ='
            f" array<i32: 0, 0>}}>{named} : () -> {kind}"
        )
        return self.hoisted(text) if use else self.value(text)

    def index(self, index: Linear | int | str) -> str:
        """The value of an index."""
        if isinstance(index, str):
            return index
        if isinstance(index, int):
            return self.constant(str(index), "index")
        if not index.terms:
            return self.constant(str(index.constant), "index")
        total = ""
        for name, factor in index.terms.items():
            part = name
            if factor != 1:
                part = self.value(f"arith.muli {name}, {self.index(factor)} : index")
            total = part if not total else self.value(f"arith.addi {total}, {part} : index")
        if index.constant:
            total = self.value(f"arith.addi {total}, {self.index(index.constant)} : index")
        return total

    def binary(self, op: str, one: Linear | int | str, other: Linear | int | str) -> str:
        """An op of `arith` on two indices: `minsi`, `divui`, ..."""
        return self.value(f"arith.{op} {self.index(one)}, {self.index(other)} : index")

    def split(self, number: Linear | int | str, sizes: Sequence[int]) -> list[Linear]:
        """The indices of axes of these sizes, from their place among all."""
        rest, found = linear(number), list[Linear]()
        for size in reversed(sizes[1:]):
            whole = self.index(rest)
            found.append(linear(self.binary("remui", whole, size)) if size > 1 else Linear())
            rest = linear(self.binary("divui", whole, size)) if size > 1 else rest
        return [*([rest] if sizes else []), *reversed(found)]

    @contextlib.contextmanager
    def block(self, header: str, end: str = "}") -> Iterator[None]:
        """Writes the header of an op with a region, whose body is the `with` block, and its end."""
        with self.indented(header):
            yield
        self.line(end)

    def loop(
        self,
        start: Linear | int | str,
        stop: Linear | int | str,
        step: Linear | int | str,
        carried: Sequence[str],
        kinds: Sequence[str],
        body: Callable[[str, list[str]], Sequence[str]],
    ) -> list[str]:
        """Writes a loop.

        Args:
          start: first index.
          stop: the index before which it ends.
          step: distance of the indices.
          carried: initial values that it carries.
          kinds: their types.
          body: writes an iteration, from its index and the carried values; returns the next ones.

        Returns:
          The carried values after the loop.
        """
        index, result = self.name(), self.name()
        bounds = f"{self.index(start)} to {self.index(stop)} step {self.index(step)}"
        arguments = [self.name() for _ in carried]
        if not carried:
            with self.block(f"scf.for {index} = {bounds} {{"):
                body(index, [])
            return []
        pairs = ", ".join(f"{a} = {v}" for a, v in zip(arguments, carried, strict=True))
        types = ", ".join(kinds)
        header = f"{result}:{len(carried)} = scf.for {index} = {bounds} iter_args({pairs})"
        with self.block(f"{header} -> ({types}) {{"):
            self._yield(body(index, arguments), types)
        return [f"{result}#{n}" for n in range(len(carried))]

    def choose(
        self,
        condition: str,
        kinds: Sequence[str],
        first: Callable[[], Sequence[str]],
        second: Callable[[], Sequence[str]],
    ) -> list[str]:
        """Writes both sides of a condition; each gives values of these types."""
        if not kinds:
            with self.block(f"scf.if {condition} {{", "} else {"):
                first()
            with self.block("// else", "}"):
                second()
            return []
        result, types = self.name(), ", ".join(kinds)
        header = f"{result}:{len(kinds)} = scf.if {condition} -> ({types}) {{"
        with self.block(header, "} else {"):
            self._yield(first(), types)
        with self.block("// else", "}"):
            self._yield(second(), types)
        return [f"{result}#{n}" for n in range(len(kinds))]

    def when(
        self,
        condition: str,
        kinds: Sequence[str],
        held: list[str],
        body: Callable[[list[str]], list[str]],
    ) -> list[str]:
        """Writes a body for a condition; returns its values, or else those that it is given."""
        if kinds:
            return self.choose(condition, kinds, lambda: body(held), lambda: held)
        with self.block(f"scf.if {condition} {{"):
            body(held)
        return []

    def _yield(self, values: Sequence[str], types: str) -> None:
        self.line(f"scf.yield {', '.join(values)} : {types}")

    def text(self) -> list[str]:
        """The lines of the body, the hoisted ones first."""
        return [f"{name} = {text}" for text, name in self._hoisted.items()] + self.lines
