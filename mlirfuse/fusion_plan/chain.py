"""The value that flows through a plan's program, with the elementwise ops that wait to be written.

Elementwise ops in a row become the body of one `linalg.generic`, which computes in f32 and rounds
once at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlirfuse.fusion_plan.mlir_text import ACCUMULATOR, Body, Module, Read, Tensor

Load = Callable[[Tensor, Sequence[int]], str]
"""The element of a tensor, by the dimensions of the chain's value that index it."""

Pointwise = Callable[[Body, str, Load], str]
"""Writes an elementwise op on the chain's value."""


def loops(rank: int) -> list[str]:
    """Names of the loops over a tensor."""
    return [f"d{i}" for i in range(rank)]


class Chain:
    """The value between two ops of a plan.

    Attributes:
      module: the program.
      value: the tensor that the waiting ops read.
    """

    def __init__(self, module: Module, value: Tensor) -> None:
        self.module = module
        self.value = value
        self._waiting: list[Pointwise] = []

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the value."""
        return self.value.shape

    def pointwise(self, *steps: Pointwise) -> None:
        """Adds elementwise ops."""
        self._waiting.extend(steps)

    def flush(self, dtype: str = ACCUMULATOR, *, force: bool = False) -> Tensor:
        """Writes the waiting ops; the value is of `dtype` then, where there were any or `force`."""
        if not self._waiting and (not force or self.value.dtype == dtype):
            return self.value
        steps, self._waiting = self._waiting, []
        names = loops(len(self.shape))
        reads = self._reads(steps, names)

        def body(b: Body, given: list[str], _: list[str]) -> Sequence[str]:
            values = dict(zip(map(_key, reads), given, strict=True))
            x = given[0]
            for step in steps:
                x = step(b, x, lambda t, axes: values[_key(_read(t, axes, names))])
            return (x,)

        out = Read(self.module.empty(self.shape, dtype), tuple(names))
        (self.value,) = self.module.generic(names, (), reads, (out,), body)
        return self.value

    def _reads(self, steps: Sequence[Pointwise], names: Sequence[str]) -> list[Read]:
        """The operands of the steps, found by writing them once into nothing."""
        found = [Read(self.value, tuple(names))]

        def load(tensor: Tensor, axes: Sequence[int]) -> str:
            read = _read(tensor, axes, names)
            if read not in found:
                found.append(read)
            return "%none"

        scratch = Body(iter(range(1 << 30)))
        for step in steps:
            step(scratch, "%none", load)
        return found

    def become(self, value: Tensor) -> None:
        """Continues with the result of an op that is not elementwise."""
        self.value = value


def _read(tensor: Tensor, axes: Sequence[int], names: Sequence[str]) -> Read:
    return Read(tensor, tuple(names[axis] for axis in axes))


def _key(read: Read) -> tuple[str, tuple[str, ...]]:
    return read.tensor.name, read.indices
