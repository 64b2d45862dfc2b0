"""JAX: functions, exported functions and serialized exports, through StableHLO."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirfuse import marks
from mlirfuse.core import CallError, ImportFailedError, UsageError
from mlirfuse.frontends.entry_point import name_specs, unsigned_elements, with_signs
from mlirfuse.frontends.imported import ImportedModel, WorkDirectory
from mlirfuse.frontends.jax_callbacks import lowering_options
from mlirfuse.frontends.jax_repairs import operations, repaired
from mlirfuse.frontends.jax_repairs.definitions import PLATFORM, portable_text
from mlirfuse.frontends.lowering import (
    convert,
    lower,
    mlir_message,
    one_line,
    write_module,
)
from mlirfuse.frontends.weights import INLINE_BYTES, Weights
from mlirfuse.support.calling import Leaf, Parameter, describe
from mlirfuse.support.signature import DynamicSize

if TYPE_CHECKING:
    import jax.export


def import_function(
    model: Callable[..., Any],
    example_inputs: Any,
    *,
    function: str | None = None,
    timeout: float | None = None,
) -> ImportedModel:
    """Imports a function, jitted or not. Arrays that it closes over become its weights.

    Args:
      model: a function; static arguments of a jitted one are bound (`functools.partial`).
      example_inputs: a tuple of positional arguments or a mapping of keyword arguments; arrays or
        `jax.ShapeDtypeStruct` in any pytree. Symbolic sizes of `jax.export.symbolic_shape` become
        dynamic dimensions.
      function: name of the function in the result: `main` or None.
      timeout: seconds for the lowering; None for no limit.

    Raises:
      UsageError: no example inputs.
      ImportFailedError: JAX cannot trace the function, or IREE has no lowering for an op.
      CompileFailedError: the lowering crashed or ran out of time.
    """
    import jax
    import jax.export

    source = getattr(model, "__name__", type(model).__name__)
    args, kwargs = _example_arguments(example_inputs, source)

    def call(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    # Unused arguments are kept, so that the caller's arguments and the program's agree.
    jitted = jax.jit(call, keep_unused=True)
    leaves, in_tree = jax.tree_util.tree_flatten_with_path((args, kwargs))
    symbolic = any(
        not isinstance(size, int) for _, leaf in leaves for size in getattr(leaf, "shape", ())
    )
    notes: list[str] = []
    marks.restart()
    try:
        if symbolic:
            exported = jax.export.export(jitted, platforms=[PLATFORM])(*args, **kwargs)
        else:
            traced = jitted.trace(*args, **kwargs)
            options = lowering_options(traced.jaxpr, notes)
            lowered = traced.lower(lowering_platforms=(PLATFORM,), **options)
            module = lowered.compiler_ir("stablehlo")
    except ImportFailedError as error:
        raise ImportFailedError(f"{source}: {error}") from error
    except Exception as error:
        raise ImportFailedError(
            f"{source}: JAX cannot trace it: {type(error).__name__}: {one_line(error)}"
        ) from error
    names = _argument_names(model, [path for path, _ in leaves])
    if symbolic:
        imported = import_exported(exported, source=source, function=function, timeout=timeout)
    else:
        imported = _import_module(module, source, function, timeout)
        kept = range(len(leaves))
        results = jax.tree_util.tree_leaves(lowered.out_info)
        imported.flatten, imported.unflatten = _calling_convention(
            source, in_tree, lowered.out_tree, kept, results
        )
    imported.inputs = name_specs(imported.inputs, names)
    imported.notes += tuple(notes)
    kept = exported.module_kept_var_idx if symbolic else range(len(leaves))
    if not any(_is_key(leaf) for _, leaf in leaves):  # only `flatten` knows keys
        imported.parameters = _parameters(in_tree, kept, _parameter_names(model))
        if len(kept) == len(leaves):
            imported.reference = _evaluator(jitted, in_tree)
    return imported


def _evaluator(function: Callable[..., Any], in_tree: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """JAX's own results of a function, for flat arguments of numpy."""

    def call(flat: Sequence[Any]) -> list[Any]:
        import jax

        args, kwargs = jax.tree_util.tree_unflatten(in_tree, list(flat))
        found: list[Any] = jax.tree_util.tree_leaves(function(*args, **kwargs))
        return found

    return call


def import_exported(
    exported: jax.export.Exported,
    *,
    source: str | None = None,
    function: str | None = None,
    timeout: float | None = None,
) -> ImportedModel:
    """Imports a result of `jax.export.export`. Arguments and errors as for `import_function`.

    Special functions (erf, top_k) are expanded in an export; from a function they are not.
    """
    from jaxlib.mlir import ir as jax_ir
    from jaxlib.mlir.dialects import stablehlo

    source = source or exported.fun_name
    if exported.nr_devices != 1:
        raise ImportFailedError(
            f"{source}: exported for {exported.nr_devices} devices; one would be accepted"
        )
    if len(exported.platforms) != 1:
        raise ImportFailedError(
            f"{source}: exported for the platforms {', '.join(exported.platforms)}; one would be "
            "accepted, e.g. jax.export.export(f, platforms=['cpu'])"
        )
    if exported.ordered_effects:
        raise ImportFailedError(f"{source}: has side effects; a pure function would be accepted")
    imported = _import_module(
        stablehlo.deserialize_portable_artifact(jax_ir.Context(), exported.mlir_module_serialized),
        source,
        function,
        timeout,
    )
    imported.sizes = _dynamic_sizes(exported)
    imported.flatten, imported.unflatten = _calling_convention(
        source,
        exported.in_tree,
        exported.out_tree,
        exported.module_kept_var_idx,
        exported.out_avals,
    )
    if not any(map(_is_key, exported.in_avals)):
        imported.parameters = _parameters(exported.in_tree, exported.module_kept_var_idx, ())
    return imported


def _dynamic_sizes(exported: jax.export.Exported) -> tuple[DynamicSize, ...]:
    """The symbols among the sizes of the arguments, without expressions of them."""
    dimensions: dict[str, list[tuple[int, int]]] = {}
    for index, kept in enumerate(exported.module_kept_var_idx):
        for axis, size in enumerate(exported.in_avals[kept].shape):
            if not isinstance(size, int) and str(size).isidentifier():
                dimensions.setdefault(str(size), []).append((index, axis))
    return tuple(DynamicSize(name, tuple(where), 1) for name, where in dimensions.items())


def import_serialized(
    data: bytes, *, source: str, function: str | None = None, timeout: float | None = None
) -> ImportedModel:
    """Imports a result of `Exported.serialize()`. Arguments and errors as for `import_function`."""
    import jax.export

    try:
        exported = jax.export.deserialize(bytearray(data))
    except ImportError as error:
        raise UsageError(
            f"importing {source} needs flatbuffers: pip install 'mlirfuse[jax]'"
        ) from error
    except Exception as error:
        raise ImportFailedError(
            f"{source}: not a serialized jax.export that this JAX reads: "
            f"{type(error).__name__}: {one_line(error)}"
        ) from error
    _check(exported.mlir_module_serialized, source, timeout)
    return import_exported(exported, source=source, function=function, timeout=timeout)


def _check(module: bytes, source: str, timeout: float | None) -> None:
    """Parses the module of a file in a subprocess first: the parser can abort on damage."""
    with WorkDirectory() as folder:
        path = Path(folder, "module.mlirbc")
        path.write_bytes(module)
        read = path.with_name("read.mlir")
        convert("iree-opt", path, (), read, source=source, timeout=timeout)


def _example_arguments(example_inputs: Any, source: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if example_inputs is None:
        raise UsageError(
            f"{source}: a JAX function needs example inputs: a tuple of arguments, or a mapping "
            "of keyword arguments; arrays or jax.ShapeDtypeStruct"
        )
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, tuple | list):
        return tuple(example_inputs), {}
    return (example_inputs,), {}


def _take_weights(module: Any, weights: Weights) -> None:
    """Replaces the large constants of a module in JAX's own MLIR by stand-ins."""
    from jaxlib.mlir import ir as jax_ir

    for op in operations(module):
        if op.name != "stablehlo.constant":
            continue
        # The type is read first: jaxlib has no class for dense elements of complex numbers.
        element = str(jax_ir.ShapedType(op.results[0].type).element_type)
        bits = re.fullmatch(r"(?:u?i|b?f)(\d+)(?:E\w+)?", element)
        # Not float64: IREE converts its data to float32, and needs it inline for that.
        if not bits or int(bits[1]) % 8 or element == "f64":
            continue
        value = op.attributes["value"]
        if not isinstance(value, jax_ir.DenseElementsAttr) or value.is_splat:
            continue
        if len(value) * int(bits[1]) // 8 < INLINE_BYTES:
            continue
        stand_in = weights.add("constant", _data(value), str(value.type))
        with module.context:
            op.attributes["value"] = jax_ir.Attribute.parse(stand_in)


def _data(value: Any) -> np.ndarray:
    """The bytes of a constant; those of types that numpy lacks are parsed from its printed form."""
    try:
        # A view: it keeps JAX's module alive, and its data is not copied.
        return np.asarray(value)
    except TypeError:
        found = re.match(r'dense<"0x([0-9A-F]+)">', str(value))
        assert found, "MLIR prints large constants in hexadecimal"
        return np.frombuffer(bytes.fromhex(found[1]), np.uint8)


def _import_module(
    module: Any, source: str, function: str | None, timeout: float | None
) -> ImportedModel:
    """Imports a module of JAX's own MLIR, and removes the weights from it."""
    from iree.compiler import ir

    weights = Weights()
    _take_weights(module.operation, weights)
    text = portable_text(module, locations=True)
    workdir = WorkDirectory()
    unlowered = Path(workdir.name, "imported.mlirbc")
    signs: tuple[list[bool], list[bool]] = [], []

    def read() -> ir.Module:
        nonlocal signs
        parsed = ir.Module.parse(text)
        signs = unsigned_elements(parsed, function)
        return parsed

    try:
        repaired(read, lambda result: write_module(result, unlowered))
    except ir.MLIRError as error:
        raise ImportFailedError(
            f"{source}: IREE does not read this JAX's StableHLO: {mlir_message(error)}"
        ) from error
    imported = lower(
        workdir,
        unlowered,
        input_type="stablehlo",
        frontend="jax",
        source=source,
        function=function,
        weights=weights,
        timeout=timeout,
    )
    imported.inputs = with_signs(imported.inputs, signs[0])
    imported.outputs = with_signs(imported.outputs, signs[1])
    imported.keeps_f64 |= re.search(r"tensor<[^>]*f64>", text) is not None
    return imported


def _argument_names(model: Callable[..., Any], paths: Sequence[Sequence[Any]]) -> list[str]:
    """Names of the flat arguments from the model's parameters, e.g. `x`, `params['w']`."""
    import jax

    parameters = _parameter_names(model)
    names = []
    for kind, argument, *rest in paths:
        index = argument.idx if kind.idx == 0 else None
        if index is None:
            name = str(argument.key)
        else:
            name = parameters[index] if index < len(parameters) else f"arg{index}"
        names.append(name + jax.tree_util.keystr(tuple(rest)))
    return names


def _parameter_names(model: Callable[..., Any]) -> list[str]:
    """Names of the model's parameters, up to the first that stands for several arguments."""
    try:
        found = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return []
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in itertools.takewhile(lambda p: p.kind not in several, found)]


def _parameters(in_tree: Any, kept: Collection[int], names: Sequence[str]) -> tuple[Parameter, ...]:
    """The parameters of the imported model; the program takes only the `kept` leaves."""
    import jax

    places = itertools.count()
    leaves = [Leaf(next(places) if i in kept else None) for i in range(in_tree.num_leaves)]
    try:
        args, kwargs = jax.tree_util.tree_unflatten(in_tree, leaves)
    except Exception:  # a class of the model's own may refuse stand-ins in any way it likes
        return ()
    return describe(args, kwargs, names)


def _calling_convention(
    source: str, in_tree: Any, out_tree: Any, kept: Collection[int], declared: Sequence[Any]
) -> tuple[Callable[..., list[Any]], Callable[[Sequence[Any]], Any]]:
    """`flatten` and `unflatten` of the imported model; the program takes only the `kept` leaves.

    Keys of `jax.random.key` are arrays of integers in the program.
    """
    import jax

    def flatten(*args: Any, **kwargs: Any) -> list[Any]:
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        if tree != in_tree:
            raise CallError(
                f"{source}: called with arguments of the structure {one_line(tree)}; it was "
                f"exported for {one_line(in_tree)}"
            )
        return [_data_of_key(leaf) for index, leaf in enumerate(leaves) if index in kept]

    def unflatten(results: Sequence[Any]) -> Any:
        leaves = [_key_of_data(leaf, aval) for leaf, aval in zip(results, declared, strict=True)]
        return jax.tree_util.tree_unflatten(out_tree, leaves)

    return flatten, unflatten


_KEY_KINDS = ("threefry2x32", "rbg", "unsafe_rbg")
"""JAX's generators of random numbers."""


def _is_key(value: Any) -> bool:
    import jax

    dtype = getattr(value, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def _data_of_key(value: Any) -> Any:
    """The integers of a random key; other values unchanged."""
    import jax

    return jax.random.key_data(value) if _is_key(value) else value


def _key_of_data(value: Any, declared: Any) -> Any:
    """The random key with these integers, if the result is one."""
    import jax
    import jax.numpy as jnp

    if not _is_key(declared):
        return value
    for name in _KEY_KINDS:
        key = jax.eval_shape(functools.partial(jax.random.key, 0, impl=name))
        if key.dtype == declared.dtype:
            return jax.random.wrap_key_data(jnp.asarray(value), impl=name)
    raise CallError(f"a result is a random key of the unknown kind {declared.dtype}")
