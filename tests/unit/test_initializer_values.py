"""Values that initializers store in globals, and other initializers load."""

import pytest
from iree.compiler import ir

from mlirfuse.structured.ir import ops

MODULE = """
util.global private @first : tensor<4xi64>
util.global private mutable @changed : tensor<4xi64>
util.global private @second : tensor<4xi64>
util.initializer {
  %c = arith.constant dense<3> : tensor<4xi64>
  util.global.store %c, @first : tensor<4xi64>
  util.global.store %c, @changed : tensor<4xi64>
  util.return
}
util.initializer {
  %x = util.global.load @GLOBAL : tensor<4xi64>
  util.global.store %x, @second : tensor<4xi64>
  util.return
}
util.func public @main() -> (tensor<4xi64>, tensor<4xi64>) {
  %x = util.global.load immutable @second : tensor<4xi64>
  %y = util.global.load @GLOBAL : tensor<4xi64>
  util.return %x, %y : tensor<4xi64>, tensor<4xi64>
}
"""


@pytest.mark.parametrize(("name", "known"), [("first", True), ("changed", False)])
def test_an_initializer_loads_what_another_one_stored(name, known):
    """A global that functions may change is unknown, and so is a load of a function, unmarked."""
    with ir.Context():
        module = ir.Module.parse(MODULE.replace("GLOBAL", name))
        function = list(module.body.operations)[-1].operation
        second, unmarked = list(ops.nested_ops(function))[:2]
        loaded = ops.initializer_value(second.results[0])
        assert ops.defining_op(loaded).name == "util.global.load"
        stored = ops.initializer_value(loaded)
        assert (stored is not None) == known
        if stored is not None:
            assert ops.defining_op(stored).name == "arith.constant"
        assert ops.initializer_value(unmarked.results[0]) is None
