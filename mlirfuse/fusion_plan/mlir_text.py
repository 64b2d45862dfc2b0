"""Writes linalg on tensors as text: the program of a plan, without a compiler at hand."""

from __future__ import annotations

import dataclasses
import itertools
import struct
from collections.abc import Callable, Iterator, Sequence

ACCUMULATOR = "f32"
"""Element type of sums and of all arithmetic between the input and the output."""

_FLOATS = {"f16": 16, "bf16": 16, "f32": 32}


@dataclasses.dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor value of the program.

    Attributes:
      name: its SSA name.
      shape: sizes.
      dtype: element type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def type(self) -> str:
        """The type in MLIR."""
        return f"tensor<{'x'.join([*map(str, self.shape), self.dtype])}>"


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """An operand of a `linalg.generic`, input or result.

    Attributes:
      tensor: the tensor.
      indices: expression of the loops for each of its dimensions.
    """

    tensor: Tensor
    indices: tuple[str, ...]


class Body:
    """The scalar ops in the body of a `linalg.generic`; values are SSA names, floats f32."""

    def __init__(self, names: Iterator[int]) -> None:
        self.lines: list[str] = []
        self._names = names
        self._constants: dict[float, str] = {}

    def line(self, text: str) -> str:
        """Adds an op, and returns the name of its result."""
        name = f"%s{next(self._names)}"
        self.lines.append(f"{name} = {text}")
        return name

    def op(self, name: str, *operands: str, dtype: str = ACCUMULATOR) -> str:
        """Adds an op on values of one type."""
        return self.line(f"{name} {', '.join(operands)} : {dtype}")

    def constant(self, value: float) -> str:
        """The constant, one for each value."""
        if value not in self._constants:
            text = f"arith.constant {float_text(value)} : {ACCUMULATOR}"
            self._constants[value] = self.line(text)
        return self._constants[value]

    def compare(self, predicate: str, left: str, right: str) -> str:
        """A comparison of floats, an i1."""
        return self.line(f"arith.cmpf {predicate}, {left}, {right} : {ACCUMULATOR}")

    def select(self, condition: str, yes: str, no: str) -> str:
        """One of two values."""
        return self.line(f"arith.select {condition}, {yes}, {no} : {ACCUMULATOR}")

    def power(self, base: str, exponent: str) -> str:
        """A power of a base above 0."""
        return self.op("math.exp", self.op("arith.mulf", exponent, self.op("math.log", base)))

    def widened(self, value: str, dtype: str) -> str:
        """The value as f32."""
        if dtype == ACCUMULATOR:
            return value
        if dtype in _FLOATS:
            return self.line(f"arith.extf {value} : {dtype} to {ACCUMULATOR}")
        return self.line(f"arith.sitofp {value} : {dtype} to {ACCUMULATOR}")

    def narrowed(self, value: str, dtype: str) -> str:
        """A value of f32 in another float type, rounded, or as an integer that it is."""
        if dtype == ACCUMULATOR:
            return value
        name = "arith.truncf" if dtype in _FLOATS else "arith.fptosi"
        return self.line(f"{name} {value} : {ACCUMULATOR} to {dtype}")


Step = Callable[[Body, list[str], list[str]], Sequence[str]]
"""Writes a body: from values of the inputs and accumulators to the results."""


class Module:
    """The text of one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names = itertools.count()

    def tensor(self, text: str, shape: Sequence[int], dtype: str) -> Tensor:
        """Adds an op that gives one tensor."""
        made = Tensor(f"%{next(self.names)}", tuple(shape), dtype)
        self.lines.append(f"{made.name} = {text}")
        return made

    def empty(self, shape: Sequence[int], dtype: str = ACCUMULATOR) -> Tensor:
        """A tensor without values."""
        made = Tensor("", tuple(shape), dtype)
        return self.tensor(f"tensor.empty() : {made.type}", shape, dtype)

    def filled(self, value: float, shape: Sequence[int], dtype: str = ACCUMULATOR) -> Tensor:
        """A tensor of one value."""
        init = self.empty(shape, dtype)
        scalar = self.scalar(value, dtype)
        text = f"linalg.fill ins({scalar} : {dtype}) outs({init.name} : {init.type}) -> {init.type}"
        return self.tensor(text, shape, dtype)

    def scalar(self, value: float, dtype: str = ACCUMULATOR) -> str:
        """A constant outside of bodies."""
        name = f"%{next(self.names)}"
        self.lines.append(f"{name} = arith.constant {float_text(value, dtype)} : {dtype}")
        return name

    def reshaped(
        self, source: Tensor, groups: Sequence[Sequence[int]], shape: Sequence[int]
    ) -> Tensor:
        """The tensor with dimensions split or merged, whichever changes its rank."""
        target = Tensor("", tuple(shape), source.dtype)
        listed = ", ".join(f"[{', '.join(map(str, group))}]" for group in groups)
        if len(shape) > len(source.shape):
            sizes = f" output_shape [{', '.join(map(str, shape))}]"
            kind = "tensor.expand_shape"
        else:
            sizes, kind = "", "tensor.collapse_shape"
        text = f"{kind} {source.name} [{listed}]{sizes} : {source.type} into {target.type}"
        return self.tensor(text, shape, source.dtype)

    def padded(
        self, source: Tensor, low: Sequence[int], high: Sequence[int], value: float
    ) -> Tensor:
        """The tensor with a border of one value; itself where the border is empty."""
        if not any(low) and not any(high):
            return source
        shape = [a + s + b for a, s, b in zip(low, source.shape, high, strict=True)]
        scalar = self.scalar(value, source.dtype)
        indices = ", ".join(f"%p{next(self.names)}: index" for _ in shape)
        result = Tensor("", tuple(shape), source.dtype)
        text = (
            f"tensor.pad {source.name} low[{_listed(low)}] high[{_listed(high)}] {{\n"
            f"    ^bb0({indices}):\n      tensor.yield {scalar} : {source.dtype}\n"
            f"    }} : {source.type} to {result.type}"
        )
        return self.tensor(text, shape, source.dtype)

    def generic(
        self,
        loops: Sequence[str],
        reductions: Sequence[str],
        inputs: Sequence[Read],
        outputs: Sequence[Read],
        step: Step,
    ) -> list[Tensor]:
        """A `linalg.generic` whose body computes in f32.

        Args:
          loops: names of the loops, outermost first.
          reductions: the loops that are reductions.
          inputs: operands; the body gets them as f32.
          outputs: initial values of the results; the body gets them where there are reductions.
          step: writes the body.
        """
        body = Body(self.names)
        reads = [*inputs, *outputs]
        arguments = [f"%a{next(self.names)}" for _ in reads]
        used = reads if reductions else inputs
        wide = [body.widened(a, r.tensor.dtype) for a, r in zip(arguments, used, strict=False)]
        results = step(body, wide[: len(inputs)], wide[len(inputs) :])
        narrow = [body.narrowed(v, r.tensor.dtype) for v, r in zip(results, outputs, strict=True)]
        maps = ", ".join(
            f"affine_map<({', '.join(loops)}) -> ({', '.join(r.indices)})>" for r in reads
        )
        kinds = ", ".join(
            f'"{"reduction" if loop in reductions else "parallel"}"' for loop in loops
        )
        types = [r.tensor.type for r in outputs]
        block = ", ".join(f"{a}: {r.tensor.dtype}" for a, r in zip(arguments, reads, strict=True))
        ins = f" ins({_operands(inputs)})" if inputs else ""
        made = [Tensor(f"%{next(self.names)}", r.tensor.shape, r.tensor.dtype) for r in outputs]
        head = ", ".join(t.name for t in made)
        inner = "".join(f"      {line}\n" for line in body.lines)
        element_types = ", ".join(r.tensor.dtype for r in outputs)
        self.lines.append(
            f"{head} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}"
            f"{ins} outs({_operands(outputs)}) {{\n    ^bb0({block}):\n{inner}"
            f"      linalg.yield {', '.join(narrow)} : {element_types}\n"
            f"    }} -> {types[0] if len(types) == 1 else '(' + ', '.join(types) + ')'}"
        )
        return made

    def text(self, arguments: Sequence[Tensor], results: Sequence[Tensor]) -> str:
        """The module with the function `main`."""
        listed = ", ".join(f"{a.name}: {a.type}" for a in arguments)
        types = ", ".join(r.type for r in results)
        body = "".join(f"  {line}\n" for line in self.lines)
        names = ", ".join(r.name for r in results)
        return f"func.func @main({listed}) -> ({types}) {{\n{body}  return {names} : {types}\n}}\n"


def float_text(value: float, dtype: str = ACCUMULATOR) -> str:
    """A float in MLIR's spelling; infinities as bits."""
    if value in (float("inf"), float("-inf")):
        if dtype == "f16":
            return "0x7C00" if value > 0 else "0xFC00"
        bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
        return f"0x{bits >> 16:04X}" if dtype == "bf16" else f"0x{bits:08X}"
    return f"{value:.17e}"


def _operands(reads: Sequence[Read]) -> str:
    names = ", ".join(r.tensor.name for r in reads)
    return f"{names} : {', '.join(r.tensor.type for r in reads)}"


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
