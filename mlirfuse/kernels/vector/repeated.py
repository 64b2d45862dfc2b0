"""Kernels of regions that are alike, written once in a run.

A pass plans a kernel when it matches and again when it rewrites, and layers repeat their regions: a
kernel is text, and depends on the ops of a region, on constants and views outside of it, and on
the types of its other operands. Data of weights is no part of a text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.structured.ir import analysis_cache, ops

_CONSTANT = "arith.constant"

_LOOKED_THROUGH = ops.RESHAPES | {"tensor.extract_slice", "linalg.fill", "tensor.empty", _CONSTANT}
"""Ops outside of a region that kernels look at; of others they see the type of the result."""


def once(
    group: Sequence[ir.Operation],
    results: Sequence[ir.Value],
    about: Hashable,
    write: Callable[[], VectorKernel],
) -> VectorKernel:
    """The kernel of a group of ops, from one that was written for a group like it, if there is one.

    Args:
      group: the ops, in block order.
      results: the values of which the kernel has results.
      about: all that the writer takes from elsewhere, such as tiles.
      write: writes the kernel of this group.
    """
    found = _Description()
    for op in group:
        found.add(op)
    known = analysis_cache.current().kept
    key = (about, tuple(found.parts), tuple(found.number(value) for value in results))
    template: _Template | None = known.get(key)
    if template is None:
        kernel = write()
        known[key] = _Template.of(kernel, found.numbers)
        return kernel
    values = list(found.numbers)
    operands = tuple(
        values[number] if isinstance(number, int) else number for number in template.operands
    )
    return dataclasses.replace(template.kernel, operands=operands)


@dataclasses.dataclass(frozen=True, slots=True)
class _Template:
    """A kernel whose operands are numbers of values.

    Attributes:
      kernel: the kernel, without operands.
      operands: numbers of values as `_Description` counts them, and names of those made for it.
    """

    kernel: VectorKernel
    operands: tuple[int | str, ...]

    @classmethod
    def of(cls, kernel: VectorKernel, numbers: dict[ir.Value, int]) -> _Template:
        operands = tuple(v if isinstance(v, str) else numbers[v] for v in kernel.operands)
        return cls(dataclasses.replace(kernel, operands=()), operands)


class _Description:
    """Ops without the names of their values.

    Attributes:
      parts: ops and values from outside, with the numbers of the values that they read.
      numbers: value -> its number, in the order of the first use.
    """

    def __init__(self) -> None:
        self.parts: list[Hashable] = []
        self.numbers: dict[ir.Value, int] = {}

    def add(self, op: ir.Operation) -> None:
        """Adds an op of the group or in one, after those that it reads."""
        self._describe(op, _attributes(op))
        for region in op.regions:
            for block in region:
                self.parts.append(tuple(argument.type for argument in block.arguments))
                self._count(block.arguments)
                for inner in block.operations:
                    self.add(inner.operation)
            self.parts.append("end")
        self._count(op.results)

    def number(self, value: ir.Value) -> int:
        """The number of a value, which is described where it is new."""
        if value not in self.numbers:
            op = ops.defining_op(value)
            if op is None or op.name not in _LOOKED_THROUGH:
                self.parts.append(value.type)
                self._count([value])
            else:
                self._describe(op, () if _is_weight(op) else _attributes(op))
                self._count(op.results)
        return self.numbers[value]

    def _describe(self, op: ir.Operation, attributes: Hashable) -> None:
        read = tuple(map(self.number, op.operands))
        kinds = tuple(result.type for result in op.results)
        self.parts.append((op.name, attributes, kinds, read))

    def _count(self, values: Iterable[ir.Value]) -> None:
        for value in values:
            self.numbers[value] = len(self.numbers)


def _attributes(op: ir.Operation) -> Hashable:
    return tuple((name, op.attributes[name]) for name in op.attributes)


def _is_weight(op: ir.Operation) -> bool:
    """Whether an op is a constant whose data is no part of a kernel."""
    if op.name != _CONSTANT or ops.ranked(op.results[0]) is None:
        return False
    value = op.attributes["value"]
    return not (isinstance(value, ir.DenseElementsAttr) and value.is_splat)
