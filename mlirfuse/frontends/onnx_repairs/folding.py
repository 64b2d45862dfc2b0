"""Values of operators whose operands are constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from mlirfuse.frontends.onnx_repairs.values import Unsupported

KEPT = frozenset({"Bernoulli", "DequantizeLinear", "Dropout", "Multinomial", "Optional"})
"""Operators that are not computed during the import, besides `RandomNormal` and the like: quantized
weights stay small."""


def evaluated(
    node: onnx.NodeProto,
    arrays: Sequence[np.ndarray | None],
    opsets: Sequence[onnx.OperatorSetIdProto],
) -> list[np.ndarray]:
    """The results of a node of constants, by ONNX's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.input[:]
    copy.input.extend("" if array is None else f"i{i}" for i, array in enumerate(arrays))
    feeds = {f"i{i}": array for i, array in enumerate(arrays) if array is not None}
    names = [name for name in copy.output if name]
    graph = onnx.helper.make_graph(
        [copy],
        "folded",
        [onnx.helper.make_empty_tensor_value_info(name) for name in feeds],
        [onnx.helper.make_empty_tensor_value_info(name) for name in names],
    )
    model = onnx.helper.make_model(graph, opset_imports=list(opsets))
    results: list[np.ndarray] = ReferenceEvaluator(model).run(None, feeds)
    if len(names) != len(copy.output):
        raise Unsupported("a result is omitted")
    return results


def is_numeric(node: onnx.NodeProto) -> bool:
    """Whether a Constant holds numbers."""
    names = {a.name for a in node.attribute}
    if "value" in names:
        return all(a.t.data_type != TensorProto.STRING for a in node.attribute)
    return bool(names & {"value_float", "value_floats", "value_int", "value_ints"})


def constant_array(node: onnx.NodeProto) -> np.ndarray:
    """The elements of a Constant."""
    attribute = next(a for a in node.attribute if a.name.startswith("value"))
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "value":
        array: np.ndarray = numpy_helper.to_array(value)
        return array
    return np.array(value, np.float32 if "float" in attribute.name else np.int64)
