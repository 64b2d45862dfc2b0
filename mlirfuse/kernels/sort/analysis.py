"""Reads a region that computes the indices of sorted rows.

analysis = analyze(region)         SortAnalysis, the refusal, or None for other regions
problem = problem_of(analysis)     sizes that the configuration is chosen by
"""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import POINTERS
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, power_of_two
from mlirfuse.kernels.codegen.tile_writer import computing, returned
from mlirfuse.kernels.sort.problem import SortProblem
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.order_users import SortResult, with_users
from mlirfuse.structured.recognize.orders import Order, order

KEY_BITS = {"f16": 16, "bf16": 16, "f32": 32, "i8": 8, "i16": 16, "i32": 32}
"""Element types that leave room for an index in 64 bits -> bits of their keys."""


NARROW_BITS = 32
"""Bits of integers that one instruction exchanges. On an H200 sorts of 4000 rows of 1000 f32 took
99 us with an index in each key and 51 without, of 1024 of 3647 223 and 149; but 100 of 5000 bf16,
whose keys are as narrow with one, 26 and 31, since equal keys of two runs are compared by run."""


@dataclasses.dataclass(frozen=True, slots=True)
class SortAnalysis:
    """Indices of the first elements of sorted rows, and tensors with the elements that they have.

    Attributes:
      order: the indices.
      results: the tensors that the kernel writes.
    """

    order: Order
    results: tuple[SortResult, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the source."""
        return tuple(size or 0 for size in ops.shape(self.order.source))

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.sizes[self.order.dimension]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return math.prod(self.sizes) // self.columns

    @property
    def key_bits(self) -> int:
        """Width of a key."""
        return KEY_BITS[ops.element_type(self.order.source)]

    @property
    def has_keys_alone(self) -> bool:
        """Whether keys need no index, which would make them wider, beside all sorted elements."""
        source, count = self.order.source, self.order.count
        payloads = [one.payload for one in self.results]
        alone = count == self.columns and all(p is not None and p == source for p in payloads)
        return alone and packed_bits(self.key_bits, self.columns) > NARROW_BITS

    def bits(self, columns: int) -> int:
        """The width of an integer that holds a key, and the index of a column if it needs one."""
        return integer_bits(problem_of(self), columns)

    @property
    def payloads(self) -> tuple[ir.Value, ...]:
        """The tensors whose elements results have, each once."""
        found = (one.payload for one in self.results)
        return tuple(dict.fromkeys(value for value in found if value is not None))


def block_columns(columns: int) -> int:
    """The elements of a tile's row: a power of two, for a network of exchanges."""
    return max(2, power_of_two(columns))


def packed_bits(key_bits: int, columns: int) -> int:
    """The width of an integer that holds a key and the index of a column."""
    return NARROW_BITS if key_bits + index_bits(columns) <= NARROW_BITS else 64


def integer_bits(problem: SortProblem, columns: int) -> int:
    """The width of an integer that holds a key of a problem, and the index of one of so many."""
    return NARROW_BITS if problem.keys_alone else packed_bits(problem.element_bits, columns)


def index_bits(columns: int) -> int:
    """The width of the index of a column below its key."""
    return block_columns(columns).bit_length() - 1


def analyze(region: ir.Operation) -> SortAnalysis | NoMatch | None:
    """Reads a region; None for another kind of region, or the reason why there is no kernel."""
    group = computing(region)
    found = next((one for op in reversed(group) if (one := order(op)) is not None), None)
    if found is None:
        return None
    users, results = with_users(_indices(found), found, takes_gathers=True)
    known = {one.value: one for one in results}
    if {*found.group, *users} != {*group} or not known.keys() >= {*returned(region)}:
        return None
    return analyze_order(found, tuple(known[value] for value in returned(region)))


def is_written(result: SortResult) -> bool:
    """Whether kernels write results of its type, and read the tensor whose elements it has."""
    values = (result.value, *([result.payload] if result.payload is not None else []))
    kinds = {ops.element_type(value) for value in values}
    return kinds <= POINTERS.keys() - {"i1", "i4"}


def _indices(found: Order) -> SortResult:
    return SortResult(found.root.results[0], None, found.axes)


def analyze_order(
    found: Order, results: tuple[SortResult, ...] | None = None
) -> SortAnalysis | NoMatch:
    """Reads indices that sort, or gives the reason why there is no kernel.

    Args:
      found: the indices.
      results: the tensors that are computed; the indices alone where they are left out.
    """
    kind = ops.element_type(found.source)
    if kind not in KEY_BITS:
        return NoMatch(Reason.ELEMENT_TYPE, f"a sort of {kind}: key and index exceed 64 bits")
    sizes = ops.shape(found.source)
    if None in sizes:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel takes static sizes")
    if 0 in sizes or not found.count:
        return NoMatch(Reason.NOT_PROFITABLE, "a sort of no elements")
    if ops.num_elements(found.source) >= MAX_INDEX:
        return NoMatch(Reason.STRUCTURE, "a sort of more elements than 32-bit offsets have")
    return SortAnalysis(found, (_indices(found),) if results is None else results)


def problem_of(analysis: SortAnalysis) -> SortProblem:
    """The problem that the configuration is chosen by."""
    return SortProblem(
        analysis.rows,
        analysis.columns,
        analysis.order.count,
        ops.element_bits(analysis.order.source),
        analysis.has_keys_alone,
    )
