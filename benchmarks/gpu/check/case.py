"""A case: a random program of one form, written once for its compilation and for its reference.

A case is known by its name and the seed of its run: the machine that compiles it and the one that
runs it make the same one of them.
"""

from __future__ import annotations

import dataclasses
import math
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor

Kind = Literal[
    "normal", "weight", "scale", "shift", "positive", "wave", "special", "mask", "bias", "index"
]

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "i1": torch.bool,
    "i4": torch.int8,
    "i8": torch.int8,
    "i64": torch.int64,
}
"""Our name of an element type -> PyTorch's; i4 are bytes of their value until they are packed."""

FLOATS = ("f16", "bf16", "f32")

TOLERANCES = {"f16": 6e-3, "bf16": 4e-2, "f32": 2e-5}
"""Largest error of an element over its magnitude and the root mean square of all: what a program
keeps between two ops is rounded to its type, some ten times on the way."""

SMALL = 24
"""The largest size of a case that is to be small."""


@dataclasses.dataclass(frozen=True, slots=True)
class Input:
    """A tensor that a program takes.

    Attributes:
      shape: its sizes, a name for a dynamic one.
      kind: which numbers: standard normal ones; weights, whose products keep the magnitude; near
        1; near 0; positive; between -1 and 1; normal ones with infinities and NaN; where a row
        sees a column, with rows that see none; numbers to add to scores, some -inf, and whole
        rows of it; places in an axis.
      dtype: of its elements; empty for the case's.
      limit: of places.
    """

    shape: tuple[int | str, ...]
    kind: Kind = "normal"
    dtype: str = ""
    limit: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """What a form makes of its random choices.

    Attributes:
      program: a function of tensors; of float64 it is its own reference.
      inputs: what it takes.
      dtype: element type of what has no other.
      said: its sizes and variants, for people.
      sizes: of each call: dynamic size -> number.
      step: what a result of integers may be off, where it was rounded from numbers with errors.
      tolerance: instead of the type's.
      text: MLIR of a function `@main`, where PyTorch has no way to say it.
    """

    program: Callable[..., Any]
    inputs: tuple[Input, ...]
    dtype: str
    said: str
    sizes: tuple[Mapping[str, int], ...] = ({},)
    step: float = 0.0
    tolerance: float = 0.0
    text: str = ""

    def dtype_of(self, number: int) -> str:
        """Element type of an input."""
        return self.inputs[number].dtype or self.dtype


class Chance:
    """Random choices, the same wherever they are made: of Python's `random` itself alone."""

    def __init__(self, seed: int, form: str, number: int, *, small: bool = False) -> None:
        self._random = random.Random(f"{seed} {form} {number}")
        self.number = number
        self.small = small

    def below(self, limit: int) -> int:
        """A number from 0 on."""
        return int(self._random.random() * limit)

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return options[self.below(len(options))]

    def likely(self, share: float) -> bool:
        """True so often."""
        return self._random.random() < share

    def size(self, most: int, least: int = 1, multiple: int = 1) -> int:
        """The least, a prime, a power of two or a neighbour of one, or anything.

        Evenly over the scale, but that larger ones are likelier.
        """
        if self.small:
            most = max(least, min(most, SMALL))
        some = round(least * (most / least) ** (self._random.random() ** 0.7))
        near = 1 << round(math.log2(some))
        lowest = self.pick(least, *[some] * 5)
        found = self.pick(lowest, _prime(some), _prime(some), near, near - 1, near + 1, some, some)
        found = max(least, min(most, int(found)))
        return max(multiple, found // multiple * multiple)

    def real(self, *sizes: int) -> int:
        """One of the sizes that models have."""
        return min(SMALL, min(sizes)) if self.small else int(self.pick(*sizes))

    def dtype(self, *names: str) -> str:
        """An element type, f16 or bf16 unless others are named; the turns of cases alternate."""
        names = names or ("f16", "bf16")
        return str(names[self.number % len(names)])


def _prime(most: int) -> int:
    """The largest prime that is no larger; 2 below it."""
    return next(
        (n for n in range(most, 2, -1) if all(n % d for d in range(2, math.isqrt(n) + 1))), 2
    )


Form = Callable[[Chance], Work]


def named(*forms: Form) -> dict[str, Form]:
    """Forms by the names of their functions."""
    return {form.__name__: form for form in forms}


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A form with its random choices made.

    Attributes:
      form: its name.
      number: of the case among those of its form.
      kernel: the pass that has to take it.
      work: the program.
    """

    form: str
    number: int
    kernel: str
    work: Work

    @property
    def name(self) -> str:
        """What it is called, also as a function of a program."""
        return f"{self.form}_{self.number}"


def wide(x: Tensor) -> Tensor:
    """The numbers in which a model computes statistics: f32, and float64 of the reference."""
    return x if x.dtype == torch.float64 else x.float()


def as_before(x: Tensor, other: Tensor) -> Tensor:
    """In the element type of another tensor."""
    return x.to(other.dtype)


def rounded_to_i8(x: Tensor) -> Tensor:
    """Rounds half to even, to i8."""
    return torch.clamp(torch.round(x), -128, 127).to(torch.int8)


def resolved(shape: Sequence[int | str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape with its dynamic sizes."""
    return tuple(sizes[s] if isinstance(s, str) else s for s in shape)


# --- what a program is called with ---------------------------------------------------------------


def make_arguments(case: Case, sizes: Mapping[str, int], device: str) -> list[Tensor]:
    """Arguments of a call, from a seed that the case's name and sizes give."""
    text = f"{case.name} {sorted(sizes.items())}"
    generator = torch.Generator(device).manual_seed(zlib.crc32(text.encode()))
    return [
        _made(given, case.work.dtype_of(number), sizes, generator, device)
        for number, given in enumerate(case.work.inputs)
    ]


def _made(
    given: Input, dtype: str, sizes: Mapping[str, int], generator: torch.Generator, device: str
) -> Tensor:
    shape = resolved(given.shape, sizes)
    kind = DTYPES[dtype]
    if given.kind == "index":
        return torch.randint(0, given.limit, shape, generator=generator, device=device).to(kind)
    if dtype in ("i4", "i8"):
        bound = 8 if dtype == "i4" else 128
        return torch.randint(-bound, bound, shape, generator=generator, device=device).to(kind)
    if given.kind == "mask":
        return _with_blind_rows(torch.rand(shape, generator=generator, device=device) < 0.7, False)
    if given.kind in ("positive", "wave"):
        x = torch.rand(shape, generator=generator, device=device)
        return (x + 0.5 if given.kind == "positive" else 2 * x - 1).to(kind)
    x = torch.randn(shape, generator=generator, device=device)
    if given.kind == "weight":
        return (x / math.sqrt(max(1, math.prod(shape[1:])))).to(kind)
    if given.kind == "bias":
        seen = torch.rand(shape, generator=generator, device=device) < 0.8
        return _with_blind_rows(torch.where(seen, x, -torch.inf), -torch.inf).to(kind)
    if given.kind == "special":
        return _special(x).to(kind)
    return {"normal": x, "scale": 1 + 0.1 * x, "shift": 0.1 * x}[given.kind].to(kind)


def _with_blind_rows(x: Tensor, value: float) -> Tensor:
    """With a third of the rows, the second among the first three, of that value alone."""
    flat = x.reshape(-1, x.shape[-1])
    flat[1::3] = value
    return flat.reshape(x.shape)


def _special(x: Tensor) -> Tensor:
    """With infinities and NaN in some of the rows."""
    flat = x.reshape(-1, x.shape[-1])
    last = flat.shape[1] - 1
    for row, (column, value) in enumerate(
        ((last // 2, math.inf), (0, -math.inf), (last, math.nan), (last // 3, -math.inf))
    ):
        flat[3 * row + 1 :: 17, column] = value
    flat[2::17] = -math.inf
    return flat.reshape(x.shape)


def reference(work: Work, arguments: Sequence[Tensor]) -> list[Tensor]:
    """The results in float64, of the program itself."""
    exact = [t if t.dtype in (torch.bool, torch.int64) else t.double() for t in arguments]
    with torch.inference_mode():
        return listed(work.program(*exact))


def listed(found: Any) -> list[Tensor]:
    """Results as a list."""
    return list(found) if isinstance(found, tuple | list) else [found]
