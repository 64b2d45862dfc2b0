"""ONNX: `.onnx` files, through IREE's importer of ONNX graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirfuse.core import ImportFailedError
from mlirfuse.frontends.batches.open_sizes import is_one_batch
from mlirfuse.frontends.containment import leave_out
from mlirfuse.frontends.entry_point import name_specs
from mlirfuse.frontends.imported import ImportedModel, WorkDirectory
from mlirfuse.frontends.lowering import lower, one_line, write_module
from mlirfuse.frontends.weights import INLINE_BYTES, Weights
from mlirfuse.support import dialect_modules
from mlirfuse.support.shapes import Shape
from mlirfuse.support.signature import TensorSpec

if TYPE_CHECKING:
    import onnx
    from iree.compiler import ir


_DATA_FIELDS = (
    "raw_data",
    "float_data",
    "int32_data",
    "int64_data",
    "double_data",
    "uint64_data",
)
"""Fields of a `TensorProto` that hold its elements."""

_FIRST_SCAN = 9
"""Operator set that changed Scan, which ONNX's conversion does not know."""

_SEPARATE_INITIALIZERS = 4
"""Version of the format from which initializers need not be inputs of the graph, too."""

OPSET = 17
"""Version of the operator set that older models are converted to: the oldest that IREE supports."""


def import_file(
    path: Path,
    example_inputs: Any = None,
    *,
    function: str | None = None,
    timeout: float | None = None,
) -> ImportedModel:
    """Imports an `.onnx` file and its external data, if it has any.

    Args:
      path: the file.
      example_inputs: arguments, whose sizes take the place of those that the file leaves open: a
        tuple in the order of the model, or a mapping of some by name. A number of Python is a
        constant of the program, which has no such argument. None keeps the open sizes.
      function: name of the function in the result; `main` if None.
      timeout: seconds for the lowering; None for no limit.

    Raises:
      UsageError: an example input is none of the model's, or of another shape.
      ImportFailedError: the file is damaged, or IREE has no lowering for an operator.
      CompileFailedError: the lowering crashed or ran out of time.
    """
    import onnx

    from mlirfuse.frontends import onnx_types
    from mlirfuse.frontends.onnx_repairs.casts import store

    function = function or "main"
    weights = Weights()
    model, arrays, numbers = _load(path, example_inputs)
    inputs, outputs = _copies(model.graph.input), _copies(model.graph.output)
    workdir = WorkDirectory()
    unlowered = Path(workdir.name, "imported.mlirbc")
    model.graph.name = function
    store(model)
    try:
        _write(model, arrays, weights, unlowered, str(path))
        imported = lower(
            workdir,
            unlowered,
            input_type="onnx",
            frontend="onnx",
            source=str(path),
            function=function,
            weights=weights,
            timeout=timeout,
        )
    except ImportFailedError as error:
        found = None if error.op else onnx_types.unsupported(model.graph)
        if found is not None:
            raise ImportFailedError(f"{path}: {found}") from error
        if not _has_open_sizes(inputs):
            raise
        raise ImportFailedError(
            f"{error}; {path} leaves sizes of its inputs open, and may be lowered with example"
            " inputs (--shapes)",
            op=error.op,
            place=error.place,
        ) from error
    imported.keeps_f64 |= any(
        value.type.tensor_type.elem_type in (onnx.TensorProto.DOUBLE, onnx.TensorProto.COMPLEX128)
        for value in (*inputs, *outputs, *model.graph.value_info)
    )
    imported.inputs = _stated(imported.inputs, inputs)
    imported.outputs = _stated(imported.outputs, outputs)
    imported.notes = _about_open_sizes(imported)
    imported.at_batch = _at_batch(path, inputs, example_inputs, function, timeout)
    names = [value.name for value in inputs]
    imported.reference = lambda flat: _evaluated(
        path, {**numbers, **dict(zip(names, flat, strict=True))}
    )
    return imported


def _about_open_sizes(imported: ImportedModel) -> tuple[str, ...]:
    """A note where a file leaves sizes of its inputs open."""
    given = [f"{s.name}:{'x'.join(str(n or '?') for n in s.shape)}" for s in imported.inputs]
    if not any("?" in text for text in given):
        return ()
    return (
        f"{imported.source} leaves sizes open ({', '.join(given)}), for which IREE generates most"
        " of the code: with example inputs (--shapes) the program is several times faster",
    )


def _at_batch(
    path: Path,
    inputs: Sequence[onnx.ValueInfoProto],
    example_inputs: Any,
    function: str,
    timeout: float | None,
) -> Callable[[int], ImportedModel] | None:
    """The import for a number of samples; None where other sizes are open."""
    # A size without a name is none of the others.
    shapes = {
        v.name: [
            d.dim_value if d.dim_value > 0 else d.dim_param or object()
            for d in v.type.tensor_type.shape.dim
        ]
        for v in inputs
    }
    if example_inputs is not None or not is_one_batch(shapes.values()):
        return None

    def imported(number: int) -> ImportedModel:
        given = {
            name: Shape(tuple(size if isinstance(size, int) else number for size in shape))
            for name, shape in shapes.items()
        }
        return import_file(path, given, function=function, timeout=timeout)

    return imported


def _has_open_sizes(values: Iterable[onnx.ValueInfoProto]) -> bool:
    return any(not d.dim_value > 0 for v in values for d in v.type.tensor_type.shape.dim)


def _evaluated(path: Path, values: Mapping[str, Any]) -> Sequence[Any]:
    """The results of ONNX's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    results: Sequence[Any] = ReferenceEvaluator(str(path)).run(None, dict(values))
    return results


def _stated(
    specs: Sequence[TensorSpec], values: Sequence[onnx.ValueInfoProto]
) -> tuple[TensorSpec, ...]:
    """The specs with the model's names, and with the types that the lowering drops."""
    from mlirfuse.frontends.onnx_repairs.casts import STORED
    from mlirfuse.frontends.onnx_repairs.values import UNSIGNED

    named = name_specs(specs, [value.name for value in values])
    kinds = [value.type.tensor_type.elem_type for value in values]
    return tuple(
        dataclasses.replace(
            spec,
            dtype=STORED.get(kind, f"u{spec.dtype}" if kind in UNSIGNED else spec.dtype),
        )
        for spec, kind in zip(named, kinds, strict=True)
    )


def _copies(values: Iterable[onnx.ValueInfoProto]) -> list[onnx.ValueInfoProto]:
    return [type(value).FromString(value.SerializeToString()) for value in values]


def _load(
    path: Path, example_inputs: Any = None
) -> tuple[onnx.ModelProto, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The checked model at `OPSET` or later, repaired.

    Returns:
      The model, its large initializers by name, and the inputs that are numbers by name.
    """
    import onnx
    import onnx.inliner
    import onnx.version_converter

    from mlirfuse.frontends.onnx_repairs import input_sizes

    try:
        model = _checked(path)
    except Exception as error:
        raise ImportFailedError(f"{path}: not a valid ONNX model: {one_line(error)}") from error
    numbers = {} if example_inputs is None else input_sizes.fix(model, example_inputs)
    arrays = _take_weights(model)
    failure = "cannot inline its functions"
    try:
        # A copy: the memory of removed data is not freed otherwise.
        model = onnx.inliner.inline_local_functions(model)
        version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
        if version is None:
            model.opset_import.append(onnx.helper.make_opsetid("", OPSET))
        elif version < OPSET:
            failure = f"cannot convert it from operator set {version} to {OPSET}"
            if version < _FIRST_SCAN and any(n.op_type == "Scan" for n in model.graph.node):
                raise ValueError("Scan has other operands since operator set 9")
            model = onnx.version_converter.convert_version(model, OPSET)
        failure = "cannot infer its shapes"
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:
        raise ImportFailedError(f"{path}: ONNX {failure}: {one_line(error)}") from error
    model = _rewritten(model, arrays, path)
    arrays |= _take_weights(model)
    large = {t.name: arrays[t.name] for t in model.graph.initializer if t.name in arrays}
    return model, large, numbers


def _checked(path: Path) -> onnx.ModelProto:
    """The model of a file.

    Raises an exception of any type where it is no valid model.
    """
    import onnx

    from mlirfuse.frontends.onnx_repairs import contrib

    try:
        # From the file: the checker takes models of any size this way.
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError:
        # ONNX Runtime takes these, and its tools write them.
        model = onnx.load(str(path))
        qualified, old = contrib.qualify(model), model.ir_version < _SEPARATE_INITIALIZERS
        open_results = _without_shape(model)
        if not (qualified or old or open_results):
            raise
        model.ir_version = max(model.ir_version, _SEPARATE_INITIALIZERS)
        if open_results:
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        checked = onnx.ModelProto()
        checked.CopyFrom(model)
        for value in _without_shape(checked):
            # Of a result whose shape a repair will tell.
            value.type.CopyFrom(onnx.helper.make_tensor_type_proto(_elements(value), []))
        onnx.checker.check_model(checked)
        return model
    return onnx.load(str(path))


def _without_shape(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The results whose shape the file does not state."""
    return [v for v in model.graph.output if not v.type.tensor_type.HasField("shape")]


def _elements(value: onnx.ValueInfoProto) -> int:
    return int(value.type.tensor_type.elem_type or onnx.TensorProto.FLOAT)


def _rewritten(
    model: onnx.ModelProto, arrays: dict[str, np.ndarray], path: Path
) -> onnx.ModelProto:
    """The model with its operators repaired; the model itself where our code fails."""
    from mlirfuse.frontends.onnx_repairs import REPAIRS
    from mlirfuse.frontends.onnx_repairs.rewrite import rewrite
    from mlirfuse.frontends.onnx_repairs.values import Refused

    rebuilt = type(model).FromString(model.SerializeToString())
    try:
        rewrite(rebuilt, REPAIRS, arrays)
    except Refused as error:
        raise ImportFailedError(f"{path}: {error}") from error
    except Exception as error:  # IREE may take the model as it is
        leave_out("the repair of operators", error)
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in constants]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
        return model
    return rebuilt


def _take_weights(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Removes the data of large initializers, and returns it by name.

    Conversion and shape inference copy the model several times.
    """
    import onnx

    types = onnx.TensorProto
    # Not float64: IREE converts its data to float32, and needs it inline for that.
    whole_bytes = {
        types.FLOAT,
        types.FLOAT16,
        types.BFLOAT16,
        types.INT8,
        types.INT16,
        types.INT32,
        types.INT64,
        types.UINT8,
        types.UINT16,
        types.UINT32,
        types.UINT64,
    }
    arrays = {}
    for tensor in model.graph.initializer:
        if tensor.data_type not in whole_bytes or not _has_data(tensor):
            continue
        array = onnx.numpy_helper.to_array(tensor)
        if array.nbytes >= INLINE_BYTES:
            arrays[tensor.name] = array
            for field in _DATA_FIELDS:
                tensor.ClearField(field)
        elif not tensor.raw_data and tensor.data_type in (types.FLOAT16, types.BFLOAT16):
            # IREE's importer accepts half precision only as raw data.
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    return arrays


def _has_data(tensor: onnx.TensorProto) -> bool:
    return any(getattr(tensor, field) for field in _DATA_FIELDS)


def _write(
    model: onnx.ModelProto,
    arrays: dict[str, np.ndarray],
    weights: Weights,
    path: Path,
    source: str,
) -> None:
    """Writes the graph as a module of the torch dialect, with stand-ins for large tensors."""
    from iree.compiler import ir
    from iree.compiler.extras import onnx_importer

    class Cache(onnx_importer.ContextCache):  # type: ignore[misc]
        def tensor_proto_to_attr(self, tensor: onnx.TensorProto) -> ir.Attribute:
            if tensor.name not in arrays or _has_data(tensor):
                return super().tensor_proto_to_attr(tensor)
            tensor_type = str(self.tensor_proto_to_builtin_type(tensor))
            text = weights.add(tensor.name, arrays[tensor.name], tensor_type)
            return ir.Attribute.parse(text)

    dialect_modules.add()
    context = ir.Context()
    info = onnx_importer.ModelInfo(model)
    module = info.create_module(context=context)
    try:
        importer = onnx_importer.NodeImporter.define_function(
            info.main_graph, module.operation, context_cache=Cache(context)
        )
        importer.import_all()
    except (onnx_importer.OnnxImportError, AssertionError, TypeError, ValueError) as error:
        raise ImportFailedError(
            f"{source}: IREE's importer does not take it: {one_line(error)}"
        ) from error
    for name in arrays:
        _make_literal(importer._nv_map[name].owner)
    for bitcast in _operators(module.operation, "onnx.BitCast"):
        _make_view(bitcast)
    write_module(module, path)


def _make_literal(constant: ir.Operation) -> None:
    """Turns an ONNX constant into one of the torch dialect.

    IREE replaces an ONNX constant without data by a dummy.
    """
    from iree.compiler import ir

    with constant.location, ir.InsertionPoint(constant):
        literal = ir.Operation.create(
            "torch.vtensor.literal",
            results=[constant.results[0].type],
            attributes={"value": constant.attributes["torch.onnx.value"]},
        )
    constant.results[0].replace_all_uses_with(literal.result)
    constant.erase()


def _operators(module: ir.Operation, name: str) -> list[ir.Operation]:
    """The ONNX operators of a name, in subgraphs too."""
    from iree.compiler import ir

    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "torch.operator" and ir.StringAttr(op.attributes["name"]).value == name:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    return found


def _make_view(bitcast: ir.Operation) -> None:
    """Turns a BitCast, which IREE has no lowering for, into an op of the torch dialect."""
    from iree.compiler import ir

    (operand,), (result,) = bitcast.operands, bitcast.results
    if operand.type == result.type:
        result.replace_all_uses_with(operand)
    else:
        with bitcast.location, ir.InsertionPoint(bitcast):
            # The lowering reads the result's type alone.
            code = ir.Operation.create(
                "torch.constant.int",
                results=[ir.Type.parse("!torch.int")],
                attributes={"value": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)},
            )
            view = ir.Operation.create(
                "torch.aten.view.dtype",
                results=[result.type],
                operands=[operand, code.result],
            )
        result.replace_all_uses_with(view.result)
    bitcast.erase()
