"""Reads a region of elementwise ops and moved data: axes, accesses, the costliest of them.

analysis = analyze(region)         PointwiseAnalysis, the refusal, or None for other regions
problem = problem_of(analysis)     sizes and traits that the configuration is chosen by
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.demand_writer import MOVEMENTS
from mlirfuse.kernels.codegen.element_types import POINTERS, Unsupported
from mlirfuse.kernels.codegen.loop_nest import Nest, count
from mlirfuse.kernels.codegen.tile_writer import attempted, computing, returned
from mlirfuse.kernels.data_movement.analysis import is_concatenation
from mlirfuse.kernels.pointwise.problem import PointwiseProblem
from mlirfuse.structured.ir import ops, slices

SHARED = "the axes of the largest result"
"""The axes that the ops of a region have in common."""

_OF_INDICES = ("arith.", "linalg.index", "linalg.yield")
"""The scalar ops of a tensor that is computed from indices."""

_TRAITS = ("gathered", "swapped", "permuted", "sliced", "error function", "functions")
"""Traits by which IREE's code for a region is slow or fast, the strongest first."""


@dataclasses.dataclass(frozen=True, slots=True)
class PointwiseAnalysis:
    """A region of elementwise ops.

    Attributes:
      group: ops in block order.
      results: values that the region returns.
      nest: the axes of the largest result, and how operands are read along them.
    """

    group: tuple[ir.Operation, ...]
    results: tuple[ir.Value, ...]
    nest: Nest


def analyze(region: ir.Operation) -> PointwiseAnalysis | NoMatch | None:
    """Reads a region; None for another kind of region, or the reason why there is no kernel."""
    results = returned(region)
    group = [*computing(region), *_final_slices(results)]
    group = [*_of_indices(group), *group]
    others = [op for op in group if not ops.is_elementwise(op)]
    if not group or any(not op.name.startswith("tensor.") for op in others):
        return None
    if is_concatenation(group):
        return None  # of the family `data_movement`
    return analyze_ops(group, results)


def computes_from_indices(op: ir.Operation) -> bool:
    """Whether an op in no region computes a static tensor, like `arange`, from indices alone.

    A kernel that reads it computes its elements again, in place of a load.
    """
    if not ops.is_elementwise(op) or ops.num_inputs(op) or ops.reads_inits(op):
        return False
    if len(op.results) != 1 or None in ops.shape(op.results[0]) or ops.in_region(op):
        return False
    given = [value for value in ops.external_operands(op) if ops.ranked(value) is None]
    return all(name.startswith(_OF_INDICES) for name in ops.scalar_names(op)) and all(
        ops.constant(value) is not None for value in given
    )


def _of_indices(group: Sequence[ir.Operation]) -> list[ir.Operation]:
    """The ops before a region that compute what it reads from indices alone, each once."""
    read = (owner for op in group for _, owner in ops.operand_producers(op))
    found = (op for op in read if op is not None and op not in group)
    return list(dict.fromkeys(op for op in found if computes_from_indices(op)))


def _final_slices(results: Sequence[ir.Value]) -> list[ir.Operation]:
    """The slices that a region returns, which are ops of the kernel then."""
    found = [ops.defining_op(value) for value in results]
    return [op for op in found if op is not None and op.name == "tensor.extract_slice"]


def analyze_ops(
    group: Sequence[ir.Operation], results: Sequence[ir.Value]
) -> PointwiseAnalysis | NoMatch:
    """Reads elementwise ops that a region has, or would have.

    Args:
      group: the ops, in block order.
      results: the values that the region returns.
    """
    for op in group:
        if not ops.is_elementwise(op) and op.name not in MOVEMENTS:
            return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(op)}")
        if op.name == "tensor.insert_slice" and not _is_own(op.operands[1], group):
            return NoMatch(Reason.STRUCTURE, "the kernel has no insertion into other memory")
    return attempted(lambda: _analyzed(group, results), SHARED)


def _is_own(whole: ir.Value, group: Sequence[ir.Operation]) -> bool:
    """Whether nothing else has written a tensor that a part is inserted into."""
    owner = ops.defining_op(whole)
    return owner is not None and (owner in group or slices.is_clonable(owner))


def _analyzed(group: Sequence[ir.Operation], results: Sequence[ir.Value]) -> PointwiseAnalysis:
    kinds = {ops.element_type(value) for value in results}
    if not kinds <= POINTERS.keys():
        raise Unsupported(f"a result of type {results[0].type}")
    return PointwiseAnalysis(tuple(group), tuple(results), Nest(group, results))


def problem_of(analysis: PointwiseAnalysis) -> PointwiseProblem:
    """The problem that the configuration, and whether a kernel pays, are chosen by."""
    bits = max(ops.element_bits(value) for value in analysis.results)
    several = len(analysis.results) > 1
    elements, own = count(analysis.nest.sizes), {v for op in analysis.group for v in op.results}
    read = {v for op in analysis.group for v in op.operands if ops.ranked(v) is not None} - own
    wide = any(ops.element_type(v) == "i64" and ops.num_elements(v) >= elements for v in read)
    trait = _trait(analysis)
    inside = (o for op in analysis.group for o in ops.nested_ops(op)) if trait == "gathered" else ()
    gathers = [o.operands[0] for o in inside if o.name == "tensor.extract"]
    spread = any(ops.num_elements(source) >= elements for source in gathers)
    return PointwiseProblem(elements, trait, bits, several, wide, len(gathers), spread)


def _trait(analysis: PointwiseAnalysis) -> str:
    """The strongest trait of a region."""
    nest = analysis.nest
    if nest.transposed:
        return "transposed"
    computed = [op for op in analysis.group if ops.is_elementwise(op)]
    names = {name for op in computed for name in ops.scalar_names(op)}
    found = {read.trait for read in (*nest.reads, *nest.permuted_writes)}
    found |= {"error function"} if "math.erf" in names else set()
    found |= {"functions"} if any(name.startswith("math.") for name in names) else set()
    return next((trait for trait in _TRAITS if trait in found), "arithmetic")
