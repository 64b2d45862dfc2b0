"""Reads a region of a scan with its elementwise neighbors.

analysis = analyze(region)         ScanAnalysis, the refusal, or None for other regions
problem = problem_of(analysis)     sizes that the configuration is chosen by
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.demand_writer import ALWAYS, MOVEMENTS, Demand, Guard
from mlirfuse.kernels.codegen.element_types import POINTERS, Unsupported
from mlirfuse.kernels.codegen.indices import Index, Shifted, axis_of, linear
from mlirfuse.kernels.codegen.iteration_space import Group, Space
from mlirfuse.kernels.codegen.tile_writer import Tiles, attempted, computing, returned
from mlirfuse.kernels.scan.problem import ScanProblem
from mlirfuse.structured.ir import ops

SCAN = "iree_linalg_ext.scan"

SHARED = "the axes of the results"
"""The axes that the ops of a region have in common."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScanAnalysis:
    """A scan with its elementwise neighbors.

    Attributes:
      group: ops in block order.
      results: values that the region returns, all of one shape.
      scan: the scan.
      index: where the results need the scan: its index along each dimension, in axes of the results
        (all in group 0).
    """

    group: tuple[ir.Operation, ...]
    results: tuple[ir.Value, ...]
    scan: ir.Operation
    index: tuple[Index, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(size or 0 for size in ops.shape(self.results[0]))

    @property
    def dimension(self) -> int:
        """The dimension that is scanned."""
        return int(self.scan.attributes["dimension"].value)

    @property
    def axis(self) -> int:
        """The axis of the results that it is."""
        found = axis_of(self.index[self.dimension])
        assert found is not None
        return found[1]

    @property
    def reversed(self) -> bool:
        """Whether the scan runs from the end of the axis to its start."""
        return isinstance(self.index[self.dimension], Shifted)

    @property
    def inclusive(self) -> bool:
        """Whether each result includes the element at its own index."""
        return bool(self.scan.attributes["inclusive"].value)


def analyze(region: ir.Operation) -> ScanAnalysis | NoMatch | None:
    """Reads a region; None for another kind of region, or the reason why there is no kernel."""
    return analyze_ops(computing(region), returned(region))


def analyze_ops(
    group: Sequence[ir.Operation], results: Sequence[ir.Value]
) -> ScanAnalysis | NoMatch | None:
    """Reads ops that a region has, or would have; None without a scan among them.

    Args:
      group: the ops, in block order.
      results: the values that the region returns.
    """
    scans = [op for op in group if op.name == SCAN]
    if len(scans) != 1:
        return None
    return attempted(lambda: _analyzed(group, results, scans[0]), SHARED)


def _analyzed(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], scan: ir.Operation
) -> ScanAnalysis:
    for op in group:
        if op != scan and not ops.is_elementwise(op) and op.name not in MOVEMENTS:
            raise Unsupported(ops.described(op))
    if ops.users(scan.results[1]):
        raise Unsupported("the total of a scan")
    shape = ops.shape(results[0])
    if None in shape or 0 in shape or not shape or any(ops.shape(v) != shape for v in results):
        raise Unsupported("results of dynamic sizes or of several shapes")
    if any(ops.element_type(v) not in POINTERS for v in results):
        raise Unsupported(f"a result of type {results[0].type}")
    if ops.element_type(scan.results[0]) == "i1":
        raise Unsupported("a scan of booleans")
    inclusive = bool(scan.attributes["inclusive"].value)
    if not inclusive and ops.constant(scan.operands[2]) is None:
        raise Unsupported("an initial value that is no constant")
    space = Space((Group("i", shape),))
    found = _Demanded(Tiles(space, {}), group, scan)
    whole = tuple((0, axis) for axis in range(len(shape)))
    for value in results:
        found.value(value, whole)
    if len(found.indices) != 1:
        raise Unsupported("a scan that is read at several indices")
    (index,) = found.indices
    dimension = int(scan.attributes["dimension"].value)
    axes = [axis_of(part) for part in index]
    sizes = ops.shape(scan.results[0])
    if (
        None in axes
        or len(set(axes)) != len(shape)
        or math.prod(size or 0 for size in shape) != ops.num_elements(scan.results[0])
    ):
        raise Unsupported("a part of a scan")
    for dim, (part, axis, size) in enumerate(zip(index, axes, sizes, strict=True)):
        assert axis is not None
        flipped = linear(axis, -1, (size or 0) - 1)
        if shape[axis[1]] != size or part not in ((axis, flipped) if dim == dimension else (axis,)):
            raise Unsupported("a part of a scan")
    # The prologue, for its refusals.
    prologue = Demand(Tiles(space, {}), group)
    prologue.value(scan.operands[0], index)
    return ScanAnalysis(tuple(group), tuple(results), scan, index)


class _Demanded(Demand):
    """Collects the indices at which a scan is needed.

    Attributes:
      indices: the indices.
    """

    def __init__(self, tiles: Tiles, members: Sequence[ir.Operation], scan: ir.Operation) -> None:
        super().__init__(tiles, members)
        self._scan = scan
        self.indices: set[tuple[Index, ...]] = set()

    def value(self, value: ir.Value, index: tuple[Index, ...], guard: Guard = ALWAYS) -> str:
        """The tile of a value; that of the scan is only noted."""
        if value != self._scan.results[0]:
            return super().value(value, index, guard)
        if guard.text:
            raise Unsupported("a part of a scan")
        self.indices.add(index)
        return self.tiles.body.name("0")


def problem_of(analysis: ScanAnalysis) -> ScanProblem:
    """The problem that the configuration is chosen by."""
    sizes, axis = analysis.sizes, analysis.axis
    bits = max(map(ops.element_bits, analysis.results))
    outer, inner = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
    return ScanProblem(outer, sizes[axis], inner, bits, is_long(analysis))


def is_long(analysis: ScanAnalysis) -> bool:
    """Whether the combination of two elements takes long: it has functions."""
    return any(name.startswith("math.") for name in ops.scalar_names(analysis.scan))


def counts_truths(analysis: ScanAnalysis) -> bool:
    """Whether a scan adds up truth values that were cast to integers: sums are at most its size."""
    scan = analysis.scan
    added = [name for name in ops.scalar_names(scan) if not name.endswith(".yield")]
    if added != ["arith.addi"] or ops.constant(scan.operands[2]) != 0:
        return False
    value = scan.operands[0]
    while (made := ops.defining_op(value)) is not None and ops.is_elementwise(made):
        scalar = list(ops.body(made).operations)[-1].operation.operands[0]
        while (cast := ops.defining_op(scalar)) is not None:
            if cast.name not in ("arith.extsi", "arith.extui"):
                return False
            scalar = cast.operands[0]
            if str(scalar.type) == "i1":
                return True
        if not isinstance(scalar.owner, ir.Block) or len(made.results) != 1:
            return False
        number = [*ops.body(made).arguments].index(scalar)
        if number >= ops.num_inputs(made):
            return False
        value = ops.inputs(made)[number]
    return False
