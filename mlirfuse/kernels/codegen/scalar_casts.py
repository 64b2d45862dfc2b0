"""Casts between element types as expressions of a Triton kernel.

Integers of a kernel are signed, whatever the model has; casts that extend with zeros and unsigned
operations go through Triton's unsigned type of the same width.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlirfuse.kernels.codegen.element_types import TYPES, Unsupported

CASTS = frozenset(
    {"arith.extf", "arith.truncf", "arith.extsi", "arith.extui", "arith.trunci", "arith.bitcast"}
    | {"arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui"}
    | {"arith.index_cast", "arith.index_castui"}
)

_UNSIGNED_SOURCE = frozenset({"arith.extui", "arith.uitofp", "arith.index_castui"})


def unsigned(name: str, kind: str, types: Mapping[str, str]) -> str:
    """An integer as an unsigned one of its width; a boolean as 0 or 1."""
    if kind == "i1":
        return f"{name}.to(tl.int32)"
    return f"{name}.to({types[kind].replace('int', 'uint')}, bitcast=True)"


def cast_expression(op: str, name: str, source: str, kind: str, types: Mapping[str, str]) -> str:
    """A cast as an expression.

    Args:
      op: one of `CASTS`.
      name: the operand.
      source: its element type.
      kind: the element type of the result.
      types: element types in Triton's spelling.

    Raises:
      Unsupported: the cast has no form.
    """
    target = types[kind]
    if op == "arith.bitcast":
        if "i1" in (source, kind):
            raise Unsupported("arith.bitcast of an i1")
        # f16 may be computed in f32.
        return f"{name}.to({TYPES[source]}).to({TYPES[kind]}, bitcast=True).to({target})"
    if kind == "i1":
        # Triton's cast to a boolean asks whether the number is zero.
        whole = f"{name}.to(tl.int32)" if op in ("arith.fptosi", "arith.fptoui") else name
        return name if source == "i1" else f"({whole} & 1) != 0"
    if op in _UNSIGNED_SOURCE:
        return f"{unsigned(name, source, types)}.to({target})"
    if op == "arith.fptoui":
        return f"{name}.to({target.replace('int', 'uint')}).to({target}, bitcast=True)"
    if source == "i1" and op != "arith.truncf":
        return f"(-{name}.to(tl.int32)).to({target})"
    return f"{name}.to({target})"
