"""Ops that IREE 3.13 lacks or computes wrong, replaced by JAX programs of the same meaning.

  %0 = stablehlo.custom_call @lapack_spotrf_ffi(%a)
becomes the StableHLO of `linear_algebra.cholesky` for the type of %a, inlined.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirfuse.frontends.jax_repairs.rewriting import callee, operations, symbol

if TYPE_CHECKING:
    from iree.compiler import ir

Function = Callable[..., Any]

PLATFORM = "cpu"
"""The platform that JAX lowers for, whichever it runs on: its lowering for a GPU calls NVIDIA's
libraries, as `cusolver_syevd_ffi`."""

_NAMES = {
    "i1": "bool",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
"""MLIR's element types whose name in JAX follows no rule."""


def define(op: ir.Operation, function: Function, *, expanded: bool = False) -> bool:
    """Replaces an op by a JAX function of its operands; its results have the op's types.

    Args:
      op: an op whose operands and results are tensors.
      function: traced by JAX for the types of the operands.
      expanded: whether CHLO's ops in its trace become StableHLO.

    Returns:
      Whether it did: not for dynamic sizes, and not without JAX.
    """
    results = traced(op, function, list(op.operands), expanded=expanded)
    if results is None:
        return False
    declared = [result.type for result in op.results]
    if [result.type for result in results] != declared:
        raise TypeError(f"{op.name}: {[str(r.type) for r in results]} for {declared}")
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
    return True


def traced(
    op: ir.Operation, function: Function, operands: Sequence[ir.Value], *, expanded: bool = False
) -> list[ir.Value] | None:
    """The results of a JAX function of some tensors, computed in front of an op.

    None for dynamic sizes, and without JAX. The arguments are those of `define`.
    """
    from iree.compiler import ir

    try:
        import jax
    except ImportError:
        return None
    shapes = [_shape(value.type) for value in operands]
    if any(shape is None for shape in shapes):
        return None
    wide = any("64" in str(shape.dtype) or "128" in str(shape.dtype) for shape in shapes)
    with jax.enable_x64(wide):
        traced = jax.jit(function, keep_unused=True).trace(*shapes)
        lowered = traced.lower(lowering_platforms=(PLATFORM,))
        text = portable_text(lowered.compiler_ir("stablehlo"), expanded=expanded)
    module = ir.Module.parse(text, op.context)
    functions = {symbol(part.operation): part.operation for part in module.body.operations}
    with op.location:
        return _inlined(functions, functions["main"], operands, op)


def portable_text(module: Any, *, locations: bool = False, expanded: bool = False) -> str:
    """A module of JAX's own MLIR as text that IREE's parser reads; the module is changed.

    Gathers and scatters lose their batching dimensions, for which IREE has no lowering, and
    functions of complex numbers become real arithmetic: IREE's own are wrong at zeros and
    infinities, and its square root everywhere. The generic form has no custom syntax, in which
    JAX's version and IREE's could differ.

    Args:
      module: from JAX's lowering.
      locations: whether the text has locations.
      expanded: whether CHLO's ops become StableHLO.
    """
    from jaxlib.mlir import passmanager
    from jaxlib.mlir.dialects import stablehlo

    stablehlo.register_stablehlo_passes()
    passes = ["stablehlo-compatibility-expander{target=1.0.0}"]
    if expanded:
        passes.append("func.func(chlo-legalize-to-stablehlo)")
    passes.append("func.func(stablehlo-complex-math-expander)")
    with module.context:
        pipeline = f"builtin.module({','.join(passes)})"
        passmanager.PassManager.parse(pipeline).run(module.operation)
    text: str = module.operation.get_asm(enable_debug_info=locations, print_generic_op_form=True)
    return text


def _shape(declared: ir.Type) -> Any:
    """The type as JAX has it; None for a dynamic one."""
    import jax
    from iree.compiler import ir

    tensor = ir.RankedTensorType(declared)
    if not tensor.has_static_shape:
        return None
    return jax.ShapeDtypeStruct(tuple(tensor.shape), numpy_type(str(tensor.element_type)))


@functools.cache
def numpy_type(element: str) -> np.dtype[Any]:
    """JAX's element type for MLIR's, e.g. `ui8`, `bf16` or `f8E4M3FN`."""
    import jax.numpy as jnp

    if integer := re.fullmatch(r"(u?)i(\d+)", element):
        name = "bool" if element == "i1" else f"{integer[1]}int{integer[2]}"
    elif element.startswith("f8"):
        name = f"float8_{element[2:].lower()}"
    else:
        name = _NAMES[element]
    found: np.dtype[Any] = np.dtype(getattr(jnp, name))
    return found


def _inlined(
    functions: dict[str, ir.Operation],
    function: ir.Operation,
    operands: Sequence[ir.Value],
    before: ir.Operation,
) -> list[ir.Value]:
    """Copies a function's body in front of an op, and its callees' bodies."""

    def called(call: ir.Operation) -> list[ir.Value]:
        return _inlined(functions, functions[callee(call)], list(call.operands), call)

    return copied(function.regions[0].blocks[0], operands, before, called)


def copied(
    block: ir.Block,
    operands: Sequence[ir.Value],
    before: ir.Operation,
    called: Callable[[ir.Operation], list[ir.Value]] | None = None,
) -> list[ir.Value]:
    """Copies the ops of a block in front of an op.

    Args:
      block: ends in a return.
      operands: values for the block's arguments.
      before: the op.
      called: makes the results of a call; None to keep calls.

    Returns:
      The values that the block returns.
    """
    from iree.compiler import ir

    values: dict[ir.Value, ir.Value] = dict(zip(block.arguments, operands, strict=True))
    point = ir.InsertionPoint(before)
    *body, end = (op.operation for op in block.operations)
    for op in body:
        copy = op.clone(point)
        inside = [copy, *operations(copy)]
        for each in inside:
            for index, operand in enumerate(each.operands):
                if (found := values.get(operand)) is not None:
                    each.operands[index] = found
        for call in [each for each in inside[1:] if called and each.name == "func.call"]:
            assert called is not None
            for old, new in zip(call.results, called(call), strict=True):
                old.replace_all_uses_with(new)
            call.erase()
        results: Sequence[ir.Value] = list(copy.results)
        if called and copy.name == "func.call":
            results = called(copy)
            copy.erase()
        values.update(zip(op.results, results, strict=True))
    return [values.get(value, value) for value in end.operands]
