"""Dense constants of every element type, readable through IREE's Python bindings.

IREE 3.13 has Python classes for dense elements of integers and floats, and raises TypeError where
an attribute of another element type, as of complex numbers, is read: also where all attributes of
its op are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iree.compiler import ir

_registered: list[Any] = []
"""The caster, once it is registered in this process."""


def make_readable(context: ir.Context) -> None:
    """Lets dense elements of other types read as `ir.DenseElementsAttr`, in all of the process.

    Args:
      context: any; another one would take memory.
    """
    if _registered:
        return
    from iree.compiler import ir
    from iree.compiler._mlir_libs._mlir import register_type_caster

    def cast(attribute: Any) -> Any:
        for kind in (ir.DenseFPElementsAttr, ir.DenseIntElementsAttr):
            try:
                return kind(attribute)
            except ValueError:
                continue
        return ir.DenseElementsAttr(attribute)

    with context:
        identity = ir.DenseElementsAttr.parse("dense<0> : tensor<2xi8>").typeid
    register_type_caster(identity, replace=True)(cast)
    _registered.append(cast)
