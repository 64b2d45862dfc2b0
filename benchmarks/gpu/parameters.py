"""Weights of a block as parameters of IREE, which a program gets when it is loaded.

PyTorch holds weights in its modules, too; as arguments each of them is checked at each call, in
0.2 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlirfuse.core import MlirfuseError

SCOPE = "weights"
"""The name of the parameters' archive."""


def hold(module: Any, inputs: int) -> None:
    """Makes parameters of the arguments after the first ones.

      util.func public @main(%x: tensor<8xf16>, %w: tensor<8xf16>)
    becomes
      util.global private @weight0 = #flow.parameter.named<"weights"::"0"> : tensor<8xf16>
      util.func public @main(%x: tensor<8xf16>) { %w = util.global.load @weight0

    Args:
      module: an `ir.Module` with one public function; it is changed.
      inputs: how many arguments stay.

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
        for number, argument in enumerate(list(block.arguments)[inputs:]):
            name = f"weight{number}"
            text = f'#flow.parameter.named<"{SCOPE}"::"{number}"> : {argument.type}'
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
    """The module of IREE's runtime that a program gets its weights from.

    Args:
      instance: an `iree.runtime.VmInstance`.
      weights: the parameters' data, in order.
    """
    import iree.runtime as rt

    index = rt.ParameterIndex()
    for number, data in enumerate(weights):
        index.add_buffer(str(number), data)
    return rt.create_io_parameters_module(instance, index.create_provider(SCOPE))
