"""Kernels of elementwise ops agree with float64 and with IREE, for several vectors and orders."""

import numpy as np
import pytest

from helpers.linalg_text import Function
from helpers.spread import Runs
from helpers.vector_cases import case, draw, silu
from mlirfuse import targets
from mlirfuse.kernels.vector.interleaving import deinterleaved, interleaved
from mlirfuse.kernels.vector.movement_kernel import interleaved as overlapped
from mlirfuse.kernels.vector.writer import Writer

PASSES = "elementwise_fusion,elementwise_vector_kernel"
TARGETS = ("cpu:host", "cpu:x86-64-v3")
FIRES = {"elementwise_fusion": 1, "elementwise_vector_kernel": 1}
HAS_FMA = targets.parse("cpu:host").cpu.has_fma


def scaled(name, sizes, scale, shift, dtype="f32", fires=None):
    """`silu(silu(x) * a) + b`, whose operands have these axes, in this order."""
    f = Function(name, sizes)
    whole = tuple(range(len(sizes)))
    x, a, b = f.argument(whole, dtype), f.argument(scale, dtype), f.argument(shift, dtype)
    y = silu(f, f.apply("arith.mulf", silu(f, x), a, axes=whole))
    y = f.apply("arith.addf", y, b, axes=whole)

    def spread(value, axes):
        kept = sorted(axes)
        value = np.transpose(value, [axes.index(axis) for axis in kept])
        return value.reshape([sizes[n] if n in axes else 1 for n in whole])

    def reference(x, a, b):
        y = x / (1 + np.exp(-x)) * spread(a, list(scale))
        return (y / (1 + np.exp(-y)) + spread(b, list(shift)),)

    shapes = [[sizes[axis] for axis in axes] for axes in (whole, scale, shift)]
    inputs = draw(dtype, *shapes, special=1)
    inputs.pop("whole")
    return case(name, f.finish(y), inputs, reference, FIRES if fires is None else fires, 16, dtype)


def of_slices(name, whole, sizes, offsets, strides, dtype="f32", turned=False, dispatches=1):
    """`silu(silu(part of x) * part of y)`, whose x and y have these sizes, y turned if asked.

    The kernel reads the parts in their tensors.
    """
    rank = len(sizes)
    f = Function(name, [*sizes, *whole])
    axes, wide = tuple(range(rank)), tuple(range(rank, 2 * rank))
    order = slice(None, None, -1 if turned else None)
    x, y = f.argument(wide, dtype), f.argument(wide[order], dtype)
    part = f.box(x, axes, offsets, strides)
    other = f.box(y, axes[order], offsets[order], strides[order])
    z = silu(f, f.apply("arith.mulf", silu(f, part), other, axes=axes))

    def reference(x, y):
        places = tuple(
            slice(offset, offset + (size - 1) * stride + 1, stride)
            for offset, size, stride in zip(offsets, sizes, strides, strict=True)
        )
        x, y = x[places], (np.transpose(y) if turned else y)[places]
        z = x / (1 + np.exp(-x)) * y
        return (z / (1 + np.exp(-z)),)

    inputs = draw(dtype, whole, whole[order], special=1)
    inputs.pop("whole")
    return case(name, f.finish(z), inputs, reference, FIRES, 16, dtype, dispatches=dispatches)


CASES = {
    one.name: one
    for one in (
        of_slices("part", (19, 60, 70), (17, 55, 68), (1, 2, 0), (1, 1, 1)),
        of_slices("part_turned", (19, 60, 70), (17, 55, 68), (1, 2, 0), (1, 1, 1), turned=True),
        of_slices("second", (899, 190), (300, 95), (0, 0), (3, 2)),
        # IREE cuts y out.
        of_slices(
            "second_turned", (899, 190), (300, 95), (0, 0), (3, 2), turned=True, dispatches=2
        ),
        of_slices("third_to_the_end", (640, 142), (640, 47), (0, 3), (1, 3)),
        of_slices("fourth_f16", (1000, 141), (333, 35), (1, 4), (3, 4), "f16"),
        scaled("one_axis", (20011,), (0,), (0,)),
        scaled("rows_scaled", (7, 16, 300), (1,), (1,)),
        scaled("columns_scaled", (130, 259), (1,), (0,)),
        scaled("pairs", (3, 70, 137, 2), (0, 1, 2), (0, 1, 3, 2)),
        scaled("pairs_f16", (3, 70, 137, 2), (0, 1, 2), (0, 1, 3, 2), "f16"),
        scaled("threes", (1000, 11, 3), (2,), (0, 2)),
        scaled("transposed", (90, 201), (1, 0), (0, 1)),
        scaled("transposed_twice", (90, 201), (1, 0), (1, 0)),
        scaled("transposed_bf16", (90, 201), (1, 0), (0,), "bf16"),
        scaled("transposed_in_batches", (3, 50, 133), (0, 2, 1), (1,)),
        scaled("transposed_to_the_front", (33, 17, 40), (2, 1, 0), (1, 0, 2)),
        scaled("little_work", (9, 32), (1,), (0,), fires={"elementwise_fusion": 1}),
    )
}


RUNS = Runs(CASES, TARGETS, pipeline=PASSES)


@pytest.mark.skipif(not HAS_FMA, reason="CPUs without FMA have no such kernel")
@pytest.mark.parametrize(("target", "name"), RUNS.parameters)
def test_numerics(target, name):
    RUNS.outcome(target, name).check()


def _shuffled(lines, values, lanes):
    """The vectors that lines of shuffles make."""
    for line in lines:
        name, text = line.strip().split(" = vector.shuffle ")
        one, other = text.split(" [")[0].split(", ")
        order = [int(n) for n in text.split("[")[1].split("]")[0].split(",")]
        both = [*values[one], *values[other]]
        values[name] = [both[n] for n in order]
        assert len(order) == lanes
    return values


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 27, 31])
def test_columns_of_rows(lanes, count):
    """Each prime factor takes a shuffle less than it has vectors, for each vector."""
    elements = np.arange(lanes * count).reshape(lanes, count)
    values = {f"%x{n}": list(v) for n, v in enumerate(elements.reshape(count, lanes))}
    writer = Writer()
    columns = deinterleaved(writer, "", lanes, list(values))
    values = _shuffled(writer.lines, values, lanes)
    assert [values[name] for name in columns] == elements.T.tolist()
    factors = [n for n in (2, 2, 2, 2, 3, 3, 3, 5, 7, 31) if count % n == 0]
    assert len(writer.lines) <= count * sum(n - 1 for n in factors)
    before = len(writer.lines)
    rows = interleaved(writer, "", lanes, columns)
    values = _shuffled(writer.lines[before:], values, lanes)
    assert [e for name in rows for e in values[name]] == elements.flatten().tolist()


def test_ops_of_independent_vectors_in_turns():
    """Also where one has an index more; a branch stays whole."""
    one, other = ["a0", "a1", "a2", "a3"], ["b0", "b1", "b2"]
    made = overlapped([one, other])
    assert [line for line in made if line in one] == one
    assert [line for line in made if line in other] == other
    assert made[:2] == ["a0", "b0"]
    assert overlapped([["a {", "}"], ["b {", "}"]]) == ["a {", "}", "b {", "}"]
