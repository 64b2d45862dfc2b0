"""Loops that carry states, as recurrent layers are, each as one kernel.

    %r:2 = scf.for %n = 0 to 512 iter_args(%h, %c) { LSTM cell }
  becomes
    recurrence kernel: all iterations, rows and columns of the states divided among workgroups

Without it the host starts the contraction and the cell of each iteration as kernels of their own.
"""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.alignment import VIEWS
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.recurrence.analysis import (
    SHARED,
    RecurrenceAnalysis,
    analyze,
    analyze_loop,
)
from mlirfuse.kernels.vector import executable, recurrence_split
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.recurrence_body import Findings, StepBody
from mlirfuse.kernels.vector.recurrence_kernel import Gates, RecurrenceKernel, packed
from mlirfuse.kernels.vector.recurrence_split import Steps, seconds_of_commands
from mlirfuse.kernels.vector.register_tiles import RegisterTile
from mlirfuse.kernels.vector.writer import Writer
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.convolutions import constant_root
from mlirfuse.targets.base import CpuDevice


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The kernel of a loop.

    Attributes:
      analysis: the loop.
      gates: its contractions.
      tile: rows and vectors of columns of a tile.
      kernel: the kernel.
      lanes: elements of a vector.
    """

    analysis: RecurrenceAnalysis
    gates: tuple[Gates, ...]
    tile: RegisterTile
    kernel: VectorKernel
    lanes: int


def plan(root: ir.Operation, device: CpuDevice) -> Plan | NoMatch | None:
    """Plans the kernel of a loop, or of a region around one; None for others.

    Args:
      root: an `scf.for`, or a `flow.dispatch.region`.
      device: the CPU.
    """
    analysis = analyze(root) if root.name == ops.REGION else analyze_loop(root)
    if analysis is None or isinstance(analysis, NoMatch):
        return analysis
    return attempted(lambda: _planned(analysis, device), SHARED)


def _planned(analysis: RecurrenceAnalysis, device: CpuDevice) -> Plan | NoMatch:
    _check(analysis)
    body = StepBody(Writer(), device.lanes, analysis)
    found = Findings(body).distances
    gates = tuple(
        _gates(analysis, op, tuple(sorted(distances)), f"weights{n}")
        for n, (op, distances) in enumerate(found.items())
    )
    if not gates:
        raise Unsupported("a loop without contractions")
    blocks = tuple(len(one.distances) for one in gates)
    steps = Steps(math.prod(analysis.row_sizes), analysis.columns, blocks)
    split, commands = recurrence_split.choose(steps, device), seconds_of_commands(steps, device)
    if split.seconds > commands:
        return NoMatch(
            Reason.NOT_PROFITABLE,
            "an iteration takes longer in one kernel than in kernels that the host starts, in the"
            " model",
        )
    with analysis.loop.location:
        kernel = RecurrenceKernel(analysis, body, gates, split, device).write()
    return Plan(analysis, gates, split.tile, kernel, device.lanes)


def _check(analysis: RecurrenceAnalysis) -> None:
    """Refuses loops whose tensors kernels cannot have.

    Raises:
      Unsupported: they have other element types, or results in another order.
    """
    tensors = [*analysis.loop.results, *(state.argument for state in analysis.states)]
    for value in tensors:
        if ops.element_type(value) != "f32":
            raise Unsupported(f"a loop that carries {value.type}")
    for stack in analysis.stacks:
        last = max(dim for dim, size in enumerate(ops.shape(stack.result)) if size != 1)
        if stack.dimension >= last:
            raise Unsupported("slices whose columns are not contiguous")


def _gates(
    analysis: RecurrenceAnalysis, op: ir.Operation, distances: tuple[int, ...], key: str
) -> Gates:
    """A contraction of a state, all of whose blocks of columns an iteration needs.

    Raises:
      Unsupported: a contraction of another form.
    """
    if ops.constant(op.operands[2]) != 0:
        raise Unsupported("a contraction that does not start from zero")
    if [ops.element_type(value) for value in op.operands] != ["f32"] * 3:
        raise Unsupported("a contraction of other types than f32")
    sizes, maps, kinds = ops.loop_sizes(op), ops.indexing_maps(op), ops.iterator_types(op)
    # Loops of one iteration index dimensions of one element.
    several = [[d for d in m or () if d is not None and sizes[d] != 1] for m in maps]
    reduced = [d for d, kind in enumerate(kinds) if kind == "reduction" and sizes[d] != 1]
    if len(reduced) != 1 or None in maps:
        raise Unsupported("a contraction over several dimensions")
    (k,) = reduced
    *rows, n = several[2] or [-1]
    for number in range(2):
        state = analysis.state_of(ops.strip_views(op.operands[number], VIEWS))
        weights, other = op.operands[1 - number], several[1 - number]
        if state is None or several[number] != [*rows, k] or sorted(other) != sorted([n, k]):
            continue
        if [sizes[d] for d in (*rows, k)] != [*analysis.row_sizes, analysis.columns]:
            continue
        source = ops.defining_op(weights)
        if len(ops.shape(weights)) != 2 or (source is not None and source in analysis.members):
            continue
        blocks = range(0, sizes[n] or 0, analysis.columns)
        if distances != tuple(blocks) or (sizes[n] or 0) % analysis.columns:
            raise Unsupported("columns of a contraction that are not used")
        return Gates(op, state, weights, other[0] == k, distances, key)
    raise Unsupported("a contraction of another form than a state times weights")


def replace(region: ir.Operation, plan: Plan) -> ir.Operation:
    """Replaces a region by a call of its kernel; returns the call."""
    made = {}
    with ir.InsertionPoint(region), region.location:
        for one in plan.gates:
            made[one.key] = _packed(one, plan)
    return executable.replace(region, plan.kernel, made)


def _packed(one: Gates, plan: Plan) -> ir.Value:
    """The packed weights of a contraction: made when the program is loaded, or in each call."""
    columns, constant = plan.analysis.columns, constant_root(one.weights)
    if constant is None or constant != one.weights:
        return packed(one.weights, one, columns, plan.tile, plan.lanes)
    return builders.at_load_time(
        [constant],
        lambda held: packed(held[0], one, columns, plan.tile, plan.lanes),
        "recurrence_weights",
    )
