"""ONNX models with values that are no tensors of numbers are refused with the value's name."""

import onnx
import pytest
from onnx import TensorProto, helper

from mlirfuse.core import ImportFailedError
from mlirfuse.frontends import import_model


def tensor(name, dtype=TensorProto.FLOAT, shape=(2, 3)):
    return helper.make_tensor_value_info(name, dtype, shape)


MAP = helper.make_map_type_proto(
    TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None)
)

CASES = {
    "a map as an argument": (
        helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", name="vector"),
        [helper.make_value_info("m", MAP)],
        [tensor("y", shape=(1, 2))],
        "argument 'm' is a map, and programs take, make and return tensors",
    ),
    "a sequence of maps": (
        helper.make_node("ZipMap", ["a"], ["z"], domain="ai.onnx.ml", name="zip"),
        [tensor("a")],
        [helper.make_value_info("z", helper.make_sequence_type_proto(MAP))],
        r"result 'z' of ZipMap \(node 'zip'\) is a sequence",
    ),
    "strings": (
        helper.make_node("Equal", ["a", "b"], ["y"]),
        [tensor("a", TensorProto.STRING), tensor("b", TensorProto.STRING)],
        [tensor("y", TensorProto.BOOL)],
        "argument 'a' has strings as elements",
    ),
    "an optional": (
        helper.make_node("OptionalHasElement", ["o"], ["y"]),
        [
            helper.make_value_info(
                "o",
                helper.make_optional_type_proto(
                    helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
                ),
            )
        ],
        [tensor("y", TensorProto.BOOL, ())],
        "argument 'o' is an optional",
    ),
    "a sparse tensor": (
        helper.make_node("Identity", ["a"], ["y"]),
        [helper.make_sparse_tensor_value_info("a", TensorProto.FLOAT, [2, 3])],
        [helper.make_sparse_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        "argument 'a' is a sparse tensor",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_value_is_named(tmp_path, case):
    node, inputs, outputs, message = CASES[case]
    if node.op_type == "ZipMap":
        node.attribute.append(helper.make_attribute("classlabels_int64s", [0, 1, 2]))
    if node.op_type == "DictVectorizer":
        node.attribute.append(helper.make_attribute("int64_vocabulary", [1, 2]))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "graph", inputs, outputs)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    with pytest.raises(ImportFailedError, match=message):
        import_model(path)
