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
    half_arithmetic,
    math_functions,
)
from mlirfuse.builders.bf16_casts import round_integers_to_bf16

if TYPE_CHECKING:
    from mlirfuse.targets.base import Target


def needed(target: Target) -> bool:
    """Whether the target has any repair."""
    return target.name in ("cpu", "cuda") or not target.bf16_instructions


def repair(module: ir.Module, target: Target, *, exact: bool) -> bool:
    """Rewrites the ops that IREE compiles wrong, or slowly; returns whether there were any.

    Args:
      module: the module.
      target: the machine that it will be compiled for.
      exact: whether the result of each op is rounded to its type.
    """
    changed = not target.bf16_instructions and round_integers_to_bf16(module)
    return repair_grouped(module, target, exact=exact) or changed


def repair_grouped(module: ir.Module, target: Target, *, exact: bool) -> bool:
    """The repairs of a module from the engine, which rounds integers to bf16 itself."""
    if target.cpu is not None:
        changed = half_arithmetic.widen(module, rounds=exact)
        functions = math_functions.expand if target.cpu.has_fma else angles.reduce_angles
        return functions(module) or changed
    if target.name != "cuda":
        return False
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
