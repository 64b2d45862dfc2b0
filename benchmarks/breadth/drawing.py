"""Programs of a seed: the same in each process that asks for them.

program = draw(seed=7, index=12)
program.call(*program.tensors("cuda"))

Each program has one class of `CLASSES`, with sizes that are log-uniform and often odd. Programs for
a CPU (`cpu=True`) have a 32nd of the elements and operations, and more of them are f32.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}

_SHARES = {"f16": 0.4, "bf16": 0.2, "f32": 0.4}
"""Share of the programs of each element type."""

_CPU_SHARES = {"f16": 0.1, "bf16": 0.2, "f32": 0.7}
"""The same of programs for a CPU, of whose instructions few take halves."""

CPU_FRACTION = 32
"""Elements and operations of programs for a GPU over those for a CPU with a few cores."""

CPU_SUFFIX = "-cpu"
"""The end of the names of programs for a CPU."""

Call = Callable[..., Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a program.

    Attributes:
      shape: its sizes.
      kind: `normal`, `uniform` (0 to 1), `weight` (normal over the root of `bound`), or `index`.
      bound: number of terms of a weight's sums; upper limit of an index.
      order: order of its axes in memory; empty for row-major.
    """

    shape: tuple[int, ...]
    kind: str = "normal"
    bound: int = 0
    order: tuple[int, ...] = ()

    @property
    def stored(self) -> tuple[int, ...]:
        """Its sizes in the order of its memory."""
        return tuple(self.shape[dim] for dim in self.order) if self.order else self.shape

    def of_stored(self, tensor: torch.Tensor) -> torch.Tensor:
        """The argument whose memory a row-major tensor is."""
        axes = [self.order.index(dim) for dim in range(len(self.order))]
        return tensor.permute(axes) if axes else tensor


@dataclasses.dataclass(frozen=True, slots=True)
class Drawn:
    """A function on tensors and its arguments, without an element type.

    Attributes:
      text: the function, as a reader would write it.
      call: the function.
      arguments: its arguments.
      flops: operations of its contractions.
    """

    text: str
    call: Call
    arguments: tuple[Argument, ...]
    flops: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A program of a seed.

    Attributes:
      name: seed and index, and `CPU_SUFFIX` of a program for a CPU.
      family: its class.
      dtype: key of `DTYPES`.
      drawn: the function and its arguments.
    """

    name: str
    family: str
    dtype: str
    drawn: Drawn

    @property
    def text(self) -> str:
        """The function with the shapes of its arguments."""
        shapes = ", ".join("x".join(map(str, a.shape)) or "scalar" for a in self.drawn.arguments)
        return f"{self.drawn.text} on {shapes}"

    @property
    def factors(self) -> int:
        """Numbers of which its results are products; 0 where they are not."""
        if ".prod(" not in self.drawn.text:
            return 0
        return max(math.prod(argument.shape) for argument in self.drawn.arguments)

    def call(self, *tensors: torch.Tensor) -> Any:
        """Runs it in PyTorch."""
        return self.drawn.call(*tensors)

    def tensors(self, device: str) -> list[torch.Tensor]:
        """Its arguments, from a seed derived from its name."""
        generator = torch.Generator(device).manual_seed(random.Random(self.name).getrandbits(32))
        return [_made(a, DTYPES[self.dtype], generator, device) for a in self.drawn.arguments]


def _made(
    argument: Argument, dtype: torch.dtype, generator: torch.Generator, device: str
) -> torch.Tensor:
    stored = argument.stored
    if argument.kind == "index":
        found = torch.randint(argument.bound, stored, generator=generator, device=device)
    elif argument.kind == "uniform":
        found = torch.rand(stored, generator=generator, device=device).to(dtype)
    else:
        scale = 1 / math.sqrt(argument.bound) if argument.kind == "weight" else 1.0
        found = (torch.randn(stored, generator=generator, device=device) * scale).to(dtype)
    return argument.of_stored(found)


class Draw:
    """Random numbers of one program.

    Args:
      name: the seed.
      fraction: divisor of its limits.
    """

    def __init__(self, name: str, fraction: int = 1) -> None:
        self.random = random.Random(name)
        self._fraction = fraction

    def limit(self, number: float) -> float:
        """A limit of elements or operations, given that of a program for a GPU."""
        return number / self._fraction

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self.random.random() < share

    def one(self, *choices: Any) -> Any:
        """One of the choices."""
        return self.random.choice(choices)

    def size(self, low: int, high: int) -> int:
        """A log-uniform size; a multiple of 8, of 64 or a power of two in half of the draws."""
        exact = math.exp(self.random.uniform(math.log(low), math.log(high)))
        multiple = self.one(1, 1, 8, 64, 0)
        if not multiple:
            return int(2 ** round(math.log2(exact)))
        return max(low, round(exact / multiple) * multiple)

    def shape(self, rank: int, elements: float) -> tuple[int, ...]:
        """Sizes with about this product."""
        left, sizes = elements, []
        for more in range(rank - 1, 0, -1):
            size = self.size(2, max(3, int(left ** (1.5 / (more + 1)))))
            sizes.append(size)
            left = max(1.0, left / size)
        multiple = self.one(1, 1, 8, 64)
        sizes.append(max(1, round(left / multiple) * multiple))
        self.random.shuffle(sizes)
        return tuple(sizes)

    def elements(self, low: int = 18, high: int = 27) -> float:
        """A log-uniform number of elements between powers of two."""
        return self.limit(2 ** self.random.uniform(low, high))

    def order(self, rank: int, share: float = 0.2) -> tuple[int, ...]:
        """An order of axes in memory, mostly row-major."""
        if rank < 2 or not self.chance(share):
            return ()
        return tuple(self.random.sample(range(rank), rank))


Family = Callable[[Draw], Drawn]


def draw(
    seed: int, index: int, classes: Sequence[tuple[str, float, Family]], *, cpu: bool = False
) -> Program:
    """The program of an index."""
    name = f"{seed}-{index}{CPU_SUFFIX if cpu else ''}"
    made, shares = Draw(name, CPU_FRACTION if cpu else 1), _CPU_SHARES if cpu else _SHARES
    dtype = made.random.choices([*shares], [*shares.values()])[0]
    weights = [weight for _, weight, _ in classes]
    family, _, function = made.random.choices(classes, weights)[0]
    return Program(name, family, dtype, function(made))
