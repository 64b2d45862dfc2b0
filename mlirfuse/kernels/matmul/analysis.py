"""Reads the contraction of a region, its prologue and its epilogue, once.

analysis = analyze(region)        MatmulAnalysis; NoMatch with the reason; None for other regions
problem = problem_of(analysis)    sizes and traits that the configuration is chosen by
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import cast

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import known_product
from mlirfuse.kernels.codegen.row_reductions import reduces
from mlirfuse.kernels.codegen.tile_writer import computing, returned
from mlirfuse.kernels.matmul.problem import DEFAULT_DYNAMIC_M, MatmulProblem, bucket_m
from mlirfuse.structured.ir import ops

MAX_ROW = {16: 256, 32: 128}
"""Bits of an operand's element -> columns of a row that a tile has as a whole.

On an H200 one kernel of a matmul and a softmax or norm of its rows took 0.5 to 0.96 of the time of
two for f16 and up to 256 columns, and for f32 and up to 128; for f32 and 200 or 256 columns 1.5 to
2.3."""

_LOOPS = "a contraction without one dimension each of M and N, and one or two of K"

ACCUMULATOR_TYPES = {
    ("f32", "f32"): "f32",
    ("f64", "f64"): "f64",
    ("f16", "f32"): "f32",
    ("bf16", "f32"): "f32",
    ("f16", "f16"): "f32",
    ("bf16", "bf16"): "f32",
    ("i8", "i32"): "i32",
}
"""Element types of the operands and of the result -> that of the accumulators."""

OPERAND_BITS = {"i8": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
"""Element type of the operands -> its width in bits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Loops:
    """The loops of a contraction by role.

    Attributes:
      batch: loops of both operands and the result.
      m: loop of A and the result alone; None where A is a vector.
      n: loop of B and the result alone.
      k: the contracted loop, or the loop of groups of K and the one within a group.
    """

    batch: tuple[int, ...]
    m: int | None
    n: int
    k: tuple[int, ...]

    @property
    def inner_k(self) -> int:
        """The contracted loop, within a group where K has groups."""
        return self.k[-1]


@dataclasses.dataclass(frozen=True, slots=True)
class Accumulator:
    """One result of a contraction.

    Attributes:
      a: index of the operand A.
      b: index of the operand B.
      result: the result.
    """

    a: int
    b: int
    result: ir.Value


Part = tuple[Accumulator, ...]
"""Accumulators that a tile computes together."""


@dataclasses.dataclass(frozen=True, slots=True)
class MatmulAnalysis:
    """A region of one contraction and the elementwise ops around it.

    Attributes:
      contraction: the contraction; it may have several results that share A.
      loops: its loops by role.
      sizes: sizes of its loops; only that of M may be None.
      parts: its results; those that one op of the epilogue reads are in one part.
      operand_type: element type of the operands as they are multiplied.
      accumulator_type: element type of the accumulators, f32, f64 or i32.
      prologue: ops that compute operands, in order.
      epilogue: ops that read results, and those that compute other operands of them, in order.
      results: results of the region, values inside it.
    """

    contraction: ir.Operation
    loops: Loops
    sizes: tuple[int | None, ...]
    parts: tuple[Part, ...]
    operand_type: str
    accumulator_type: str
    prologue: tuple[ir.Operation, ...]
    epilogue: tuple[ir.Operation, ...]
    results: tuple[ir.Value, ...]

    @property
    def m(self) -> int | None:
        """Rows of the result, one for a vector; None where it is dynamic."""
        return 1 if self.loops.m is None else self.sizes[self.loops.m]

    @property
    def n(self) -> int:
        """Columns of the result."""
        return cast(int, self.sizes[self.loops.n])

    @property
    def k(self) -> int:
        """Contracted elements, of all groups."""
        return known_product([self.sizes[loop] for loop in self.loops.k])

    @property
    def inner_k(self) -> int:
        """Contracted elements of a group; all of them where there are no groups."""
        return cast(int, self.sizes[self.loops.inner_k])

    @property
    def whole_rows(self) -> bool:
        """Whether a tile has whole rows, which the epilogue reduces."""
        return any(map(reduces, self.epilogue))

    @property
    def grouped(self) -> bool:
        """Whether K has groups."""
        return len(self.loops.k) > 1

    @property
    def batch(self) -> tuple[int, ...]:
        """Sizes of the batch loops."""
        return tuple(cast(int, self.sizes[loop]) for loop in self.loops.batch)

    @property
    def accumulators(self) -> int:
        """Accumulators of a part."""
        return len(self.parts[0])

    @property
    def first(self) -> Accumulator:
        """The first result."""
        return self.parts[0][0]

    @property
    def maps(self) -> Sequence[tuple[int | None, ...]]:
        """Indexing maps of the operands."""
        return ops.plain_maps(self.contraction)

    def operand(self, index: int) -> ir.Value:
        """An operand of the contraction."""
        return self.contraction.operands[index]


def analyze(region: ir.Operation) -> MatmulAnalysis | NoMatch | None:
    """Reads a region around one contraction; None for another kind of region."""
    group = computing(region)
    contractions = [op for op in group if _is_contraction(op)]
    if not contractions:
        return None
    if len(contractions) > 1:
        return NoMatch(Reason.STRUCTURE, f"{len(contractions)} contractions in one kernel")
    others = [op for op in group if op != contractions[0] and not _may_follow(op)]
    if others:
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(others[0])}")
    return analyze_ops(group, returned(region))


def analyze_ops(
    group: Sequence[ir.Operation], results: Sequence[ir.Value]
) -> MatmulAnalysis | NoMatch:
    """Reads ops that a region has, or would have, of which one is a contraction.

    Args:
      group: the ops, in block order.
      results: the values that the region returns.
    """
    (contraction,) = (op for op in group if _is_contraction(op))
    try:
        return _analyzed(contraction, list(group), tuple(results))
    except Unsupported as reason:
        return NoMatch(Reason.STRUCTURE, f"the kernel cannot compute {reason}")


def _may_follow(op: ir.Operation) -> bool:
    """Whether an op is elementwise, or reduces rows."""
    return ops.is_elementwise(op) or (ops.is_generic(op) and reduces(op))


def has_short_rows(contraction: ir.Operation) -> bool:
    """Whether a tile can have whole rows of a contraction that a kernel `can_take`."""
    return _has_short_rows(contraction, _loops(contraction, _accumulators(contraction)[0]))


def _has_short_rows(contraction: ir.Operation, loops: Loops) -> bool:
    columns, bits = ops.loop_sizes(contraction)[loops.n], ops.element_bits(contraction.operands[0])
    return columns is not None and columns <= MAX_ROW.get(bits, 0)


def can_take(contraction: ir.Operation) -> bool:
    """Whether a contraction alone has the element types and loops of a kernel."""
    try:
        accumulators = _accumulators(contraction)
        loops = _loops(contraction, accumulators[0])
    except Unsupported:
        return False
    sizes = ops.loop_sizes(contraction)
    static = [sizes[n] for n in (*loops.batch, loops.n, *loops.k)]
    return (
        len(loops.k) == 1
        and _types(contraction, accumulators) is not None
        and not _is_unsigned(contraction)
        and None not in static
        and ops.constant(ops.inits(contraction)[0]) == 0
    )


def _analyzed(
    contraction: ir.Operation, group: list[ir.Operation], results: tuple[ir.Value, ...]
) -> MatmulAnalysis | NoMatch:
    accumulators = _accumulators(contraction)
    loops = _loops(contraction, accumulators[0])
    before = {contraction}
    for op in reversed(group):
        if any(user in before for result in op.results for user in ops.users(result)):
            before.add(op)
    prologue = tuple(op for op in group if op in before and op != contraction)
    epilogue = tuple(op for op in group if op not in before)
    internal = {result for op in prologue for result in op.results}
    if any(v in internal for v in (*(v for op in epilogue for v in op.operands), *results)):
        raise Unsupported("a value that the prologue computes and the epilogue reads")
    if len(loops.k) > 1 and not prologue:
        raise Unsupported(_LOOPS)
    if any(map(reduces, prologue)):
        raise Unsupported("an operand that a reduction computes")
    if any(map(reduces, epilogue)):
        _check_rows(contraction, loops, prologue, epilogue)
    types = _types(contraction, accumulators)
    if types is None:
        kinds = {ops.element_type(v) for v in ops.inputs(contraction)}
        out = ops.element_type(contraction.results[0])
        kind = f"{' times '.join(sorted(kinds))} to {out}"
        return NoMatch(Reason.ELEMENT_TYPE, f"a matmul of {kind}")
    operand_type, accumulator_type = types
    if accumulator_type == "i32" and _is_unsigned(contraction):
        return NoMatch(Reason.ELEMENT_TYPE, "a matmul of unsigned integers")
    if any(ops.constant(v) != 0 for v in ops.inits(contraction)):
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "the init of the contraction is not zero")
    sizes = tuple(ops.loop_sizes(contraction))
    if None in [sizes[n] for n in (loops.n, *loops.k, *loops.batch)]:
        return NoMatch(Reason.DYNAMIC_SHAPE, "only M may be dynamic in a matmul")
    parts = _parts(accumulators, epilogue)
    return MatmulAnalysis(
        contraction,
        loops,
        sizes,
        parts,
        operand_type,
        accumulator_type,
        prologue,
        epilogue,
        results,
    )


def _check_rows(
    contraction: ir.Operation,
    loops: Loops,
    prologue: Sequence[ir.Operation],
    epilogue: Sequence[ir.Operation],
) -> None:
    """Checks that a tile can have whole rows, which the epilogue reduces.

    Raises:
      Unsupported: it cannot.
    """
    sizes = ops.loop_sizes(contraction)
    if prologue or len(contraction.results) > 1 or loops.m is None or sizes[loops.m] == 1:
        raise Unsupported("a reduction behind several products, or one of computed operands")
    if not _has_short_rows(contraction, loops):
        raise Unsupported("rows of more columns than a tile has")
    if any("linalg.index" in ops.scalar_names(op) for op in epilogue):
        raise Unsupported("positions of the columns of a row that it reduces")


def _is_contraction(op: ir.Operation) -> bool:
    return ops.is_contraction(op) or (
        ops.is_generic(op)
        and "reduction" in ops.iterator_types(op)
        and None not in ops.indexing_maps(op)
        and bool(_several(op))
    )


def _several(op: ir.Operation) -> list[Accumulator]:
    """The results `out + a * b` of a generic; none where one is something else."""
    block = ops.body(op)
    arguments = list(block.arguments)
    inputs = ops.num_inputs(op)
    yielded = list(list(block.operations)[-1].operation.operands)
    found = []
    for index, value in enumerate(yielded):
        add = ops.defining_op(value)
        if add is None or add.name not in ("arith.addf", "arith.addi"):
            return []
        addends = [v for v in add.operands if v != arguments[inputs + index]]
        multiply = ops.defining_op(addends[0]) if len(addends) == 1 else None
        if multiply is None or multiply.name not in ("arith.mulf", "arith.muli"):
            return []
        factors = [_argument(v) for v in multiply.operands]
        if any(f is None or f.arg_number >= inputs for f in factors):
            return []
        a, b = (f.arg_number for f in factors if f is not None)
        found.append(Accumulator(a, b, op.results[index]))
    return found


def _argument(value: ir.Value) -> ir.BlockArgument | None:
    """The block argument that a value is, or extends."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name not in ("arith.extf", "arith.extsi"):
            return None
        value = op.operands[0]
    return ir.BlockArgument(value)


def _accumulators(contraction: ir.Operation) -> list[Accumulator]:
    """The results of a contraction; A is the operand that has M."""
    maps = ops.indexing_maps(contraction)
    if len(contraction.results) == 1:
        if len(maps) != 3 or None in maps:
            raise Unsupported(f"the operands of {contraction.name}")
        # A matrix times a vector, or a column, is that times the transposed matrix.
        one, other, out = ({*m} for m in maps if m is not None)
        sizes = ops.loop_sizes(contraction)
        rows = [sizes[d] for d in one & out - other if d is not None]
        columns = [sizes[d] for d in other & out - one if d is not None]
        column = {*columns} == {1} and len(rows) == 1 and rows[0] not in (1, None)
        swapped = not columns or column
        return [Accumulator(*((1, 0) if swapped else (0, 1)), contraction.results[0])]
    found = _several(contraction)
    first = found[0]
    for accumulator in found[1:]:
        if accumulator.a != first.a or maps[accumulator.b] != maps[first.b]:
            raise Unsupported("several results that do not share A")
    return found


def _loops(contraction: ir.Operation, accumulator: Accumulator) -> Loops:
    """Sorts the loops of a contraction by role."""
    maps = ops.indexing_maps(contraction)
    if any(m is None or None in m for m in maps):
        raise Unsupported(f"an indexing map of {contraction.name}")
    chosen = (maps[accumulator.a], maps[accumulator.b], maps[ops.num_inputs(contraction)])
    a, b, out = ({d for d in m or () if d is not None} for m in chosen)
    batch = tuple(sorted(a & b & out))
    m_loops, n_loops = sorted(a & out - b), sorted(b & out - a)
    k_loops = [d for d in chosen[1] or () if d is not None and d in a - out]
    if len(m_loops) > 1 or len(n_loops) != 1 or len(k_loops) not in (1, 2):
        raise Unsupported(_LOOPS)
    if len(ops.iterator_types(contraction)) != len(batch) + len(m_loops) + 1 + len(k_loops):
        raise Unsupported(_LOOPS)
    return Loops(batch, m_loops[0] if m_loops else None, n_loops[0], tuple(k_loops))


def _types(contraction: ir.Operation, accumulators: list[Accumulator]) -> tuple[str, str] | None:
    """Element types of the multiplied operands and of the accumulators; None without a kernel.

    Operands of different types are multiplied in the type of the result.
    """
    inputs, out = ops.inputs(contraction), ops.element_type(contraction.results[0])
    kinds = {ops.element_type(inputs[n]) for p in accumulators for n in (p.a, p.b)}
    if len(kinds) > 1 and (out not in ("f32", "f64") or not kinds <= {"f16", "bf16", "f32", "f64"}):
        return None
    operand = min(kinds) if len(kinds) == 1 else out
    accumulator = ACCUMULATOR_TYPES.get((operand, out))
    return None if accumulator is None else (operand, accumulator)


def _is_unsigned(contraction: ir.Operation) -> bool:
    """Whether the contraction zero-extends an operand."""
    names = [o.operation.name for o in ops.body(contraction).operations]
    return "arith.extui" in names


def _parts(accumulators: list[Accumulator], epilogue: Sequence[ir.Operation]) -> tuple[Part, ...]:
    """The results, all in one part where an op of the epilogue needs several."""
    needs: dict[ir.Value, set[int]] = {
        accumulator.result: {n} for n, accumulator in enumerate(accumulators)
    }
    for op in epilogue:
        found = set().union(*(needs.get(v, set()) for v in op.operands))
        needs.update((result, found) for result in op.results)
    if all(len(found) <= 1 for found in needs.values()):
        return tuple((accumulator,) for accumulator in accumulators)
    return (tuple(accumulators),)


def _innermost(index_map: Sequence[int | None], sizes: Sequence[int | None]) -> int | None:
    """The loop along which elements of an operand are adjacent in memory."""
    long = [d for d in index_map if d is not None and sizes[d] != 1]
    return long[-1] if long else index_map[-1]


def problem_of(analysis: MatmulAnalysis) -> MatmulProblem:
    """The problem that the configuration is chosen by.

    A dynamic M counts as `DEFAULT_DYNAMIC_M`; a static one as `bucket_m` of it, so that near sizes
    share kernels.
    """
    maps, k_loop, first = analysis.maps, analysis.loops.inner_k, analysis.first
    bits = [ops.element_bits(v) for op in analysis.prologue for v in ops.inputs(op)]
    found = MatmulProblem(
        analysis.m or DEFAULT_DYNAMIC_M,
        analysis.n,
        analysis.k,
        known_product(analysis.batch) * len(analysis.parts),
        operand_bits=OPERAND_BITS[analysis.operand_type],
        a_k_contiguous=_innermost(maps[first.a], analysis.sizes) == k_loop,
        b_k_contiguous=_innermost(maps[first.b], analysis.sizes) == k_loop,
        batch_innermost="".join(
            name
            for name, index in (("a", first.a), ("b", first.b))
            if _innermost(maps[index], analysis.sizes) in analysis.loops.batch
        ),
        accumulators=analysis.accumulators,
        prologue=bool(analysis.prologue),
        weight_bits=min(bits) if bits and min(bits) < 16 else 0,
        grouped=analysis.grouped,
        whole_rows=analysis.whole_rows,
    )
    return dataclasses.replace(found, m=bucket_m(found.m, streamed=found.streamed_bits > 0))
