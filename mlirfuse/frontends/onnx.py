"""ONNX: `.onnx` files, through IREE's importer of ONNX graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlirfuse.core import ImportFailedError
from mlirfuse.frontends.entry_point import name_specs
from mlirfuse.frontends.imported import ImportedModel, WorkDirectory
from mlirfuse.frontends.lowering import lower, one_line, write_module
from mlirfuse.frontends.weights import INLINE_BYTES, Weights

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

_ACCUMULATING = frozenset(
    {
        "AveragePool",
        "CumSum",
        "GlobalAveragePool",
        "InstanceNormalization",
        "LogSoftmax",
        "LpNormalization",
        "MeanVarianceNormalization",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
        "ReduceSum",
        "ReduceSumSquare",
    }
)
"""Operators that IREE's lowering accumulates in the element type."""

OPSET = 17
"""Version of the operator set that older models are converted to: the oldest that IREE supports."""


def import_file(
    path: Path, *, function: str | None = None, timeout: float | None = None
) -> ImportedModel:
    """Imports an `.onnx` file and its external data, if it has any.

    Args:
      path: the file.
      function: name of the function in the result; `main` if None.
      timeout: seconds for the lowering; None for no limit.

    Raises:
      ImportFailedError: the file is damaged, or IREE has no lowering for an operator.
      CompileFailedError: the lowering crashed or ran out of time.
    """
    import onnx

    function = function or "main"
    weights = Weights()
    model, arrays = _load(path)
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in initializers]
    outputs = [value.name for value in model.graph.output]
    workdir = WorkDirectory()
    unlowered = Path(workdir.name, "imported.mlirbc")
    model.graph.name = function
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
    imported.keeps_f64 |= any(
        kind.tensor_type.elem_type in (onnx.TensorProto.DOUBLE, onnx.TensorProto.COMPLEX128)
        for kind in _types(model.graph).values()
    )
    imported.inputs = name_specs(imported.inputs, inputs)
    imported.outputs = name_specs(imported.outputs, outputs)
    return imported


def _load(path: Path) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The checked model at `OPSET` with inferred shapes, and its large initializers by name."""
    import onnx
    import onnx.version_converter

    try:
        # From the file: the checker takes models of any size this way.
        onnx.checker.check_model(str(path))
        model = onnx.load(str(path))
    except Exception as error:
        raise ImportFailedError(f"{path}: not a valid ONNX model: {one_line(error)}") from error
    model, arrays = _without_weights(model)
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), OPSET)
    failure = f"cannot convert it from operator set {version} to {OPSET}"
    try:
        if version < OPSET:
            model = onnx.version_converter.convert_version(model, OPSET)
        failure = "cannot infer its shapes"
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:
        raise ImportFailedError(f"{path}: ONNX {failure}: {one_line(error)}") from error
    _accumulate_in_float32(model.graph)
    _flatten_dynamic_sizes(model.graph)
    return model, arrays


def _without_weights(
    model: onnx.ModelProto,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A copy without the data of its large initializers, and the data by name.

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
        if tensor.data_type not in whole_bytes:
            continue
        array = onnx.numpy_helper.to_array(tensor)
        if array.nbytes >= INLINE_BYTES:
            arrays[tensor.name] = array
            for field in _DATA_FIELDS:
                tensor.ClearField(field)
        elif not tensor.raw_data and tensor.data_type in (types.FLOAT16, types.BFLOAT16):
            # IREE's importer accepts half precision only as raw data.
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    light = onnx.ModelProto()
    light.CopyFrom(model)
    return light, arrays


def _accumulate_in_float32(graph: onnx.GraphProto) -> None:
    """Casts half precision tensors to float32 for accumulation, as ONNX runtimes do.

    In float16 a mean over 4096 elements is 2 % off, and a norm 5 %.
    """
    import onnx

    half = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    types = _types(graph)
    nodes = []

    def cast(source: str, result: str, name: str, kind: int) -> None:
        nodes.append(onnx.helper.make_node("Cast", [source], [result], name, to=kind))

    def widened(name: str) -> str:
        wide = f"{name}.float32"
        if wide not in types:
            types[wide] = onnx.TypeProto()
            types[wide].CopyFrom(types[name])
            types[wide].tensor_type.elem_type = onnx.TensorProto.FLOAT
            graph.value_info.add(name=wide, type=types[wide])
        return wide

    for node in graph.node:
        floats = [
            i
            for i, name in enumerate(node.input)
            if name in types and types[name].tensor_type.elem_type in half
        ]
        if node.op_type not in _ACCUMULATING or 0 not in floats or node.output[0] not in types:
            nodes.append(node)
            continue
        kind = types[node.output[0]].tensor_type.elem_type
        for i in floats:
            name = node.input[i]
            node.input[i] = widened(name)
            cast(name, node.input[i], node.name, onnx.TensorProto.FLOAT)
        result = node.output[0]
        node.output[0] = widened(result)
        nodes += [node]
        cast(node.output[0], result, node.name, kind)
    _replace_nodes(graph, nodes)


def _flatten_dynamic_sizes(graph: onnx.GraphProto) -> None:
    """Adds a Flatten before each Reshape that collapses all dynamic sizes into dimension 0.

    Where the Reshape also collapses others, as `[b, t, 2, 4]` to `[b * t, 8]`, IREE's importer
    takes one dynamic size for that of the result and the others for 1.
    """
    import onnx

    known = {tensor.name: tensor for tensor in graph.initializer}
    constants = (node for node in graph.node if node.op_type == "Constant")
    known |= {n.output[0]: a.t for n in constants for a in n.attribute if a.name == "value"}
    types, nodes = _types(graph), []
    for node in graph.node:
        if node.op_type == "Reshape" and node.input[0] in types and node.input[1] in known:
            target = onnx.numpy_helper.to_array(known[node.input[1]]).tolist()
            kind = types[node.input[0]].tensor_type
            dims = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
            count = max((i + 1 for i, size in enumerate(dims) if size is None), default=0)
            collapses = target[:1] == [-1] and all(size > 0 for size in target[1:])
            if collapses and dims.count(None) > 1:
                flat = f"{node.output[0]}.flat"
                nodes.append(
                    onnx.helper.make_node("Flatten", [node.input[0]], [flat], node.name, axis=count)
                )
                sizes = [None, math.prod(size or 1 for size in dims[count:])]
                made = onnx.helper.make_tensor_value_info(flat, kind.elem_type, sizes)
                graph.value_info.append(made)
                node.input[0] = flat
        nodes.append(node)
    _replace_nodes(graph, nodes)


def _types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """The known types of tensors, by name."""
    import onnx

    types = {
        tensor.name: onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        for tensor in graph.initializer
    }
    return types | {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}


def _replace_nodes(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Replaces the nodes of a graph by copies of other nodes, which may be its own."""
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


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
            if tensor.name not in arrays or any(getattr(tensor, field) for field in _DATA_FIELDS):
                return super().tensor_proto_to_attr(tensor)
            tensor_type = str(self.tensor_proto_to_builtin_type(tensor))
            text = weights.add(tensor.name, arrays[tensor.name], tensor_type)
            return ir.Attribute.parse(text)

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
