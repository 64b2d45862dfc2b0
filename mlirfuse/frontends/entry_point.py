"""The entry point of a module: the function to call, its arguments and its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mlirfuse.core import ImportFailedError, UsageError, nearest
from mlirfuse.support.signature import TensorSpec

if TYPE_CHECKING:
    from iree.compiler import ir

Signature = tuple[str, tuple[TensorSpec, ...], tuple[TensorSpec, ...]]

_FUNCTIONS = ("func.func", "util.func")

_GLOBALS = ("util.global", "ml_program.global")

_UNSIGNED = "ui"
"""Start of MLIR's spelling of an unsigned integer; no other element type contains it."""

_COMPILED = (
    "flow.dispatch.workgroups",
    "flow.executable",
    "stream.executable",
    "hal.executable",
    "vm.module",
)
"""Ops of programs in which IREE has formed dispatches, so that nothing can be fused any more."""

_ASYNC = "$async"
"""IREE's suffix for the function that a synchronous entry point wraps."""


def read_signature(module: ir.Module, function: str | None, source: str) -> Signature:
    """Name, arguments and results of the function to call.

    Args:
      module: functions on tensors, or on the buffer views that IREE's ABI turns them into.
      function: name of the function; None for the only public function, or for `main`.
      source: name of the model, for errors.

    Raises:
      UsageError: no function has that name, or the choice is not clear.
      ImportFailedError: the module has no function to call, or an argument or result is neither a
        tensor nor a scalar.
    """
    _refuse_compiled(module.body, source)
    functions = {
        _symbol(op.operation): op.operation
        for op in module.body.operations
        if op.operation.name in _FUNCTIONS
    }
    entries = [name for name, op in functions.items() if _is_entry(op)]
    if not entries:
        raise ImportFailedError(f"{source}: the module has no public function with a body")
    if function is None and len(entries) > 1 and "main" not in entries:
        raise UsageError(
            f"{source}: the module has several functions; choose one with function=NAME "
            f"(known: {', '.join(sorted(entries))})"
        )
    if function is None:
        function = "main" if "main" in entries else entries[0]
    elif function not in entries:
        raise UsageError(
            f"{source}: the module has no function '{function}'{nearest(function, entries)}"
        )
    for block in functions[function].regions[0].blocks:
        _refuse_compiled(block, source)
    types = _function_type(functions[function])
    inputs, outputs = list(types.inputs), list(types.results)
    if any("!hal." in str(t) for t in (*inputs, *outputs)):
        inner = functions.get(function + _ASYNC, functions[function])
        inputs = [_imported(inner, i, t) for i, t in enumerate(inputs)]
        outputs = [_exported(inner, i, t) for i, t in enumerate(outputs)]
    where = f"{source}: function '{function}'"
    return (
        function,
        tuple(_spec(t, f"{where}, argument {i}") for i, t in enumerate(inputs)),
        tuple(_spec(t, f"{where}, result {i}") for i, t in enumerate(outputs)),
    )


def has_state(module: ir.Module) -> bool:
    """Whether the module has a variable, which keeps its value from call to call."""
    return any(
        op.operation.name in _GLOBALS and "is_mutable" in op.operation.attributes
        for op in module.body.operations
    )


def name_specs(specs: Iterable[TensorSpec], names: Iterable[str]) -> tuple[TensorSpec, ...]:
    """The specs with the model's own names."""
    return tuple(
        TensorSpec(shape=spec.shape, dtype=spec.dtype, name=name)
        for spec, name in zip(specs, names, strict=True)
    )


def unsigned_elements(module: ir.Module, function: str | None) -> tuple[list[bool], list[bool]]:
    """Whether each argument and each result of a function has unsigned elements.

    Args:
      module: StableHLO, whose types have signs; linalg has none.
      function: name of the function; None for `main`.
    """
    for op in module.body.operations:
        if op.operation.name in _FUNCTIONS and _symbol(op.operation) == (function or "main"):
            types = _function_type(op.operation)
            signs = [[_UNSIGNED in str(t) for t in side] for side in (types.inputs, types.results)]
            return signs[0], signs[1]
    return [], []


def with_signs(specs: Sequence[TensorSpec], unsigned: Sequence[bool]) -> tuple[TensorSpec, ...]:
    """The specs with `ui` for the integers that are unsigned; unchanged if the counts differ."""
    if len(specs) != len(unsigned):
        return tuple(specs)
    return tuple(
        dataclasses.replace(spec, dtype=f"u{spec.dtype}")
        if sign and spec.dtype.startswith("i")
        else spec
        for spec, sign in zip(specs, unsigned, strict=True)
    )


def _refuse_compiled(block: ir.Block, source: str) -> None:
    for op in block.operations:
        if op.operation.name in _COMPILED:
            raise ImportFailedError(
                f"{source}: holds '{op.operation.name}', so IREE formed its dispatches already; a "
                "module up to --compile-to=global-optimization would be accepted"
            )


def _symbol(op: ir.Operation) -> str:
    from iree.compiler import ir

    return str(ir.StringAttr(op.attributes["sym_name"]).value)


def _function_type(op: ir.Operation) -> ir.FunctionType:
    from iree.compiler import ir

    return ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)


def _is_entry(op: ir.Operation) -> bool:
    """Public, with a body, and not the asynchronous half of a pair."""
    visibility = str(op.attributes["sym_visibility"]) if "sym_visibility" in op.attributes else ""
    return (
        "private" not in visibility
        and len(op.regions[0].blocks) > 0
        and not _symbol(op).endswith(_ASYNC)
    )


def _imported(function: ir.Operation, index: int, declared: ir.Type) -> ir.Type:
    """The type that a buffer view argument is imported as; other types unchanged."""
    for use in function.regions[0].blocks[0].arguments[index].uses:
        if use.owner.operation.name == "hal.tensor.import":
            return use.owner.operation.results[0].type
    return declared


def _exported(function: ir.Operation, index: int, declared: ir.Type) -> ir.Type:
    """The type that a buffer view result is exported from; other types unchanged."""
    from iree.compiler import ir

    blocks = list(function.regions[0].blocks)
    owner = list(blocks[-1].operations)[-1].operation.operands[index].owner
    if not isinstance(owner, ir.Block) and owner.operation.name == "hal.tensor.export":
        return owner.operation.operands[0].type
    return declared


def _spec(declared: ir.Type, where: str) -> TensorSpec:
    from iree.compiler import ir

    if isinstance(declared, ir.RankedTensorType):
        shape = tuple(
            None if declared.is_dynamic_dim(i) else declared.get_dim_size(i)
            for i in range(declared.rank)
        )
        return TensorSpec(shape=shape, dtype=str(declared.element_type))
    if isinstance(declared, ir.IntegerType | ir.FloatType | ir.IndexType):
        return TensorSpec(shape=(), dtype=str(declared))
    raise ImportFailedError(
        f"{where} is of type {declared}; a ranked tensor or a scalar would be accepted"
    )
