"""Writes the results of a sort: indices of the first elements of rows, and what they index."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import POINTERS, TYPES
from mlirfuse.kernels.sort.analysis import SortAnalysis
from mlirfuse.kernels.sort.offsets import result_offset, source_offset
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class Stores:
    """The last lines of a kernel.

    Attributes:
      lines: they read `row`, `place`, `index` or `element`, and `written`, the mask of all stores.
      operands: tensors that they read.
      arguments: names and types of pointers to operands, then to the results.
    """

    lines: tuple[str, ...]
    operands: tuple[ir.Value, ...]
    arguments: tuple[tuple[str, str], ...]


def stores(analysis: SortAnalysis, *, has_source: bool) -> Stores:
    """The lines that write the results.

    Args:
      analysis: the sort.
      has_source: whether the kernel has the sorted tensor as `x0`.
    """
    source = analysis.order.source
    held = has_source or analysis.has_keys_alone
    read = [value for value in analysis.payloads if not held or value != source]
    names = {value: f"x{n + has_source}" for n, value in enumerate(read)}
    if has_source:
        names[source] = "x0"
    lines = []
    for number, result in enumerate(analysis.results):
        value = "element" if analysis.has_keys_alone else "index"
        if result.payload is not None and not analysis.has_keys_alone:
            value = f"value{number}"
            element = f"{names[result.payload]} + {source_offset(analysis, 'index')}"
            lines.append(f"{value} = tl.load({element}, mask=written, other=0)")
        place = result_offset(analysis, result, "place")
        kind = TYPES[ops.element_type(result.value)]
        lines.append(f"tl.store(y{number} + {place}, {value}.to({kind}), mask=written)")
    written = [(f"y{n}", one.value) for n, one in enumerate(analysis.results)]
    pointers = [*((names[value], value) for value in read), *written]
    arguments = tuple((name, POINTERS[ops.element_type(value)]) for name, value in pointers)
    return Stores(tuple(lines), tuple(read), arguments)
