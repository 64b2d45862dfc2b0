"""Base of random programs: values, sizes and the text of a function."""

from __future__ import annotations

import collections
import dataclasses
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

SIZES = (1, 2, 3, 4, 5, 8, 16, 17, 33)
"""Sizes of dimensions; 0 occurs with a small probability."""

MAX_ELEMENTS = 1 << 13
"""Maximum size of a tensor, in elements."""

FLOATS = ("f32", "f32", "f32", "f16", "bf16", "f64")
INTEGERS = ("i8", "i32", "i64")

DYNAMIC = 8
"""Size of dynamic dimensions at run time: `mlirfuse.runtime.inputs.DYNAMIC_SIZE`."""

MAX_RESULTS = 8
"""Maximum number of results of a function."""

Shape = tuple[int | None, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the program."""

    name: str
    shape: Shape
    dtype: str

    @property
    def type(self) -> str:
        """Its type."""
        return tensor(self.shape, self.dtype)

    @property
    def is_float(self) -> bool:
        """Whether it holds floats."""
        return self.dtype in FLOATS

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


def tensor(shape: Shape, dtype: str) -> str:
    """The type of a tensor."""
    sizes = ["?" if n is None else str(n) for n in shape]
    return f"tensor<{'x'.join([*sizes, dtype])}>"


def elements(shape: Shape) -> int:
    """Number of elements at run time."""
    total = 1
    for size in shape:
        total *= DYNAMIC if size is None else size
    return total


class Text:
    """A function that is generated step by step."""

    steps: Sequence[Callable[[Any], int]] = ()
    """Possible steps, frequent ones repeated; each returns the count of steps it stands for."""

    def __init__(self, chance: random.Random, name: str, dynamic: bool) -> None:
        self.chance = chance
        self.name = name
        self.dynamic = dynamic
        self.lines: list[str] = []
        self.arguments: list[Value] = []
        self.globals: list[str] = []
        self.values: list[Value] = []
        self.count = 0

    # --- text ------------------------------------------------------------------------------------

    def build(self, steps: int) -> str:
        """The text of the function, after at least that many steps."""
        dtype = self.chance.choice(FLOATS)
        for _ in range(self.chance.randint(1, 3)):
            self.values.append(self.argument(self.shape(), dtype))
        made = 0
        while made < steps:
            made += self.chance.choice(self.steps)(self)
        names = collections.Counter(re.findall(r"%\w+(?:#\d)?", " ".join(self.lines)))
        arguments = {v.name for v in self.arguments}
        # A definition is one mention; that of a loop's second result names only the first.
        unused = [
            v
            for v in self.values
            if v.name not in arguments and names[v.name] <= (0 if "#" in v.name else 1)
        ]
        results = (unused or self.values[-1:])[-MAX_RESULTS:]
        types = ", ".join(v.type for v in results)
        parameters = ", ".join(f"{v.name}: {v.type}" for v in self.arguments)
        return (
            "".join(self.globals)
            + f"func.func @{self.name}({parameters}) -> ({types}) {{\n"
            + "".join(f"  {line}\n" for line in self.lines)
            + f"  return {', '.join(v.name for v in results)} : {types}\n}}\n"
        )

    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text: str) -> None:
        """Appends lines to the body."""
        self.lines += text.splitlines()

    def argument(self, shape: Shape, dtype: str) -> Value:
        """A new argument."""
        value = Value(f"%a{len(self.arguments)}", shape, dtype)
        self.arguments.append(value)
        return value

    def keep(self, name: str, shape: Shape, dtype: str) -> int:
        """Lets later steps use a value; returns the number of steps."""
        self.values.append(Value(name, shape, dtype))
        return 1

    # --- choices ---------------------------------------------------------------------------------

    def shape(self, rank: int | None = None) -> Shape:
        """A random shape."""
        rank = self.chance.choice((0, 1, 2, 2, 2, 3, 3, 4, 5)) if rank is None else rank
        while True:
            sizes: list[int | None] = [self.chance.choice(SIZES) for _ in range(rank)]
            if sizes and self.chance.random() < 0.02:
                sizes[self.chance.randrange(rank)] = 0
            if sizes and self.dynamic:
                sizes[0] = None
            if elements(tuple(sizes)) <= MAX_ELEMENTS:
                return tuple(sizes)

    def pick(self, fits: Callable[[Value], bool]) -> Value | None:
        """A value, more often a late one."""
        found = [v for v in self.values if fits(v)]
        if not found:
            return None
        return found[max(self.chance.randrange(len(found)) for _ in range(4))]

    def columns(self) -> int:
        """A random size of one axis."""
        return self.chance.choice(SIZES[:7])

    # --- transposes ------------------------------------------------------------------------------

    def unary(self) -> int:
        """An op on one value."""
        raise NotImplementedError

    def transposed(self, x: Value, order: Sequence[int]) -> Value:
        """The value with its dimensions in another order."""
        raise NotImplementedError

    def transpose(self) -> int:
        """A transpose of any order."""
        x = self.pick(lambda v: v.rank > 1)
        if x is None:
            return self.unary()
        order = list(range(x.rank))
        self.chance.shuffle(order)
        made = self.transposed(x, order)
        return self.keep(made.name, made.shape, made.dtype)

    # --- layers ----------------------------------------------------------------------------------

    def layer(self, x: Value) -> Value:
        """Some ops on a matrix, with a result of its shape."""
        raise NotImplementedError

    def layers(self) -> int:
        """Several equal layers with different weights."""
        x = self.pick(lambda v: v.rank == 2 and v.is_float and not {None, 0} & {*v.shape})
        if x is None:
            shape = (self.columns(), self.columns())
            x = self.argument(shape, self.chance.choice(FLOATS))
        chance, seed = self.chance, self.chance.random()
        for _ in range(self.chance.randint(4, 7)):
            self.chance = random.Random(seed)
            self.emit("// layer")
            x = self.layer(x)
        self.chance = chance
        return self.keep(x.name, x.shape, x.dtype) + 5
