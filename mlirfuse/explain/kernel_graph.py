"""The final program as a graph: kernels as its ops, and the tensors between two kernels as edges.

`--graph` and the HTML report draw it; for a module that was not compiled they draw the groups.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlirfuse.boundaries import Boundary
from mlirfuse.core import Report
from mlirfuse.explain import graph
from mlirfuse.explain.graph import Edge, Graph, Op, Output
from mlirfuse.explain.kernels import tensor
from mlirfuse.final_kernels import FinalKernel, Operand

_Tensor = tuple[str, int]
"""Type of a result of a kernel, and how many results of that type come before it."""


def of_report(report: Report) -> Graph:
    """The kernels of the report's program; its groups where no program was compiled."""
    if not report.kernels:
        return graph.of_report(report)
    results: list[dict[_Tensor, int | None]] = [{} for _ in report.kernels]
    edges = []
    for index, (boundary, result) in enumerate(_results(report.boundaries)):
        written = results[boundary.source]
        written[result] = boundary.bytes
        output = list(written).index(result)
        edges.append(Edge(boundary.source, output, boundary.target, index))
    entries = enumerate(zip(report.kernels, results, strict=True))
    return Graph(ops=tuple(_op(*entry, n) for n, entry in entries), edges=tuple(edges))


def _results(boundaries: Iterable[Boundary]) -> Iterable[tuple[Boundary, _Tensor]]:
    """Each boundary with its result: two of one type between two kernels are two results."""
    count: dict[tuple[int, int, str], int] = {}
    for boundary in boundaries:
        kind = tensor(Operand(boundary.shape, boundary.dtype, boundary.bytes))
        pair = (boundary.source, boundary.target, kind)
        count[pair] = count.get(pair, -1) + 1
        yield boundary, (kind, count[pair])


def _op(kernel: FinalKernel, results: dict[_Tensor, int | None], index: int) -> Op:
    return Op(
        function=kernel.model_function,
        name=kernel.name,
        location=next((place for place in kernel.ops if place != "-"), "-"),
        layer=graph.common_layer([layer for layer in kernel.layers if layer]),
        group=None,
        outputs=tuple(Output(kind, size) for (kind, _), size in results.items()),
        kernel=index,
    )
