"""Reductions of kernels in the vector dialect agree with numpy: booleans, integers, long sums.

Rows that are divided among workgroups, columns, segments, and kept dimensions below the lanes.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import pytest

from helpers.harness import FLOATS, Case
from helpers.linalg_text import Function
from helpers.norm_text import broadcast
from helpers.spread import Runs
from mlirfuse import targets

PASSES = "reduction_fusion,row_vector_kernel"
TARGETS = ("cpu:host", "cpu:x86-64-v3")

NUMPY = {**FLOATS, "i1": np.bool_, "i8": np.int8, "i32": np.int32, "i64": np.int64}

POSITIVE = "%c = arith.cmpf ogt, %in, %zero : f32"


def text(name, sizes, axes, source, result, combine, init, body=""):
    """A function that reduces a tensor's elements, or what a body computes from them."""
    loops = ", ".join(f"d{n}" for n in range(len(sizes)))
    kept = [n for n in range(len(sizes)) if n not in axes]
    kinds = ", ".join('"reduction"' if n in axes else '"parallel"' for n in range(len(sizes)))
    read = "x".join([*map(str, sizes), source])
    written = "x".join([*(str(sizes[n]) for n in kept), result])
    term = "%t" if body else "%in"
    results = ", ".join(f"d{n}" for n in kept)
    first = init if result == "i1" else f"{init} : {result}"
    return f"""
func.func @{name}(%x: tensor<{read}>) -> tensor<{written}> {{
  %zero = arith.constant 0.0 : f32
  %init = arith.constant {first}
  %e = tensor.empty() : tensor<{written}>
  %f = linalg.fill ins(%init : {result}) outs(%e : tensor<{written}>) -> tensor<{written}>
  %y = linalg.generic {{indexing_maps = [affine_map<({loops}) -> ({loops})>,
      affine_map<({loops}) -> ({results})>], iterator_types = [{kinds}]}}
      ins(%x : tensor<{read}>) outs(%f : tensor<{written}>) {{
  ^bb0(%in: {source}, %out: {result}):
    {body}
    %r = {combine} {term}, %out : {result}
    linalg.yield %r : {result}
  }} -> tensor<{written}>
  return %y : tensor<{written}>
}}"""


@dataclasses.dataclass(frozen=True)
class Check:
    """A function, its argument, and its results.

    Attributes:
      text: the function.
      argument: its argument.
      results: the results that are expected.
      error: largest error, as a share of the largest result; 0 for equal results.
      fires: kernels of ours.
    """

    text: str
    argument: np.ndarray
    results: tuple[np.ndarray, ...]
    error: float = 0.0
    fires: int = 1


def numbers(sizes, dtype, seed=3):
    """Random elements; of floats a few are NaN and infinite."""
    draws = np.random.default_rng(seed)
    if dtype == "i1":
        return draws.random(sizes) < 0.5
    if dtype.startswith("i"):
        bits = int(dtype[1:])
        return draws.integers(-(1 << bits - 1), (1 << bits - 1) - 1, sizes, NUMPY[dtype])
    return draws.standard_normal(sizes).astype(NUMPY[dtype])


def reduced(
    name: str,
    sizes: tuple[int, ...],
    axes: tuple[int, ...],
    kinds: str,
    combine: str,
    init: object,
    reduce: Callable[..., np.ndarray],
    body: str = "",
) -> tuple[str, Check]:
    """A reduction whose result is exact."""
    source, result = kinds.split(" to ") if " to " in kinds else (kinds, kinds)
    x = numbers(sizes, source)
    found = np.asarray(reduce(x, axis=axes), NUMPY[result])
    return name, Check(text(name, sizes, axes, source, result, combine, init, body), x, (found,))


def positive(reduce):
    return lambda x, axis: reduce(x > 0, axis=axis)


def all_bits(operation):
    return lambda x, axis: operation.reduce(x, axis=axis[0])


def unsigned(operation):
    return lambda x, axis: operation(x.view(np.uint32), axis=axis).view(np.int32)


def booleans():
    test = POSITIVE.replace("%c", "%t")
    never = "%t = arith.cmpf une, %in, %in : f32"
    sizes = (37, 1319)
    count = f"{POSITIVE}\n    %t = arith.extui %c : i1 to i64"
    return dict(
        [
            reduced(
                "any_rows", sizes, (1,), "f32 to i1", "arith.ori", "false", positive(np.any), test
            ),
            reduced(
                "all_rows", sizes, (1,), "f32 to i1", "arith.andi", "true", positive(np.all), test
            ),
            reduced(
                "any_columns",
                sizes,
                (0,),
                "f32 to i1",
                "arith.ori",
                "false",
                positive(np.any),
                test,
            ),
            reduced("any_of_bits", (5, 67), (1,), "i1", "arith.ori", "false", np.any),
            reduced("all_of_bits", (3, 67), (0,), "i1", "arith.andi", "true", np.all),
            reduced(
                "odd_of_bits",
                (23, 131),
                (1,),
                "i1",
                "arith.xori",
                "false",
                all_bits(np.logical_xor),
            ),
            reduced(
                "odd_from_true",
                (23, 131),
                (1,),
                "i1",
                "arith.xori",
                "true",
                lambda x, axis: ~np.logical_xor.reduce(x, axis=1),
            ),
            reduced(
                "any_from_true",
                (23, 131),
                (1,),
                "i1",
                "arith.ori",
                "true",
                lambda x, axis: np.ones(23, bool),
            ),
            reduced("largest_bit", (23, 131), (1,), "i1", "arith.maxui", "false", np.any),
            reduced("least_signed_bit", (23, 131), (1,), "i1", "arith.minsi", "false", np.any),
            reduced(
                "least_from_true",
                (23, 131),
                (1,),
                "f32 to i1",
                "arith.minsi",
                "true",
                lambda x, axis: np.ones(23, bool),
                never,
            ),
            reduced(
                "count_rows", sizes, (1,), "f32 to i64", "arith.addi", "0", positive(np.sum), count
            ),
            reduced(
                "count_columns",
                sizes,
                (0,),
                "f32 to i64",
                "arith.addi",
                "0",
                positive(np.sum),
                count,
            ),
            reduced(
                "count_all",
                (1103, 1319),
                (0, 1),
                "f32 to i64",
                "arith.addi",
                "0",
                positive(np.sum),
                count,
            ),
            reduced(
                "any_of_all",
                (1103, 1319),
                (0, 1),
                "f32 to i1",
                "arith.ori",
                "false",
                positive(np.any),
                test,
            ),
        ]
    )


def integers():
    return dict(
        [
            reduced(
                "sum_i32",
                (7, 93),
                (1,),
                "i32",
                "arith.addi",
                "0",
                functools.partial(np.sum, dtype=np.int32),
            ),
            reduced(
                "sum_i8",
                (7, 193),
                (1,),
                "i8",
                "arith.addi",
                "0",
                functools.partial(np.sum, dtype=np.int8),
            ),
            reduced(
                "sum_from_three",
                (93, 40),
                (0,),
                "i32",
                "arith.addi",
                "3",
                lambda x, axis: x.sum(0, dtype=np.int32) + np.int32(3),
            ),
            reduced(
                "product_i32",
                (93, 40),
                (0,),
                "i32",
                "arith.muli",
                "1",
                functools.partial(np.prod, dtype=np.int32),
            ),
            reduced("largest_i32", (700, 3), (0,), "i32", "arith.maxsi", "-2147483648", np.max),
            reduced(
                "least_i64", (7, 93), (1,), "i64", "arith.minsi", "9223372036854775807", np.min
            ),
            reduced("largest_unsigned", (7, 93), (1,), "i32", "arith.maxui", "0", unsigned(np.max)),
            reduced("least_unsigned", (93, 40), (0,), "i32", "arith.minui", "-1", unsigned(np.min)),
            reduced("and_i32", (7, 33), (1,), "i32", "arith.andi", "-1", all_bits(np.bitwise_and)),
            reduced("or_i32", (3, 40), (0,), "i32", "arith.ori", "0", all_bits(np.bitwise_or)),
            reduced("xor_i32", (7, 93), (1,), "i32", "arith.xori", "0", all_bits(np.bitwise_xor)),
            reduced(
                "xor_long", (2, 900001), (1,), "i32", "arith.xori", "0", all_bits(np.bitwise_xor)
            ),
        ]
    )


def extremes():
    """The largest element, which is NaN where one is, or passes over it."""
    found = {}
    for op, reduce in (("arith.maximumf", np.max), ("arith.maxnumf", np.nanmax)):
        for place, sizes, axes in (
            ("rows", (5, 75), (1,)),
            ("columns", (75, 21), (0,)),
            ("few", (901, 3), (0,)),
            ("long", (2, 900001), (1,)),
        ):
            name = f"{op[6:]}_{place}"
            _, check = reduced(name, sizes, axes, "f32", op, "0xFF800000", np.max)
            x = check.argument
            x.flat[7], x.flat[x.size - 2] = np.nan, np.inf
            found[name] = dataclasses.replace(check, results=(reduce(x, axis=axes),))
    return found


def long_sums():
    """Sums of four million positive numbers, whose rounding errors do not cancel."""
    sizes = {
        "sum_one_row": ((1 << 22,), (0,)),
        "sum_two_rows": ((2, 1 << 21), (1,)),
        "sum_many_rows": ((64, 1 << 16), (1,)),
        "sum_both": ((1 << 11, 1 << 11), (0, 1)),
        "sum_columns": ((1 << 16, 64), (0,)),
        "sum_wide_columns": ((1 << 11, 1 << 11), (0,)),
        "sum_few": (((1 << 22) // 3, 3), (0,)),
        "sum_segments": ((512, 4, 1 << 11), (0, 2)),
        "sum_outer_columns": ((512, 512, 16), (0, 1)),
    }
    found = {}
    for name, (shape, axes) in sizes.items():
        draws = np.random.default_rng(5)
        # Numbers of one size: every addition to a long sum rounds the same way.
        x = (0.1 + 0.01 * draws.random(shape)).astype(np.float32)
        exact = x.astype(np.float64).sum(axis=axes)
        function = text(name, shape, axes, "f32", "f32", "arith.addf", "0.0")
        found[name] = Check(function, x, (exact,), 4e-7)
    return found


def moments(name, sizes, axes, dtype="f32"):
    """Squared distances from a mean, the distances over their mean square; three results."""
    f = Function(name, sizes)
    every, count = tuple(range(len(sizes))), int(np.prod([sizes[n] for n in axes]))
    x = f.argument(every, dtype)
    wide = f.cast(x, "f32")
    mean = f.apply("arith.mulf", f.reduce("arith.addf", wide, axes), 1 / count)
    centred = f.apply("arith.subf", wide, broadcast(f, mean, every))
    squares = f.apply("arith.mulf", centred, centred)
    variance = f.apply("arith.mulf", f.reduce("arith.addf", squares, axes), 1 / count)
    y = f.apply("arith.mulf", centred, broadcast(f, variance, every))
    given = numbers(sizes, dtype) + np.asarray(3, NUMPY[dtype])
    wide_x = given.astype(np.float64)
    centred_x = wide_x - wide_x.mean(axis=axes, keepdims=True)
    variance_x = (centred_x**2).mean(axis=axes, keepdims=True)
    results = (centred_x * variance_x, np.squeeze(variance_x, axes))
    return name, Check(f.finish(y, variance), given, results, 2e-6)


def larger_of_two():
    """Sums of the larger of two f16, which IREE cannot expand as a vector."""
    f = Function("larger_of_two", (5, 60, 32))
    x = f.argument((0, 1, 2), "f16")
    y = f.reduce("arith.addf", f.cast(f.apply("arith.maximumf", x, 0.5), "f32"), (1,))
    given = numbers((5, 60, 32), "f16")
    expected = np.maximum(given.astype(np.float64), 0.5).sum(1)
    return "larger_of_two", Check(f.finish(y), given, (expected,), 1e-6)


def all_elements():
    """One row in two regions: `reduction_fusion` leaves large results to the second."""
    name, check = moments("all_elements", (903, 1001), (0, 1))
    return name, dataclasses.replace(check, fires=2)


def normalized():
    """Dependent reductions with results of rows and of all elements."""
    return dict(
        [
            moments("rows", (11, 75), (1,)),
            moments("long_rows", (2, 400003), (1,)),
            all_elements(),
            moments("channels_first", (3, 20, 7, 9), (1,)),
            moments("channels_first_wide", (2, 5, 40, 40), (1,)),
            moments("tall", (40001, 37), (0,)),
            moments("tall_bf16", (40001, 37), (0,), "bf16"),
            moments("few_columns", (4001, 5), (0,)),
            moments("few_columns_long", (300007, 6), (0,)),
            moments("batch_of_channels", (5, 4, 33), (0, 2)),
            moments("batch_of_few_channels", (600, 2, 999), (0, 2)),
            moments("groups_f16", (2, 3, 50, 20), (2, 3), "f16"),
            moments("outside", (12, 5, 44), (0,)),
        ]
    )


CHECKS = {**booleans(), **integers(), **extremes()}
NORMS = dict([*normalized().items(), larger_of_two()])
ALL = {**CHECKS, **long_sums(), **NORMS}


CASES = {
    name: Case(
        name=name,
        text=one.text,
        inputs={"x": (one.argument,)},
        reference=lambda x: (x,),
        fires={},
        ulps=1,
    )
    for name, one in ALL.items()
}
DISPATCHES = {
    **dict.fromkeys(("sum_one_row", "sum_two_rows", "sum_few"), 2),
    **dict.fromkeys(("sum_columns", "any_of_all", "xor_long"), 2),
    **dict.fromkeys(("sum_many_rows", "any_rows", "rows"), 1),
    **dict.fromkeys(("long_rows", "tall", "few_columns_long"), 4),
}
"""Rows that are few are kernels of parts, and a last one; many rows are one kernel."""

RUNS = Runs(CASES, TARGETS, pipeline=PASSES, always=tuple(DISPATCHES))


@pytest.mark.parametrize(("target", "name"), RUNS.parameters)
def test_reduction(target, name):
    check, outcome = ALL[name], RUNS.outcome(target, name)
    assert outcome.fired.get("row_vector_kernel") == check.fires, outcome.refused
    for found, expected in zip(outcome.fused["x"], check.results, strict=True):
        if check.error:
            error = np.abs(found.astype(np.float64) - expected).max() / np.abs(expected).max()
            assert error <= check.error
        else:
            np.testing.assert_array_equal(found.astype(expected.dtype), expected)


def test_work_is_divided():
    target = "cpu:x86-64-v3"
    assert targets.parse(target).cpu.cores == 8
    assert {n: RUNS.outcome(target, n).dispatches["fused"] for n in DISPATCHES} == DISPATCHES
