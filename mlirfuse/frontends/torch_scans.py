"""Scans of PyTorch programs with combiners that IREE's lowering of PyTorch has no op for.

    %y = torch.operator "torch.mlirfuse.scan"(%x, %dim, "maximum")   tensor<MxNxT>
  becomes
    %s:2 = iree_linalg_ext.scan dimension(1) {maximumf} ins(%x)

Decompositions write the operator `torch.ops.mlirfuse.scan`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_operators import (
    TensorType,
    builtin_type,
    integer,
    operators,
    registered,
    replace,
)

if TYPE_CHECKING:
    import torch
    from iree.compiler import ir

NAME = "torch.mlirfuse.scan"

_INFINITY = {"f32": "0x7F800000", "f64": "0x7FF0000000000000"}

_LOG_ADD_EXP = """
%top = arith.maximumf %a, %b : T
%difference = arith.subf %a, %b : T
%distance = math.absf %difference : T
%negative = arith.negf %distance : T
%smaller = math.exp %negative : T
%rest = math.log1p %smaller : T
%sum = arith.addf %top, %rest : T
%infinity = arith.constant INFINITY : T
%size = math.absf %top : T
%infinite = arith.cmpf oeq, %size, %infinity : T
%combined = arith.select %infinite, %top, %sum : T
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Combiner:
    """An associative function of two elements.

    Attributes:
      floating: its MLIR for floats of type T, from `%a` and `%b` to `%combined`.
      integer: its MLIR for signed integers; empty where there is none.
      identity: the float that leaves the other operand unchanged.
    """

    floating: str
    integer: str
    identity: float


COMBINERS: Mapping[str, Combiner] = {
    "maximum": Combiner(
        "%combined = arith.maximumf %a, %b : T", "%combined = arith.maxsi %a, %b : T", -math.inf
    ),
    "minimum": Combiner(
        "%combined = arith.minimumf %a, %b : T", "%combined = arith.minsi %a, %b : T", math.inf
    ),
    "logaddexp": Combiner(_LOG_ADD_EXP, "", -math.inf),
}


@functools.cache
def scan_op() -> Any:
    """The operator `scan(x, dim, combiner)`, which maps f32, f64, i32 or i64 to the same type."""
    import torch

    def scan(x: torch.Tensor, dim: int, combiner: str) -> torch.Tensor:
        if combiner == "logaddexp":
            return torch.logcumsumexp(x, dim)
        op = torch.cummax if combiner == "maximum" else torch.cummin
        return op(x, dim).values

    return registered(
        "scan",
        "(Tensor x, int dim, str combiner) -> Tensor",
        scan,
        lambda x, dim, combiner: torch.empty_like(x, memory_format=torch.contiguous_format),
    )


def lower_scans(module: ir.Module) -> None:
    """Replaces the operators in a module of the torch dialect."""
    from iree.compiler import ir

    for operator in operators(module, NAME):
        source, dim, word = operator.operands
        kind = TensorType.of(source)
        combiner = COMBINERS[ir.StringAttr(word.owner.attributes["value"]).value]
        text = _function(kind, integer(dim) % len(kind.sizes), combiner)
        replace(operator, [source], text)


def _function(kind: TensorType, dimension: int, combiner: Combiner) -> str:
    """The text of a function that scans its argument.

    Args:
      kind: the argument's type.
      dimension: the axis.
      combiner: of two elements.
    """
    torch_type, sizes, element = kind.torch_type, kind.sizes, kind.element
    floating = element.startswith("f")
    outer = [axis for axis in range(len(sizes)) if axis != dimension]
    whole, total = kind.text, builtin_type([sizes[axis] for axis in outer], element)
    dynamic = [axis for axis, size in enumerate(sizes) if size == "?"]
    asked = "".join(
        f"%i{axis} = arith.constant {axis} : index\n%n{axis} = tensor.dim %x, %i{axis} : {whole}\n"
        for axis in dynamic
    )
    dims = ", ".join(f"%n{axis}" for axis in dynamic)
    outer_dims = ", ".join(f"%n{axis}" for axis in dynamic if axis in outer)
    body = combiner.floating if floating else combiner.integer
    body = body.replace("INFINITY", _INFINITY.get(element, "")).replace(": T", f": {element}")
    return f"""
func.func @scan(%given: {torch_type}) -> {torch_type} {{
%x = torch_c.to_builtin_tensor %given : {torch_type} -> {whole}
{asked}
%result = tensor.empty({dims}) : {whole}
%total = tensor.empty({outer_dims}) : {total}
%identity = arith.constant {_identity(combiner, element)} : {element}
%start = linalg.fill ins(%identity : {element}) outs(%total : {total}) -> {total}
%scan:2 = iree_linalg_ext.scan dimension({dimension}) inclusive(true)
    ins(%x : {whole}) outs(%result, %start : {whole}, {total}) {{
^bb0(%a: {element}, %b: {element}):
{body}
iree_linalg_ext.yield %combined : {element}
}} -> {whole}, {total}
%made = torch_c.from_builtin_tensor %scan#0 : {whole} -> {torch_type}
return %made : {torch_type}
}}"""


def _identity(combiner: Combiner, element: str) -> str:
    """The identity of a combiner as MLIR's constant; that of an integer is its extreme value."""
    if element.startswith("f"):
        bits = int(_INFINITY[element], 16)
        sign = 1 << (int(element[1:]) - 1) if combiner.identity < 0 else 0
        return hex(bits | sign).upper().replace("X", "x")
    largest = 2 ** (int(element[1:]) - 1) - 1
    return str(largest if combiner.identity > 0 else -largest - 1)
