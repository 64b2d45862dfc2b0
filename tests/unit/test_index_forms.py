"""Closed forms of tables of indices, and the integers of a body at all iterations."""

import numpy as np
import pytest
from iree.compiler import ir

from mlirfuse.structured.expr.index_forms import MAX_LINES, Lines, Quotient, form_of
from mlirfuse.structured.expr.index_values import MAX_DEPTH, MAX_VALUES, BodyValues, Tables
from mlirfuse.structured.ir import ops


def values_of(form, count):
    position = np.arange(count)
    if isinstance(form, Quotient):
        return form.values(position)
    ends = np.array([end for end, _, _ in form.lines])
    line = np.searchsorted(ends, position, side="right")
    _, factors, starts = np.array(form.lines).T
    return position * factors[line] + starts[line]


def resized(size, count, *, align, tap=0):
    """The elements that interpolation reads at a distance from each position."""
    position = np.arange(count)
    place = position * (size - 1) if align else (2 * position + 1) * size - count
    low = place.clip(min=0) // ((count - 1) if align else 2 * count)
    return (low + tap).clip(0, size - 1)


@pytest.mark.parametrize("tap", [-1, 0, 1, 2])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(
    ("size", "count"), [(8, 16), (17, 29), (15, 37), (64, 48), (37, 9), (128, 200), (100, 1000)]
)
def test_resizes(size, count, align, tap):
    table = resized(size, count, align=align, tap=tap)
    form = form_of(table)
    assert isinstance(form, Quotient)
    assert np.array_equal(values_of(form, count), table)
    bounded = form.lowest is not None
    numerator = np.arange(count) * form.factor + form.start
    assert (numerator.clip(min=form.lowest) if bounded else numerator).min() >= 0


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "edge", "wrap"])
def test_paddings(mode):
    table = np.pad(np.arange(7), (3, 4), mode=mode)
    form = form_of(table)
    assert form is not None
    assert np.array_equal(values_of(form, table.size), table)


@pytest.mark.parametrize(
    ("table", "form"),
    [
        ([0, 1, 2, 3], Quotient(1, 0)),
        ([6, 4, 2, 0], Quotient(-2, 6)),
        ([5], Quotient(0, 5)),
        ([0, 0, 1, 1, 2, 2], Quotient(1, 0, 2)),
        ([2, 3, 0, 1], Lines(((2, 1, 2), (4, 1, -2)))),
    ],
)
def test_shortest(table, form):
    assert form_of(np.array(table)) == form


@pytest.mark.parametrize(
    "table",
    [
        [3, 1, 4, 0, 5, 7, 2, 6],
        [-1, 0, 1, 2],
        [],
        np.pad(np.arange(4), (0, 4 * MAX_LINES), mode="wrap"),
    ],
)
def test_no_form(table):
    assert form_of(np.array(table, dtype=np.int64)) is None


BODY = """
#id = affine_map<(r) -> (r)>
func.func @main(%x: tensor<{size}xi64>, %t: tensor<8xi64>) -> tensor<{size}x{kind}> {{
  %k = arith.constant dense<[-7, -2, 0, 3]> : tensor<4xi64>
  %e = tensor.empty() : tensor<{size}x{kind}>
  %y = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins({table} : tensor<{size}xi64>) outs(%e : tensor<{size}x{kind}>) {{
  ^bb0(%a: i64, %o: {kind}):
    %w = linalg.index 0 : index
    %two = arith.constant 2 : i64
    %zero = arith.constant 0 : i64
    %far = arith.constant 1152921504606846976 : i64
    %i = arith.index_cast %a : i64 to index
    %r = {op}
    linalg.yield {result} : {kind}
  }} -> tensor<{size}x{kind}>
  return %y : tensor<{size}x{kind}>
}}
"""


def body_values(op, kind="i64", size=4, table="%k", result="%r"):
    with ir.Context():
        module = ir.Module.parse(
            BODY.format(op=op, kind=kind, size=size, table=table, result=result)
        )
        (generic,) = (o for o in ops.nested_ops(module.operation) if o.name == "linalg.generic")
        yielded = list(ops.body(generic).operations)[-1].operation.operands[0]
        found = BodyValues(generic).of(yielded)
        return None if found is None else found.tolist()


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("arith.divsi %a, %two : i64", [-3, -1, 0, 1]),
        ("arith.floordivsi %a, %two : i64", [-4, -1, 0, 1]),
        ("arith.ceildivsi %a, %two : i64", [-3, -1, 0, 2]),
        ("arith.remsi %a, %two : i64", [-1, 0, 0, 1]),
        ("arith.subi %two, %a : i64", [9, 4, 2, -1]),
        ("arith.maxsi %a, %zero : i64", [0, 0, 0, 3]),
        ("math.absi %a : i64", [7, 2, 0, 3]),
    ],
)
def test_signed_numbers(op, expected):
    assert body_values(op) == expected


@pytest.mark.parametrize(
    "op",
    [
        "arith.divui %a, %two : i64",
        "arith.remui %a, %two : i64",
        "arith.maxui %a, %two : i64",
        "arith.divsi %two, %a : i64",
        "arith.muli %far, %far : i64",
        "arith.shrui %a, %two : i64",
        "tensor.extract %k[%i] : tensor<4xi64>",
        "tensor.extract %t[%w] : tensor<8xi64>",
    ],
)
def test_unknown_numbers(op):
    """Unsigned ops of negative numbers, zero divisors, overflow, and elements that are unknown."""
    assert body_values(op) is None


def test_unsigned_comparison_of_negative_numbers():
    assert body_values("arith.cmpi ult, %a, %two : i64", "i1") is None
    assert body_values("arith.cmpi slt, %a, %two : i64", "i1") == [1, 1, 1, 0]


def test_arguments_and_long_loops():
    assert body_values("arith.addi %a, %two : i64", table="%x") is None
    assert body_values("arith.index_cast %w : index to i64", size=MAX_VALUES, table="%x")
    long = body_values("arith.index_cast %w : index to i64", size=MAX_VALUES + 1, table="%x")
    assert long is None


def chain(count):
    """Each op adds the one before to itself."""
    op = """
  %{new} = linalg.generic {{indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}}
      ins(%{old}, %{old} : tensor<2xi64>, tensor<2xi64>) outs(%e : tensor<2xi64>) {{
  ^bb0(%a: i64, %b: i64, %o: i64):
    %s = arith.addi %a, %b : i64
    linalg.yield %s : i64
  }} -> tensor<2xi64>
"""
    text = "".join(op.format(old=f"t{n}", new=f"t{n + 1}") for n in range(count))
    return f"""#id = affine_map<(r) -> (r)>
func.func @main() -> tensor<2xi64> {{
  %t0 = arith.constant dense<[1, 3]> : tensor<2xi64>
  %e = tensor.empty() : tensor<2xi64>
{text}  return %t{count} : tensor<2xi64>
}}"""


def test_long_chains_are_left_early():
    """Each tensor is evaluated once, and only so many of them."""

    def last(count):
        module = ir.Module.parse(chain(count))
        returned = [o for o in ops.nested_ops(module.operation) if o.name == "func.return"]
        found = Tables().of(returned[0].operands[0])
        return None if found is None else found.tolist()

    with ir.Context():
        assert last(MAX_DEPTH - 1) == [1 << (MAX_DEPTH - 1), 3 << (MAX_DEPTH - 1)]
        assert last(2000) is None


def test_long_bodies():
    """Each op uses the one before twice."""
    lines = "".join(f"    %s{n + 1} = arith.maxsi %s{n}, %s{n} : i64\n" for n in range(2000))
    first = f"arith.addi %a, %two : i64\n    %s0 = arith.muli %a, %two : i64\n{lines}"
    assert body_values(f"{first}    %q = arith.addi %s2000, %two : i64", result="%q") == [
        -12,
        -2,
        2,
        8,
    ]
