"""Compute the bodies of f16 and bf16 in f32 on CPUs, and round their results.

    %a = arith.addf %x, %y : f16
    %b = math.sqrt %a : f16
  becomes
    %a = arith.addf extf %x, extf %y : f32
    %b = arith.truncf (math.sqrt %a)

in structured ops but contractions, and on the vectors of kernels. Without it LLVM converts the
operands and the result of each op, and computes some, as the square root of f16, one element at a
time. Numerics: values between ops are not rounded, as in TorchInductor; with `exact` they are. A
cast of the model stays where it casts back (`bf16_casts`). A comparison of two computed numbers, or
for equality, always reads rounded ones: a number is equal to its copy in memory, and `y == y.max()`
holds somewhere.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from iree.compiler import ir

from mlirfuse.builders.bf16_casts import rounded_to_bf16
from mlirfuse.builders.numbers import HALVES, Numbers, element_of
from mlirfuse.structured.ir import ops

_KEPT = frozenset({"arith.bitcast", "arith.constant", "arith.extf", "arith.truncf"})
"""Ops that are about the type itself."""

_NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}

_EQUALITIES = frozenset({1, 6, 8, 13})
"""Predicates of `arith.cmpf`: `oeq`, `one`, `ueq`, `une`."""

_COPIES = frozenset({"vector.broadcast", "arith.truncf", "arith.extf"})
"""Ops of a constant whose results are as constant."""


def widen(module: ir.Module, *, rounds: bool) -> bool:
    """Widens all bodies; returns whether there are any.

    Args:
      module: the module of a CPU.
      rounds: whether the result of each op is rounded.
    """
    found = [op for op in ops.nested_ops(module.operation) if _is_arithmetic(op)]
    made: dict[ir.Value, ir.Value] = {}
    for op in found:
        _widen(op, made, rounds=rounds)
    for rounded in reversed(list(made)):
        if not any(True for _ in rounded.uses):
            rounded.owner.erase()
    return bool(found)


def _is_arithmetic(op: ir.Operation) -> bool:
    """Whether an op computes halves, or compares them, in a body that may be widened."""
    if not op.name.startswith(("arith.", "math.")) or op.name in _KEPT or len(op.results) != 1:
        return False
    if not any(element_of(value.type) in HALVES for value in op.operands):
        return False
    if isinstance(op.operands[0].type, ir.VectorType):
        return True
    parent = op.parent.operation
    return ops.is_generic(parent) and not ops.multiplies_and_adds(parent)


def _widen(op: ir.Operation, made: dict[ir.Value, ir.Value], *, rounds: bool) -> None:
    """Replaces an op by one of f32.

    Args:
      op: the op.
      made: rounded result of a replaced op -> the f32 that was rounded; the op's is added.
      rounds: whether later ops read the rounded result.
    """
    result = op.results[0]
    with op.location, ir.InsertionPoint(op):
        if not rounds and needs_rounding(op):
            operands = [_rounded(value, made) for value in op.operands]
        else:
            operands = [_wide(value, {} if rounds else made) for value in op.operands]
        kind = result.type
        is_half = element_of(kind) in HALVES
        wide = ir.Operation.create(
            op.name,
            results=[Numbers(kind).kind("f32") if is_half else kind],
            operands=operands,
            attributes={name: op.attributes[name] for name in op.attributes},
        ).results[0]
        if is_half:
            rounded = Numbers(kind).op("arith.truncf", wide, element=element_of(kind))
            made[rounded] = wide
            wide = rounded
    result.replace_all_uses_with(wide)
    op.erase()


def needs_rounding(op: ir.Operation) -> bool:
    """Whether an op compares numbers that differ from their copies in memory if not rounded."""
    if op.name != "arith.cmpf" or op.operands[0] == op.operands[1]:
        return False
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    return predicate in _EQUALITIES or not any(map(_is_constant, op.operands))


def _is_constant(value: ir.Value) -> bool:
    """Whether a number is known, of vectors in all lanes."""
    source = ops.defining_op(value)
    while source is not None and source.name in _COPIES:
        source = ops.defining_op(source.operands[0])
    return source is not None and source.name == "arith.constant"


def _rounded(value: ir.Value, made: dict[ir.Value, ir.Value]) -> ir.Value:
    """A half in f32, rounded also where IREE would fold the casts of bf16."""
    if element_of(value.type) != "bf16" or not _may_be_folded(value):
        return _wide(value, {})
    return rounded_to_bf16(_wide(value, made))


def _may_be_folded(value: ir.Value) -> bool:
    """Whether a half is cast from f32 in its body, or in that of the op before."""
    source = ops.defining_op(value)
    if source is not None:
        return source.name in _KEPT or source.name.startswith(("arith.", "math."))
    generic = ops.block_of(value).owner.operation
    if not ops.is_generic(generic):
        return False
    source = ops.defining_op(generic.operands[ir.BlockArgument(value).arg_number])
    return source is not None and ops.is_generic(source)


def _wide(value: ir.Value, made: dict[ir.Value, ir.Value]) -> ir.Value:
    element = element_of(value.type)
    if element not in HALVES:
        return value
    numbers, number = Numbers(value.type), _rounded_constant(value, element)
    if number is not None:
        return numbers.constant(number)
    return made[value] if value in made else numbers.op("arith.extf", value)


def _rounded_constant(value: ir.Value, element: str) -> float | None:
    """The number of a constant that is cast to a half, whose casts IREE would fold."""
    source = ops.defining_op(value)
    if source is None or source.name != "arith.truncf":
        return None
    number = ops.constant(source.operands[0])
    if not isinstance(number, float):
        return None
    with np.errstate(over="ignore"):
        return float(np.asarray(number).astype(_NUMPY[element]))
