"""Regions of elementwise ops: activations, SwiGLU, RoPE, embeddings, transposes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mlirfuse.kernels.pointwise.problem import PointwiseProblem
from mlirfuse.tuning.problem_modules.region_text import RegionText, Tensor

MAX_COLUMNS = 4096

HEAD_SIZE = 128
"""Columns of RoPE."""

_FUNCTIONS = {
    "arithmetic": "arith.mulf %s, %s",
    "error function": "math.erf %s",
    "functions": "math.exp %s",
}
"""Trait -> the op that is applied to the sum of an operand and a bias."""


def module_text(problem: PointwiseProblem) -> str:
    """A module whose region has the problem, of f16 or f32.

    Raises:
      ValueError: no region is known for the problem.
    """
    element = {16: "f16", 32: "f32"}.get(problem.result_bits)
    write = _WRITERS.get(problem.trait)
    if problem.trait in _FUNCTIONS and element is not None:
        return _activation(problem, element)
    if element is None or write is None or problem.several_results:
        raise ValueError(f"an elementwise region: {problem.to_dict()}")
    region = RegionText()
    return region.module(write(region, problem.elements, element))


def _matrix(elements: int, most: int = MAX_COLUMNS) -> tuple[int, int]:
    """Rows and columns of so many elements, the columns a power of two."""
    columns = math.gcd(elements, most)
    return elements // columns, columns


def _activation(problem: PointwiseProblem, element: str) -> str:
    """A function of the sum with a bias, plus a residual; the sum is the second of two results."""
    region, shape = RegionText(), _matrix(problem.elements)
    x, residual = (region.argument(shape, element) for _ in range(2))
    bias = region.argument(shape[1:], element)
    body = [
        f"%s = arith.addf %a0, %a1 : {element}",
        f"%f = {_FUNCTIONS[problem.trait]} : {element}",
        f"%z = arith.addf %f, %a2 : {element}",
    ]
    count = 2 if problem.several_results else 1
    results = region.generic(
        "mk",
        [(x, "mk"), (bias, "k"), (residual, "mk")],
        [(shape, element, "mk")] * count,
        body,
        ["%z", "%s"][:count],
    )
    return region.module(*results)


def _gated(region: RegionText, elements: int, element: str) -> Tensor:
    """SiLU of the left half of each row times the right half."""
    rows, columns = _matrix(elements)
    packed = region.argument((rows, 2 * columns), element)
    gate, up = (
        region.define(
            f"tensor.extract_slice {packed.name}[0, {first}] [{rows}, {columns}] [1, 1]"
            f" : {packed.type} to",
            (rows, columns),
            element,
        )
        for first in (0, columns)
    )
    one = region.constant("1.0", element)
    body = [
        f"%n = arith.negf %a0 : {element}",
        f"%e = math.exp %n : {element}",
        f"%d = arith.addf %e, {one} : {element}",
        f"%s = arith.divf %a0, %d : {element}",
        f"%z = arith.mulf %s, %a1 : {element}",
    ]
    result = ((rows, columns), element, "mk")
    return region.generic("mk", [(gate, "mk"), (up, "mk")], [result], body)[0]


def _rotated(region: RegionText, elements: int, element: str) -> Tensor:
    """RoPE: rows times a cosine, plus rows with swapped halves times a sine."""
    rows, columns = _matrix(elements, HEAD_SIZE)
    heads, tokens = _matrix(rows)
    shape = heads, tokens, columns
    x = region.argument(shape, element)
    cosine, sine = (region.argument(shape[1:], element) for _ in range(2))
    half = region.constant(str(columns // 2), "index")
    body = [
        "%i = linalg.index 0 : index",
        "%j = linalg.index 1 : index",
        "%k = linalg.index 2 : index",
        f"%c = arith.cmpi slt, %k, {half} : index",
        f"%u = arith.addi %k, {half} : index",
        f"%l = arith.subi %k, {half} : index",
        "%p = arith.select %c, %u, %l : index",
        f"%v = tensor.extract {x.name}[%i, %j, %p] : {x.type}",
        f"%n = arith.negf %v : {element}",
        f"%z = arith.select %c, %n, %v : {element}",
    ]
    (swapped,) = region.generic("hmk", [], [(shape, element, "hmk")], body)
    rotation = [
        f"%p = arith.mulf %a0, %a1 : {element}",
        f"%q = arith.mulf %a2, %a3 : {element}",
        f"%z = arith.addf %p, %q : {element}",
    ]
    inputs = [(x, "hmk"), (cosine, "mk"), (swapped, "hmk"), (sine, "mk")]
    return region.generic("hmk", inputs, [(shape, element, "hmk")], rotation)[0]


def _embedded(region: RegionText, elements: int, element: str) -> Tensor:
    """Rows of a table at given indices, plus rows of the same number."""
    rows, columns = shape = _matrix(elements)
    table, positions = (region.argument(shape, element) for _ in range(2))
    indices = region.argument((rows,), "i64")
    body = [
        "%k = linalg.index 1 : index",
        "%i = arith.index_cast %a0 : i64 to index",
        f"%v = tensor.extract {table.name}[%i, %k] : {table.type}",
        f"%z = arith.addf %v, %a1 : {element}",
    ]
    inputs = [(indices, "m"), (positions, "mk")]
    return region.generic("mk", inputs, [((rows, columns), element, "mk")], body)[0]


def _heads_first(region: RegionText, elements: int, element: str) -> Tensor:
    """Rows of `[tokens, heads]` to `[heads, tokens]`, plus a residual."""
    rows, columns = _matrix(elements, HEAD_SIZE)
    tokens, heads = _matrix(rows, 32)
    x = region.argument((tokens, heads, columns), element)
    shape = heads, tokens, columns
    residual = region.argument(shape, element)
    body = [f"%z = arith.addf %a0, %a1 : {element}"]
    inputs = [(x, "mhk"), (residual, "hmk")]
    return region.generic("hmk", inputs, [(shape, element, "hmk")], body)[0]


def _transposed(region: RegionText, elements: int, element: str) -> Tensor:
    """A transposed matrix plus a bias."""
    rows, columns = shape = _matrix(elements)
    x, bias = region.argument((columns, rows), element), region.argument((columns,), element)
    body = [f"%z = arith.addf %a0, %a1 : {element}"]
    return region.generic("mk", [(x, "km"), (bias, "k")], [(shape, element, "mk")], body)[0]


_WRITERS: Mapping[str, Callable[[RegionText, int, str], Tensor]] = {
    "sliced": _gated,
    "swapped": _rotated,
    "gathered": _embedded,
    "permuted": _heads_first,
    "transposed": _transposed,
}
"""Trait -> the region's writer."""
