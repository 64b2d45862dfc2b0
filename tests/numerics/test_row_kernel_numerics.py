"""Kernels of rows in the vector dialect agree with float64 and with IREE, for several CPUs."""

import dataclasses

import numpy as np
import pytest

from helpers.harness import Batch
from helpers.linalg_text import Function
from helpers.norm_text import broadcast, layer_norm
from helpers.softmax_text import softmax_reference, softmax_text
from helpers.spread import Runs
from helpers.vector_cases import case, draw, renamed
from mlirfuse import targets

PASSES = "layer_norm_fusion,softmax_fusion,reduction_fusion,row_vector_kernel"
TARGETS = ("cpu:host", "cpu:x86-64-v3", "cpu:x86-64")
"""This machine, AVX2, and SSE2: vectors of 16 to 64 bytes."""

GENERIC = {"reduction_fusion": 1, "row_vector_kernel": 1}
SOFTMAX = {"softmax_fusion": 1, "row_vector_kernel": 1}
HAS_32_REGISTERS = targets.parse("cpu:host").cpu.num_registers >= 32

INFINITY = float("inf")


def norm(name, rows, columns, dtype="f32"):
    """A layer norm with scale and shift."""
    f = Function(name, (rows, columns))
    x, gamma, beta = f.argument((0, 1), dtype), f.argument((1,), dtype), f.argument((1,), dtype)
    y = layer_norm(f, x, (1,), gamma, beta, "f32")

    def reference(x, gamma, beta):
        centred = x - x.mean(1, keepdims=True)
        variance = (centred**2).mean(1, keepdims=True)
        return (centred / np.sqrt(variance + 1e-5) * gamma + beta,)

    inputs = draw(dtype, (rows, columns), (columns,), (columns,), special=1)
    inputs.pop("whole")
    fires = {"layer_norm_fusion": 1, "row_vector_kernel": 1}
    return case(name, f.finish(y), inputs, reference, fires, 32, dtype)


def softmax(name, rows, columns, dtype="f32"):
    """A softmax of rows."""
    text = renamed(softmax_text((rows, columns), dtype), name)
    inputs = draw(dtype, (rows, columns), special=1)
    inputs.pop("whole")
    return case(
        name,
        text,
        inputs,
        lambda x: (softmax_reference(x),),
        SOFTMAX,
        16,
        dtype,
    )


def shifted(name, op, init, reduce, columns=37, dtype="f32", rows=6):
    """The elements of rows plus the sum, product, least or largest one of the row."""
    f = Function(name, (rows, columns))
    x = f.argument((0, 1), dtype)
    y = f.apply("arith.addf", x, broadcast(f, f.reduce(op, x, (1,), init), (0, 1)))

    def reference(x):
        return (x + reduce(x, axis=1, keepdims=True),)

    special = int(op != "arith.mulf")
    return case(
        name,
        f.finish(y),
        draw(dtype, (rows, columns), special=special),
        reference,
        GENERIC,
        64,
        dtype,
    )


def two_dimensions(name):
    """Rows of two dimensions, columns of two, a scale of some of the rows; two results."""
    f = Function(name, (3, 5, 4, 9))
    x, s = f.argument((0, 1, 2, 3), "f32"), f.argument((1,), "f32")
    scaled = f.apply("arith.mulf", x, s, axes=(0, 1, 2, 3))
    total = f.reduce("arith.addf", scaled, (2, 3))
    y = f.apply("arith.subf", scaled, total, axes=(0, 1, 2, 3))

    def reference(x, s):
        x = x * s[None, :, None, None]
        total = x.sum((2, 3))
        return x - total[:, :, None, None], total

    inputs = draw("f32", (3, 5, 4, 9), (5,), special=1)
    return case(name, f.finish(y, total), inputs, reference, GENERIC, 64)


def mean_of_products(name):
    """Two reductions of one loop, of products, and their quotient: a result for each row."""
    f = Function(name, (11, 100))
    a, b = f.argument((0, 1), "f32"), f.argument((0, 1), "f32")
    product = f.reduce("arith.addf", f.apply("arith.mulf", a, b), (1,))
    largest = f.reduce("arith.maximumf", f.apply("math.absf", b), (1,), -INFINITY)
    y = f.apply("arith.divf", product, largest)

    def reference(a, b):
        return ((a * b).sum(1) / np.abs(b).max(1),)

    inputs = draw("f32", (11, 100), (11, 100), special=1)
    return dataclasses.replace(
        case(name, f.finish(y), inputs, reference, GENERIC, 128), exact=frozenset()
    )


NUMPY = {
    "arith.addf": (np.sum, 0.0),
    "arith.maximumf": (np.max, -INFINITY),
    "arith.minimumf": (np.min, INFINITY),
}
"""A combiner -> its reduction, and the init."""


def alone(name, sizes, axes, op="arith.addf", dtype="f32", *, init=None, neighbors=False, fires=1):
    """A reduction over some axes, perhaps with ops before and behind it.

    It is in no group; with short rows and such ops it is in one of `reduction_fusion`.
    """
    reduce, neutral = NUMPY[op]
    start = neutral if init is None else init
    f = Function(name, sizes)
    kept = [n for n in range(len(sizes)) if n not in axes]
    x, s = f.argument(range(len(sizes)), dtype), f.argument(kept, dtype)
    y = f.reduce(op, f.apply("math.absf", x) if neighbors else x, axes, start)
    y = f.apply("arith.mulf", y, s) if neighbors else y

    def reference(x, s):
        found = reduce(np.abs(x) if neighbors else x, axis=tuple(axes))
        if init is not None:
            found = {np.sum: np.add, np.max: np.maximum, np.min: np.minimum}[reduce](found, init)
        return (found * s if neighbors else found,)

    inputs = draw(dtype, sizes, [sizes[n] for n in kept], special=1)
    if dtype != "f32" and op == "arith.addf":
        inputs.pop("whole")  # IREE rounds each partial sum to the narrow type.
    fired = {"row_vector_kernel": fires} if fires else {}
    if name.startswith("short") and neighbors:
        fired = GENERIC
    length = int(np.prod([sizes[n] for n in axes]))
    return case(name, f.finish(y), inputs, reference, fired, 4 * length, dtype)


def random_reductions(seed, count):
    """Reductions over random axes of random sizes: rows, columns, and those that IREE computes."""
    draws = np.random.default_rng(seed)
    found = []
    for number in range(count):
        rank = int(draws.integers(1, 5))
        sizes = tuple(int(n) for n in draws.integers(2, [90, 60, 20, 9][rank - 1], rank))
        sizes = (*sizes[:-1], int(draws.integers(2, 80)))
        chosen = sorted(draws.permutation(rank)[: int(draws.integers(1, rank + 1))].tolist())
        op = str(draws.choice(list(NUMPY)))
        dtype = str(draws.choice(["f32", "f32", "f16", "bf16"]))
        neighbors = bool(draws.integers(2))
        found.append(alone(f"random_{number}", sizes, chosen, op, dtype, neighbors=neighbors))
    return found


def cases():
    """Norms, softmax and generic reductions of even, odd, short and long rows."""
    found = [
        norm("norm_even", 9, 64),
        norm("norm_odd", 7, 397),
        norm("norm_long", 2, 9000),
        norm("norm_f16", 5, 75, "f16"),
        norm("norm_bf16", 5, 75, "bf16"),
        *([softmax("softmax_even", 12, 128)] if HAS_32_REGISTERS else []),
        softmax("softmax_odd", 13, 67),
        softmax("softmax_long", 3, 10007),
        softmax("softmax_f16", 6, 77, "f16"),
        softmax("softmax_bf16", 6, 83, "bf16"),
        shifted("total", "arith.addf", 0.0, np.sum),
        shifted("total_from_three", "arith.addf", 3.0, lambda x, **k: x.sum(**k) + 3),
        shifted("product", "arith.mulf", 1.0, np.prod),
        shifted("largest", "arith.maximumf", -INFINITY, np.max),
        shifted("least", "arith.minimumf", INFINITY, np.min, columns=48),
        shifted("largest_f16", "arith.maximumf", -INFINITY, np.max, dtype="f16"),
        two_dimensions("two_dimensions"),
        mean_of_products("mean_of_products"),
        alone("rows_alone", (13, 75), (1,)),
        alone("all_alone", (3, 5, 67), (0, 1, 2), "arith.maximumf"),
        alone("columns", (40, 77), (0,)),
        alone("columns_of_pixels", (2, 5, 6, 48), (1, 2), neighbors=True),
        alone("columns_outside", (3, 4, 5, 33), (0, 2), "arith.minimumf"),
        alone("columns_from_three", (9, 64), (0,), init=3.0, neighbors=True),
        alone("columns_f16", (50, 41), (0,), dtype="f16", neighbors=True),
        alone("columns_bf16", (50, 41), (0,), dtype="bf16"),
        alone("columns_many", (2, 3001), (0,), "arith.maximumf", neighbors=True),
        alone("few_columns", (40, 3), (0,), fires=0),
        # Lanes are rows, whose columns are shuffled out of adjacent vectors.
        norm("short_norm", 50, 5),
        norm("short_norm_of_a_vector", 33, 16),
        norm("short_norm_bf16", 37, 3, "bf16"),
        norm("short_norm_f16", 32, 12, "f16"),
        softmax("short_softmax", 41, 7),
        softmax("short_softmax_bf16", 40, 2, "bf16"),
        shifted("short_total", "arith.addf", 3.0, lambda x, **k: x.sum(**k) + 3, 6, rows=19),
        shifted("short_largest", "arith.maximumf", -INFINITY, np.max, 4, rows=23),
        alone("short_rows", (70, 4), (1,), neighbors=True),
        alone("short_rows_of_two", (7, 5, 2, 3), (2, 3), "arith.maximumf", neighbors=True),
        alone("short_rows_f16", (3, 29, 15), (2,), dtype="f16"),
    ]
    return {one.name: one for one in found}


CASES = cases()

NARROW = (
    *("norm_odd", "norm_f16", "norm_bf16", "softmax_odd", "softmax_long"),
    *("largest", "total_from_three", "two_dimensions", "mean_of_products"),
    *("rows_alone", "columns_of_pixels", "columns_outside", "columns_from_three", "columns_bf16"),
    *("short_norm", "short_norm_bf16", "short_softmax", "short_largest", "short_rows_of_two"),
)
"""The cases that are run for smaller vectors than this machine's: half of them by default."""

RUNS = Runs(CASES, TARGETS, pipeline=PASSES, further=NARROW, every=2)


@pytest.mark.parametrize(("target", "name"), RUNS.parameters)
def test_numerics(target, name):
    RUNS.outcome(target, name).check()


@pytest.mark.parametrize("target", TARGETS[:2])
def test_any_reduction(target):
    """Those of few rows of few elements stay with IREE: which ones fire is not compared."""
    found = list(
        Batch(cases=random_reductions(5, 24), pipeline=PASSES, target=target).run().values()
    )
    for one in found:
        fires = dict(one.fired)
        dataclasses.replace(one, case=dataclasses.replace(one.case, fires=fires)).check()
    assert sum("row_vector_kernel" in one.fired for one in found) >= len(found) // 2


def test_code_for_arm():
    """Vectors of 16 bytes and 32 registers; compiled, not run."""
    arm = targets.parse("cpu:generic")
    flags = (*arm.flags, "--iree-llvmcpu-target-triple=aarch64-linux-gnu")
    arm = dataclasses.replace(arm, flags=flags)
    chosen = [CASES[name] for name in ("norm_odd", "norm_bf16", "softmax_odd", "two_dimensions")]
    fired = Batch(cases=chosen, pipeline=PASSES, target=arm).compiled()
    assert fired == {one.name: one.fires for one in chosen}
