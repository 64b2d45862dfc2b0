"""Reads a loop whose iterations carry states from one to the next.

analysis = analyze(region)         RecurrenceAnalysis, the refusal, or None for other regions
problem = problem_of(analysis)     sizes that the configuration is chosen by
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.alignment import VIEWS
from mlirfuse.kernels.calls import LOOP
from mlirfuse.kernels.codegen.element_types import POINTERS, Unsupported
from mlirfuse.kernels.codegen.indices import Index
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.recurrence.counter import Counter, Linear
from mlirfuse.kernels.recurrence.problem import RecurrenceProblem
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import counted_loops

SHARED = "the axes of the states"
"""The axes that the ops of a loop have in common."""

STEP, ROW, COLUMN = 0, 1, 2
"""The first groups of the iteration space; two for K of each contraction follow."""

OPERAND_TYPES = ("f16", "bf16", "f32")
"""Element types of the operands of contractions."""


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """A tensor that each iteration reads from the one before.

    Attributes:
      result: the result of the loop that is its last value.
      argument: its value at the start of an iteration.
      initial: its first value.
      new: its value at the end of an iteration.
    """

    result: ir.Value
    argument: ir.Value
    initial: ir.Value
    new: ir.Value


@dataclasses.dataclass(frozen=True, slots=True)
class Stack:
    """A result of the loop that has a slice of each iteration.

    Attributes:
      result: the result.
      source: the slice: of the shape of the states, or with a dimension of one element more.
      dimension: the dimension of the result along which the slices are.
      index: the index of an iteration's slice.
    """

    result: ir.Value
    source: ir.Value
    dimension: int
    index: Linear


@dataclasses.dataclass(frozen=True, slots=True)
class RecurrenceAnalysis:
    """A loop over states of one shape.

    Attributes:
      loop: the `scf.for`.
      counter: the integers that the iteration decides.
      states: the states.
      stacks: the results with a slice of each iteration.
      shape: shape of the states.
      contractions: the contractions of an iteration, in order.
    """

    loop: ir.Operation
    counter: Counter
    states: tuple[State, ...]
    stacks: tuple[Stack, ...]
    shape: tuple[int, ...]
    contractions: tuple[ir.Operation, ...]

    @property
    def iterations(self) -> int:
        """The number of iterations."""
        return self.counter.loop.iterations

    @property
    def row_sizes(self) -> tuple[int, ...]:
        """Sizes of the dimensions of the states whose indices are rows."""
        return tuple(size for size in self.shape if size > 1)[:-1]

    @property
    def columns(self) -> int:
        """The size of the last dimension of the states that is not one."""
        return [size for size in self.shape if size > 1][-1]

    @property
    def row_axes(self) -> list[Index]:
        """The axes whose indices are rows."""
        return [(ROW, n) for n in range(len(self.row_sizes))]

    @property
    def main(self) -> tuple[Index, ...]:
        """The index of a state along each of its dimensions, in rows and columns."""
        rest = iter([*self.row_axes, (COLUMN, 0)])
        return tuple(next(rest) if size > 1 else None for size in self.shape)

    @property
    def results(self) -> tuple[ir.Value, ...]:
        """The results of the loop that have users, in order."""
        return tuple(value for value in self.loop.results if ops.users(value))

    @property
    def members(self) -> list[ir.Operation]:
        """The ops of an iteration."""
        return [view.operation for view in self.loop.regions[0].blocks[0].operations][:-1]

    def nearest_contractions(self, values: Iterable[ir.Value]) -> set[ir.Operation]:
        """The contractions of the iteration whose results values are computed from directly."""
        members = set(self.members)
        work, seen, found = list(values), set(), set()
        while work:
            op = ops.defining_op(work.pop())
            if op is None or op in seen or op not in members:
                continue
            seen.add(op)
            if ops.is_contraction(op):
                found.add(op)
            else:
                work += op.operands
        return found

    def state_of(self, value: ir.Value) -> State | None:
        """The state that a value is at the start of an iteration; None for others."""
        return next((state for state in self.states if state.argument == value), None)


def analyze(region: ir.Operation) -> RecurrenceAnalysis | NoMatch | None:
    """Reads a region of one loop; None for another kind of region, or the reason for none."""
    held = [view.operation for view in region.regions[0].blocks[0].operations]
    loops = [op for op in held if op.name == LOOP]
    return analyze_loop(loops[0]) if len(loops) == 1 else None


def analyze_loop(loop: ir.Operation) -> RecurrenceAnalysis | NoMatch | None:
    """Reads a loop; None for one without states, or the reason why there is no kernel."""
    found = counted_loops.host_loop(loop, in_region=True)
    if found is None or found.iterations < 1:
        return None
    return attempted(lambda: _analyzed(loop, Counter(found)), SHARED)


def _analyzed(loop: ir.Operation, counter: Counter) -> RecurrenceAnalysis | None:
    block = loop.regions[0].blocks[0]
    held = [view.operation for view in block.operations]
    carried = zip(
        loop.results, list(block.arguments)[1:], list(loop.operands)[3:], held[-1].operands,
        strict=True,
    )  # fmt: skip
    states: list[State] = []
    stacks: list[Stack] = []
    for result, argument, initial, new in carried:
        stack = _stack(result, argument, ops.strip_views(new, VIEWS), counter)
        if stack is not None:
            stacks.append(stack)
        else:
            states.append(State(result, argument, initial, new))
    if not states:
        return None
    shapes = {ops.shape(state.argument) for state in states}
    shape = shapes.pop()
    if shapes or None in shape or all(size == 1 for size in shape) or 0 in shape:
        raise Unsupported("states of several shapes, of dynamic ones or of one element")
    for value in loop.results:
        if ops.element_type(value) not in POINTERS or ops.element_type(value) in ("i1", "i4"):
            raise Unsupported(f"a result of type {value.type}")
    sizes = tuple(size or 0 for size in shape)
    for stack in stacks:
        rest = list(ops.shape(stack.result))
        del rest[stack.dimension]
        if rest != list(sizes):
            raise Unsupported("a slice of another shape than the states")
    contractions = tuple(op for op in held if ops.is_contraction(op))
    return RecurrenceAnalysis(loop, counter, tuple(states), tuple(stacks), sizes, contractions)


def _stack(result: ir.Value, argument: ir.Value, new: ir.Value, counter: Counter) -> Stack | None:
    """The stack that a carried value is; None for a state.

    Raises:
      Unsupported: a part of it keeps the value from before the loop.
    """
    op = ops.defining_op(new)
    if op is None or len(ops.users(argument)) != 1 or ops.users(argument)[0] != op:
        return None
    placed = _inserted(op, argument, counter) or _scattered(op, argument, counter)
    if placed is None:
        return None
    source, dimension, index = placed
    last = index.start + index.step * (counter.loop.iterations - 1)
    size = ops.shape(result)[dimension]
    ends = {index.start, last}
    if abs(index.step) != 1 or ends != {0, (size or 0) - 1}:
        raise Unsupported("a result of which not every slice is written")
    return Stack(result, source, dimension, index)


def _inserted(
    op: ir.Operation, whole: ir.Value, counter: Counter
) -> tuple[ir.Value, int, Linear] | None:
    """Source, dimension and index of an insertion of one slice."""
    if op.name != "tensor.insert_slice" or op.operands[1] != whole:
        return None
    offsets, sizes = offsets_of(op, counter), [size for _, size, _ in ops.slice_params(op).boxes]
    if offsets is None or not ops.has_unit_strides(op):
        return None
    moving = [dim for dim, offset in enumerate(offsets) if offset.step]
    if not moving and counter.loop.iterations == 1:
        moving = [dim for dim, size in enumerate(ops.shape(whole)) if size == 1][:1]
    expected = list(ops.shape(whole))
    if len(moving) != 1 or any(o.start for o in offsets if not o.step):
        return None
    expected[moving[0]] = 1
    return (op.operands[0], moving[0], offsets[moving[0]]) if sizes == expected else None


def _scattered(
    op: ir.Operation, whole: ir.Value, counter: Counter
) -> tuple[ir.Value, int, Linear] | None:
    """Source, dimension and index of a scatter that writes one slice along the first dimension."""
    if op.name != "iree_linalg_ext.scatter" or len(op.operands) != 3 or op.operands[2] != whole:
        return None
    updates, indices, _ = op.operands
    index = counter.of(indices)
    body = op.regions[0].blocks[0]
    (yielded,) = list(body.operations)[-1].operation.operands
    expected = (1, *ops.shape(whole)[1:])
    maps = [int(n) for n in op.attributes["dimension_map"]]
    if index is None or maps != [0] or yielded != body.arguments[0]:
        return None
    return (updates, 0, index) if ops.shape(updates) == expected else None


def offsets_of(op: ir.Operation, counter: Counter) -> list[Linear] | None:
    """The offsets of a slice or an insertion; None where the iteration does not decide them."""
    found: list[Linear] = []
    for offset, _, _ in ops.slice_params(op).boxes:
        linear = counter.of(offset) if isinstance(offset, ir.Value) else Linear(0, offset)
        if linear is None:
            return None
        found.append(linear)
    return found


def problem_of(analysis: RecurrenceAnalysis) -> RecurrenceProblem:
    """The problem that the configuration is chosen by."""
    rows, columns = math.prod(analysis.row_sizes), analysis.columns
    read = [op.operands[0] for op in analysis.contractions]
    return RecurrenceProblem(
        rows,
        columns,
        max(map(contracted, analysis.contractions), default=0),
        sum(
            -(-ops.num_elements(op.results[0]) // (rows * columns)) for op in analysis.contractions
        ),
        max(map(ops.element_bits, read or [state.argument for state in analysis.states])),
    )


def contracted(op: ir.Operation) -> int:
    """Elements of the longest dimension that a contraction sums over."""
    sizes = zip(ops.loop_sizes(op), ops.iterator_types(op), strict=True)
    return max(size or 1 for size, kind in sizes if kind == "reduction")
