"""Modelled work and time of groups of ops on a target.

A group reads each external tensor once and writes each value with external users once; inner values
cost nothing. Time is a launch plus the larger of memory time and compute time, which overlap. Work
with fewer independent iterations than the device needs runs at that fraction of its rates.
Source: S. Williams, A. Waterman and D. Patterson, Roofline, 2009.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable

from iree.compiler import ir

from mlirfuse.structured.ir import analysis_cache, ops, slices
from mlirfuse.targets.base import Target

MINOR_OP_FRACTION = 1 / 8
"""Share of the largest op's operations below which an op's own parallelism is ignored: work per row
leaves threads idle for a short time only."""

MAX_REDUCTION_THREADS = 1024
"""Upper limit of the parallel iterations of one row's reduction: threads of a GPU's workgroup."""

# Scalar ops that take tens of instructions: polynomials, divisions, roots.
_TRANSCENDENTAL = re.compile(
    "math.(a?(cos|sin|tan)h?|atan2|cbrt|erfc?|exp(2|m1)?|log(10|1p|2)?|powf|r?sqrt)"
)
_DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divf", "divsi", "divui", "remf", "remsi", "remui")
)

FREE = frozenset({"linalg.yield", "linalg.index", "arith.constant", "arith.extf", "arith.truncf"})
"""Scalar ops that count as nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """The work of an op or a group in one call.

    Attributes:
      bytes: memory traffic, in bytes.
      matrix: operations of contractions; a multiply-add counts as two.
      kind: element type of the contractions' operands.
      vector: other arithmetic operations.
      special: exponentials, divisions, roots and the like.
      parallel: independent iterations: those of the parallel loops.
      launches: number of dispatches.
    """

    bytes: int
    matrix: int = 0
    kind: str = "f32"
    vector: int = 0
    special: int = 0
    parallel: int = 1
    launches: int = 1

    @property
    def operations(self) -> int:
        """Scalar operations of every kind."""
        return self.matrix + self.vector + self.special

    def microseconds(self, target: Target) -> float:
        """Modelled time on the target."""
        rate = target.matmul_rate.get(self.kind, target.vector_rate)
        compute = (
            self.matrix / rate
            + self.vector / target.vector_rate
            + self.special / target.special_rate
        )
        occupancy = min(1.0, self.parallel / target.parallelism)
        seconds = max(self.bytes / target.bandwidth, compute) / occupancy
        return seconds * 1e6 + self.launches * target.launch_us


@dataclasses.dataclass(frozen=True, slots=True)
class Gain:
    """The gain of one dispatch for a group over one dispatch per op.

    Attributes:
      bytes_saved: avoided memory traffic, in bytes a call.
      microseconds: modelled time gained a call; negative when the group would be slower.
    """

    bytes_saved: int
    microseconds: float


def gain(group: list[ir.Operation], target: Target) -> Gain:
    """The modelled gain of the group as one dispatch."""
    working = [op for op in group if does_work(op)]
    if len(working) < 2:
        return Gain(0, 0.0)
    alone = [work_alone(op) for op in working]
    together = work(group)
    saved = sum(w.bytes for w in alone) - together.bytes
    before = sum(w.microseconds(target) for w in alone)
    return Gain(max(0, saved), before - together.microseconds(target))


def no_gain(microseconds: float) -> str:
    """The detail of a refusal by the model, in words.

    A modelled time is not shown without its error, which `mlirfuse.explain.savings` knows.

    Args:
      microseconds: modelled time gained a call, at most 0.
    """
    return "as fast in the model" if round(microseconds, 2) == 0 else "slower in the model"


def does_work(op: ir.Operation) -> bool:
    """Whether the op would be a dispatch: no reshape, no empty or constant tensor."""
    return not (slices.is_clonable(op) or op.name in ops.RESHAPES)


def operations(group: Iterable[ir.Operation]) -> int | None:
    """Scalar operations of the ops in one call; None where a size is dynamic."""
    count = 0
    for op in group:
        if any(None in ops.shape(value) for value in (*op.operands, *op.results)):
            return None
        window = _WINDOW.search(op.name)
        if op.name.startswith("tensor."):
            continue
        if op.name in _ATTENTION:
            count += _attention_operations(op)
        elif window is not None:
            count += _window_operations(op, window["filter"])
        else:
            count += computation(op).operations
    return count


def unread_bytes(group: Iterable[ir.Operation]) -> int:
    """Bytes of tables that gathers in the ops leave unread, at least, in one call.

    An op that indexes a table reads an element of it for each iteration, which may be far less than
    the table. Tables of dynamic sizes count as read whole.
    """
    reads: dict[ir.Value, int] = {}
    whole: set[ir.Value] = set()
    for op in group:
        whole.update(op.operands)
        sizes = ops.loop_sizes(op)
        for inner in ops.nested_ops(op):
            if inner.name != "tensor.extract":
                continue
            table = inner.operands[0]
            if None in sizes or None in ops.shape(table):
                whole.add(table)
            else:
                reads[table] = reads.get(table, 0) + math.prod(size or 1 for size in sizes)
    return sum(
        max(0, ops.num_bytes(table) - count * ops.element_bits(table) // 8)
        for table, count in reads.items()
        if table not in whole
    )


_ATTENTION = ("iree_linalg_ext.attention", "iree_linalg_ext.online_attention")

_WINDOW = re.compile(r"^linalg\.(pooling_|(depthwise_)?conv_).*?(_(?P<filter>[a-z]+))?(_q)?$")
"""Named convolutions and poolings: the last word has a letter for each dimension of the filter."""


def _attention_operations(op: ir.Operation) -> int:
    """Two contractions, over the head's size and over the keys; the softmax is a small share."""
    maps = [{loop for loop in m or () if loop is not None} for m in ops.indexing_maps(op)]
    sizes = ops.loop_sizes(op)
    if len(maps) < 4 or None in sizes:
        return computation(op).operations
    query, key, value = maps[:3]
    result = maps[-1] if op.name == "iree_linalg_ext.attention" else maps[-3]
    spaces = (query | key, result | value)
    return 2 * sum(math.prod(sizes[loop] or 1 for loop in loops) for loops in spaces)


def _window_operations(op: ir.Operation, letters: str | None) -> int:
    """Of a named convolution: two for each element of the filter that an output needs."""
    count = ops.num_elements(op.results[0])
    taps = ops.shape(op.operands[1])
    if op.name.startswith("linalg.pooling_") or letters is None or len(letters) != len(taps):
        return count * math.prod(size or 1 for size in taps)
    shared = letters.find("c" if "depthwise" in op.name else "f")
    return 2 * count * math.prod(n or 1 for i, n in enumerate(taps) if i != shared)


def work(group: list[ir.Operation]) -> Work:
    """The work of the ops as one dispatch."""
    read = slices.operands_of(group)
    written = slices.results_of(group) or list(group[-1].results)
    return combined([computation(op) for op in group], num_bytes([*read, *written]))


def work_alone(op: ir.Operation) -> Work:
    """The work of an op as a dispatch of its own."""
    return _written_whole(op) if len(op.results) == 1 else work([op])


def recomputed(group: list[ir.Operation], lanes: int) -> Work:
    """The computation that the ops as one loop nest do again, since a user has more iterations.

    A value without the user's innermost loop is computed once for a tile of it, unless that loop is
    shorter than a vector: then the value is not computed by vectors.

    Args:
      group: elementwise ops in block order.
      lanes: elements of a vector.

    Returns:
      The work, whose bytes are those of the values that would be written and read instead.
    """
    evaluations = dict[ir.Operation, int]()
    special = traffic = 0
    for op in reversed(group):
        own = most = max(1, _iterations(op))
        for value in op.results:
            for user in ops.users(value):
                if user in evaluations and _by_element(user, value, lanes):
                    most = max(most, evaluations[user])
                    traffic += 2 * num_bytes([value]) if _iterations(user) > own else 0
        evaluations[op] = most
        special += computation(op).special * (most - own) // own
    return Work(traffic, special=special)


def _iterations(op: ir.Operation) -> int:
    return math.prod(ops.ASSUMED_DYNAMIC_SIZE if s is None else s for s in ops.loop_sizes(op))


def _by_element(op: ir.Operation, value: ir.Value, lanes: int) -> bool:
    """Whether an op indexes a value by its innermost loop, or that is shorter than a vector."""
    last = len(ops.iterator_types(op)) - 1
    size = ops.loop_sizes(op)[-1] if last >= 0 else None
    if size is not None and size < lanes:
        return True
    reads = zip(op.operands, ops.indexing_maps(op), strict=True)
    return any(v == value and last in (index_map or ()) for v, index_map in reads)


@analysis_cache.per_op
def _written_whole(op: ir.Operation) -> Work:
    read = slices.operands_of([op])
    return combined([computation(op)], num_bytes([*read, *op.results]))


def combined(parts: Iterable[Work], traffic: int) -> Work:
    """The work of several ops as one dispatch that moves `traffic` bytes."""
    matrix = vector = special = largest = 0
    kind = ""
    sizes: list[tuple[int, int]] = []
    for part in parts:
        matrix += part.matrix
        vector += part.vector
        special += part.special
        operations = part.matrix + part.vector + part.special
        largest = max(largest, operations)
        if part.launches:
            sizes.append((operations, part.parallel))
        if part.matrix:
            kind = kind or part.kind
    return Work(
        bytes=traffic,
        matrix=matrix,
        kind=kind or "f32",
        vector=vector,
        special=special,
        # Casts and copies have no operations: alone they all count.
        parallel=min(
            [p for count, p in sizes if count > MINOR_OP_FRACTION * largest or not largest],
            default=1,
        ),
    )


@analysis_cache.per_op
def computation(op: ir.Operation) -> Work:
    """The work of one op without its memory traffic."""
    if not does_work(op):
        return Work(0, launches=0)
    if op.name == ops.REGION:
        return combined((computation(o.operation) for o in op.regions[0].blocks[0].operations), 0)
    contracts = ops.is_contraction(op)
    if not contracts and not ops.is_generic(op):
        count = max((ops.num_elements(r, ops.ASSUMED_DYNAMIC_SIZE) for r in op.results), default=0)
        special = 2 if op.name == "linalg.softmax" else 0
        return Work(0, vector=count, special=special * count, parallel=count)
    sizes = [ops.ASSUMED_DYNAMIC_SIZE if s is None else s for s in ops.loop_sizes(op)]
    count = math.prod(sizes)
    kinds = ops.iterator_types(op)
    parallel = math.prod(s for s, k in zip(sizes, kinds, strict=True) if k == "parallel")
    if parallel < count and not contracts:
        parallel *= min(count // parallel, MAX_REDUCTION_THREADS)
    if contracts:
        return Work(0, matrix=2 * count, kind=ops.element_type(op.operands[0]), parallel=parallel)
    names = ops.scalar_names(op)
    special = sum(map(_is_special, names))
    plain = sum(name not in FREE for name in names) - special + names.count("math.fma")
    return Work(0, vector=count * plain, special=count * special, parallel=parallel)


def _is_special(name: str) -> bool:
    return name in _DIVISIONS or _TRANSCENDENTAL.fullmatch(name) is not None


def num_bytes(values: Iterable[ir.Value]) -> int:
    """Bytes of the tensors among the values."""
    count = 0
    for value in values:
        if ops.ranked(value) is not None:
            count += ops.num_bytes(value, ops.ASSUMED_DYNAMIC_SIZE)
    return count
