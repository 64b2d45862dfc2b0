"""Forms that IREE's code generation for a target needs, after all passes or without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iree.compiler import ir

from mlirfuse.builders import (
    angles,
    cuda_contractions,
    cuda_convolutions,
    cuda_dispatches,
    cuda_gathers,
    cuda_operands,
    cuda_reductions,
    float8_casts,
    float64_functions,
    half_arithmetic,
    math_functions,
    spirv_contractions,
)
from mlirfuse.builders.bf16_casts import keep_rounding, round_integers_to_bf16
from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from mlirfuse.targets.base import Target


def needed(target: Target) -> bool:
    """Whether the target has any repair."""
    forms = target.name in ("cpu", "cuda") or bool(target.missing_mma_shapes)
    return forms or not target.bf16_instructions


def repair(module: ir.Module, target: Target, *, exact: bool) -> bool:
    """Rewrites the ops that IREE compiles wrong, or slowly; returns whether there were any.

    Args:
      module: the module.
      target: the machine that it will be compiled for.
      exact: whether the result of each op is rounded to its type.
    """
    changed = not target.bf16_instructions and round_integers_to_bf16(module)
    return repair_grouped(module, target, exact=exact) or changed


def repair_constants(module: ir.Module, *, has_angles: bool, keeps_f64: bool) -> bool:
    """Rewrites functions of constants, which IREE computes on a CPU before code generation.

    Args:
      module: an imported model.
      has_angles: whether it has sines, cosines or tangents.
      keeps_f64: whether its f64 stays f64.

    Returns:
      Whether there are any.
    """

    def of_constants(functions: list[ir.Operation]) -> list[ir.Operation]:
        return [op for op in functions if not _depends_on_arguments(op.parent.operation)]

    reduced = has_angles and angles.reduce_ops(of_constants(angles.angle_functions(module)))
    # IREE compiles them for a CPU that is not the target: one without FMA.
    functions = of_constants(float64_functions.found(module)) if keeps_f64 else []
    return float64_functions.expand_ops(functions, fuses=False) or reduced


def _depends_on_arguments(op: ir.Operation) -> bool:
    """Whether an op is computed from an argument of its function, or of a block around it."""
    work = [op]
    seen = {op}
    while work:
        for _, producer in ops.operand_producers(work.pop()):
            if producer is None:
                return True
            if producer not in seen:
                seen.add(producer)
                work.append(producer)
    return False


def repair_grouped(module: ir.Module, target: Target, *, exact: bool) -> bool:
    """The repairs of a module from the engine, which rounds integers to bf16 itself."""
    if target.cpu is not None:
        changed = not exact and keep_rounding(module, every=False)
        changed |= half_arithmetic.widen(module, rounds=exact)
        changed |= exact and keep_rounding(module, every=True)
        changed |= float64_functions.expand(module, fuses=target.cpu.has_fma)
        changed |= float8_casts.repair(module, float8_casts.CPU_TYPES)
        functions = math_functions.expand if target.cpu.has_fma else angles.reduce_angles
        return functions(module) or changed
    if target.name != "cuda":
        return spirv_contractions.repair(module, target)
    # After the passes: Triton's kernels call functions of libdevice, which reduce angles.
    reduced = angles.reduce_angles(module)
    forms = (
        cuda_gathers,
        cuda_dispatches,
        cuda_operands,
        cuda_reductions,
        cuda_convolutions,
        cuda_contractions,
        float8_casts,
    )
    return any([form.repair(module) for form in forms]) or reduced
