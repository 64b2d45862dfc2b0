"""Makes programs of the torch dialect return bytes as signed.

    return %y : !torch.vtensor<[2],ui8>
  becomes
    %z = torch.aten.to.dtype %y, %int1, ... -> !torch.vtensor<[2],si8>
    return %z : !torch.vtensor<[2],si8>

IREE 3.13 folds a returned constant of type `ui8` into an invalid literal of type `si8`.
The results are signless in linalg, and have their signs from the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.compiler import ir

_INT8 = 1
"""PyTorch's code of the type."""


def return_bytes_signed(module: ir.Module, function: str) -> None:
    """Converts the results of type `ui8` of a function.

    Args:
      module: of the torch dialect, in whose context the caller is.
      function: name of the function.
    """
    from iree.compiler import ir

    for op in module.body.operations:
        if ir.StringAttr(op.operation.attributes["sym_name"]).value != function:
            continue
        body = op.operation.regions[0].blocks[0]
        final = list(body.operations)[-1].operation
        for index, value in enumerate(final.operands):
            text = str(value.type)
            if not text.endswith(",ui8>"):
                continue
            signed = ir.Type.parse(text.removesuffix("ui8>") + "si8>", module.context)
            with final.location, ir.InsertionPoint(final):
                final.operands[index] = _converted(value, signed)
        results = [value.type for value in final.operands]
        given = [argument.type for argument in body.arguments]
        with module.context:
            op.operation.attributes["function_type"] = ir.TypeAttr.get(
                ir.FunctionType.get(given, results)
            )


def _converted(value: ir.Value, to: ir.Type) -> ir.Value:
    from iree.compiler import ir

    integer = ir.Type.parse("!torch.int")
    code = ir.Operation.create(
        "torch.constant.int",
        results=[integer],
        attributes={"value": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _INT8)},
    ).result
    no = ir.Operation.create(
        "torch.constant.bool",
        results=[ir.Type.parse("!torch.bool")],
        attributes={"value": ir.IntegerAttr.get(ir.IntegerType.get_signless(1), 0)},
    ).result
    none = ir.Operation.create("torch.constant.none", results=[ir.Type.parse("!torch.none")]).result
    return ir.Operation.create(
        "torch.aten.to.dtype", results=[to], operands=[value, code, no, no, none]
    ).result
