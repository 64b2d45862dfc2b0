"""Constants kept out of the IR while it is text or in a subprocess.

  %0 = arith.constant dense_resource<elided_layer_weight> : tensor<4096x4096xf32>   // no data
becomes, in the process that owns the array and without copying it,
  %0 = arith.constant dense_resource<layer_weight> : tensor<4096x4096xf32>
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from mlirfuse.support.dense_elements import make_readable

if TYPE_CHECKING:
    from iree.compiler import ir

ALIGNMENT = 16
"""Maximum alignment of a resource in the written file, in bytes. LLVM reads small files into memory
of this alignment, and rejects files that need more."""

PARAMETERS = "mlirfuse"
"""IREE's scope of the parameters that a program is given from memory."""

INLINE_BYTES = 1024
"""Size below which constants stay in the IR, where they can be folded, in bytes."""

_PREFIX = "elided_"
_REFERENCE = re.compile(rf"dense_resource<{_PREFIX}(\w+)>")
_HOLDERS = {
    "arith.constant": "value",
    "util.global": "initial_value",
    "stablehlo.constant": "value",
}


class Weights:
    """Arrays by key, and the resource attributes that stand for them."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._parameters: set[str] = set()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays.values())

    def add(self, name: str, array: np.ndarray, tensor_type: str) -> str:
        """Keeps an array and returns the text of the attribute that stands for it.

        Args:
          name: the model's name for it; a hint for the resource's key.
          array: contiguous data in the memory layout of `tensor_type`. It is not copied, and must
            not change before `attach` has run and the module is written.
          tensor_type: MLIR's spelling of the type, e.g. `tensor<2x3xf32>`.
        """
        stem = re.sub(r"\W", "_", name) or "weight"
        key, count = stem, 0
        while key in self._arrays:
            count += 1
            key = f"{stem}_{count}"
        self._arrays[key] = array.reshape(-1).view(np.uint8)
        return f"dense_resource<{_PREFIX}{key}> : {tensor_type}"

    def add_parameter(self, name: str, tensor_type: str) -> str:
        """Returns the text of the attribute that stands for a parameter of the scope `PARAMETERS`.

        A program is given its data when it is loaded.

        Args:
          name: of the parameter, of letters, digits and `_`; no array may have it as its key.
          tensor_type: MLIR's spelling of the type.
        """
        self._parameters.add(name)
        return f"dense_resource<{_PREFIX}{name}> : {tensor_type}"

    def attach(self, module: ir.Module) -> None:
        """Attaches the data to every stand-in of the module, by reference."""
        from iree.compiler import ir

        if not self._arrays and not self._parameters:
            return
        make_readable(module.context)
        filled: dict[str, ir.Attribute] = {}
        replaced: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            attribute = _HOLDERS.get(op.name)
            if attribute is None or attribute not in op.attributes:
                return ir.WalkResult.ADVANCE
            value = op.attributes[attribute]
            # The text of inline data can be huge; that of a resource is its key and type.
            if isinstance(value, ir.DenseElementsAttr):
                return ir.WalkResult.ADVANCE
            text = str(value)
            if found := _REFERENCE.match(text):
                if text not in filled:
                    filled[text] = self._attribute(found[1], value.type)
                if found[1] in self._parameters and op.name != "util.global":
                    with ir.InsertionPoint(op), op.location:
                        constant = ir.Operation.create(
                            "flow.tensor.constant",
                            results=[value.type],
                            attributes={attribute: filled[text]},
                        )
                    op.result.replace_all_uses_with(constant.result)
                    replaced.append(op)
                else:
                    op.attributes[attribute] = filled[text]
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        for op in replaced:
            op.erase()

    def _attribute(self, key: str, tensor_type: ir.Type) -> ir.Attribute:
        from iree.compiler import ir

        if key in self._parameters:
            text = f'#flow.parameter.named<"{PARAMETERS}"::"{key}"> : {tensor_type}'
            return ir.Attribute.parse(text)
        return self._resource(key, tensor_type)

    def _resource(self, key: str, tensor_type: ir.Type) -> ir.Attribute:
        from iree.compiler import ir

        array = self._arrays[key]
        address = array.ctypes.data
        return ir.DenseResourceElementsAttr.get_from_buffer(
            array, key, tensor_type, alignment=min(ALIGNMENT, address & -address)
        )
