"""Scalar functions applied to all elements of tensors, as linalg, and their errors."""

import numpy as np


def program(functions, count, size, kind, *, flipped):
    """A function of some tensors with a result for each scalar function.

    Args:
      functions: name of a result -> op and the numbers of the tensors that it takes.
      count: the tensors.
      size: their elements.
      kind: their element type.
      flipped: whether elements are read from the last one on, by their positions.
    """
    tensor = f"tensor<{size}x{kind}>"
    names = [f"%x{n}" for n in range(count)]
    bodies = [
        _applied(name, op, [names[n] for n in used], tensor, kind, flipped=flipped)
        for name, (op, used) in functions.items()
    ]
    results = ", ".join([tensor] * len(functions))
    return f"""
#id = affine_map<(d0) -> (d0)>
func.func @main({", ".join(f"{name}: {tensor}" for name in names)}) -> ({results}) {{
  %last = arith.constant {size - 1} : index
  %e = tensor.empty() : {tensor}
{"".join(bodies)}
  return {", ".join(f"%{name}" for name in functions)} : {results}
}}
"""


def _applied(name, op, operands, tensor, kind, *, flipped):
    numbers = [f"%a{n}" for n in range(len(operands))]
    read = [] if flipped else operands
    ins = f"ins({', '.join(read)} : {', '.join([tensor] * len(read))})" if read else ""
    arguments = "".join(f"{number}: {kind}, " for number in numbers[: len(read)])
    extracts = [
        f"    {number} = tensor.extract {operand}[%j] : {tensor}"
        for number, operand in zip(numbers, operands, strict=True)
    ]
    places = ["    %i = linalg.index 0 : index", "    %j = arith.subi %last, %i : index"]
    maps = ", ".join(["#id"] * (len(read) + 1))
    return f"""
  %{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      {ins} outs(%e : {tensor}) {{
  ^bb0({arguments}%o: {kind}):
{chr(10).join(places + extracts if flipped else [])}
    %r = {op} {", ".join(numbers)} : {kind}
    linalg.yield %r : {kind}
  }} -> {tensor}
"""


def errors(found, exact, *, tiny, least=0.0):
    """The errors in units in the last place, of numbers that are finite in their type.

    NaN and infinities must be at the same places. IREE's threads compute with zeros in place of
    denormal numbers.

    Args:
      found: results.
      exact: the same in float64.
      tiny: results up to this magnitude are left out.
      least: the magnitude whose unit counts for smaller ones.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(found.dtype)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(found[infinite], rounded[infinite])
    usual = np.isfinite(rounded) & (np.abs(rounded) > tiny)
    size = np.maximum(np.abs(rounded), least).astype(found.dtype)[usual]
    return np.abs(found[usual].astype(np.float64) - exact[usual]) / np.spacing(size)
