"""Weights of a block as parameters of IREE, which are bound when the program is loaded.

PyTorch's modules hold weights, too; as arguments each one is checked at each call, in 0.2 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirfuse.core import MlirfuseError

SCOPE = "weights"
"""Scope of the parameters."""


def weights_to_parameters(module: Any, inputs: int) -> None:
    """Turns the arguments after the inputs into parameters.

      util.func public @main(%x: tensor<8xf16>, %w: tensor<8xf16>)
    becomes
      util.global private @weight0 = #flow.parameter.named<"weights"::"0"> : tensor<8xf16>
      util.func public @main(%x: tensor<8xf16>) { %w = util.global.load @weight0

    Args:
      module: an `ir.Module` with one public function; it is changed.
      inputs: number of arguments that stay.

    Raises:
      MlirfuseError: the module has no function, or several.
    """
    from iree.compiler import ir

    functions = [o.operation for o in module.body.operations if o.operation.name == "util.func"]
    if len(functions) != 1:
        raise MlirfuseError(f"{len(functions)} functions in a program, not one")
    (function,) = functions
    block = function.regions[0].blocks[0]
    with module.context, function.location:
        for index, argument in enumerate(list(block.arguments)[inputs:]):
            name = f"weight{index}"
            text = f'#flow.parameter.named<"{SCOPE}"::"{index}"> : {argument.type}'
            ir.InsertionPoint(function).insert(
                ir.Operation.parse(f"util.global private @{name} = {text}")
            )
            with ir.InsertionPoint.at_block_begin(block):
                loaded = ir.Operation.create(
                    "util.global.load",
                    results=[argument.type],
                    attributes={"global": ir.FlatSymbolRefAttr.get(name)},
                )
            argument.replace_all_uses_with(loaded.results[0])
        while len(block.arguments) > inputs:
            block.erase_argument(len(block.arguments) - 1)
        before = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        after = ir.FunctionType.get(before.inputs[:inputs], before.results)
        function.attributes["function_type"] = ir.TypeAttr.get(after)
        if "arg_attrs" in function.attributes:
            del function.attributes["arg_attrs"]
    module.operation.verify()


def provider(instance: Any, weights: Sequence[bytes]) -> Any:
    """The module of iree-runtime that provides the weights of a program.

    Args:
      instance: an `iree.runtime.VmInstance`.
      weights: the parameters' data, in order.
    """
    import iree.runtime as rt

    index = rt.ParameterIndex()
    for key, data in enumerate(weights):
        index.add_buffer(str(key), data)
    return rt.create_io_parameters_module(instance, index.create_provider(SCOPE))
