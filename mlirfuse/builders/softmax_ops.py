"""A softmax as reductions and elementwise ops."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.tensors import dynamic_sizes, empty, fill, generic, scalar, scalar_constant
from mlirfuse.structured.ir import ops


def decompose(root: ir.Operation) -> ir.Operation:
    """Writes the maximum, the exponentials, their sum and the quotients, which it returns.

    Args:
      root: a `linalg.softmax` of floats whose first dimension alone may be dynamic.
    """
    value, result = root.operands[0], root.results[0]
    axis, element = ops.softmax_axis(root), ops.element_type(value)
    sizes = ops.shape(value)
    whole = tuple(range(len(sizes)))
    kept = tuple(n for n in whole if n != axis)
    loops = ["parallel"] * len(sizes)
    reduced = ["reduction" if n == axis else "parallel" for n in whole]

    def wide(number: ir.Value) -> ir.Value:
        return number if element == "f32" else scalar("arith.extf", [number], "f32")

    with ir.InsertionPoint(root), root.location:
        dims = dynamic_sizes(result)
        rows = dims if axis else []
        row_sizes = [sizes[n] for n in kept]

        def reduction(source: ir.Value, combiner: str, init: float) -> ir.Value:
            kind = ops.element_type(source)
            start = fill(scalar_constant(init, kind), empty(row_sizes, kind, rows))
            return generic(
                [source],
                [start],
                [whole, kept],
                reduced,
                lambda a: [scalar(combiner, [a[0], a[1]], kind)],
            ).results[0]

        highest = reduction(value, "arith.maximumf", float("-inf"))

        def power(a: list[ir.Value]) -> list[ir.Value]:
            difference = scalar("arith.subf", [wide(a[0]), wide(a[1])], "f32")
            return [scalar("math.exp", [difference], "f32")]

        powers = generic(
            [value, highest],
            [empty(sizes, "f32", dims)],
            [whole, kept, whole],
            loops,
            power,
        ).results[0]
        total = reduction(powers, "arith.addf", 0.0)

        def quotient(a: list[ir.Value]) -> list[ir.Value]:
            found = scalar("arith.divf", [a[0], a[1]], "f32")
            return [found if element == "f32" else scalar("arith.truncf", [found], element)]

        new = generic(
            [powers, total],
            [empty(sizes, element, dims)],
            [whole, kept, whole],
            loops,
            quotient,
        )
    result.replace_all_uses_with(new.results[0])
    root.erase()
    return new
