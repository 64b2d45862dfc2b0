"""Kernels of scans in the vector dialect agree with float64 and with IREE, for several CPUs."""

import dataclasses

import numpy as np
import pytest

from helpers.scan_text import expected, scan_text
from helpers.spread import Runs
from helpers.vector_cases import case, draw, renamed

PASSES = "lone_scan_fusion,scan_vector_kernel"
TARGETS = ("cpu:host", "cpu:x86-64-v3")
"""This machine, and AVX2: vectors of 32 bytes."""

FIRES = {"lone_scan_fusion": 1, "scan_vector_kernel": 1}

INTEGERS = {"i32": np.int32, "i64": np.int64, "i16": np.int16}

EXACT_COMBINERS = ("max", "min", "maxnum", "addi", "muli", "maxi")


def scan(name, shape, axis, combine="add", dtype="f32", *, element=None, **how):
    """A scan; `how` are arguments of `scan_text`."""
    element = element or ("f32" if dtype in ("f16", "bf16") else dtype)
    text = renamed(scan_text(shape, axis, combine, dtype, element=element, **how), name)
    if dtype in INTEGERS:
        values = np.random.default_rng(5).integers(-3, 4, shape).astype(INTEGERS[dtype])
        inputs = {"whole": (values,)}
    else:
        inputs = draw(dtype, shape, special=int(combine != "mul"))
        if combine == "mul":
            inputs = {
                "normal": (
                    np.exp(inputs["normal"][0].astype("f4") / 8).astype(inputs["normal"][0].dtype),
                )
            }
    if combine in ("logaddexp", "mul"):
        inputs.pop("whole", None)
    known = {key: value for key, value in how.items() if key != "element"}

    def reference(x):
        with np.errstate(all="ignore"):
            return (expected(x, axis, combine, **known).astype(np.float64),)

    computed = "f32" if dtype in INTEGERS else dtype
    made = case(name, text, inputs, reference, FIRES, 4 * shape[axis], computed)
    exact = made.exact & set(inputs) if combine != "logaddexp" else frozenset()
    if combine in EXACT_COMBINERS:
        exact = frozenset(inputs)
    return dataclasses.replace(made, exact=exact, dispatches=1)


def cases():
    """Scans of each layout, combiner, element type and direction."""
    found = [
        scan("row", (5, 80), 1),
        scan("row_odd", (5, 77), 1),
        scan("row_short", (9, 13), 1),
        scan("row_long", (1, 10007), 1),
        scan("one_dimension", (300,), 0),
        scan("row_together", (2, 171), 1, "logaddexp"),
        scan("row_together_reversed", (2, 171), 1, "logaddexp", before=True, after=True),
        scan("inner_together", (2, 57, 3), 1, "logaddexp"),
        scan("inner_together_reversed", (2, 57, 7), 1, "logaddexp", before=True, after=True),
        scan("packed", (37, 3), 1),
        scan("packed_two", (33, 2), 1),
        scan("packed_four", (10, 4), 1),
        scan("packed_inner", (11, 2, 3), 1),
        scan("inner_three", (5, 41, 3), 1),
        scan("inner_seven", (2, 23, 7), 1),
        scan("inner_eleven", (2, 19, 11), 1),
        scan("inner_pair", (3, 7, 2, 3), 1),
        scan("columns", (41, 64), 0),
        scan("columns_odd", (41, 77), 0),
        scan("columns_many", (7, 2501), 0),
        scan("columns_tall", (3001, 16), 0),
        scan("columns_middle", (3, 17, 5, 11), 1),
        scan("size_one_behind", (4, 33, 1), 1),
        scan("size_one_between", (4, 1, 33), 2),
    ]
    for layout, shape, axis in (
        ("row", (5, 53), 1),
        ("packed", (13, 5), 1),
        ("inner", (3, 29, 5), 1),
        ("column", (29, 70), 0),
    ):
        for before, after in ((1, 1), (1, 0), (0, 1)):
            for exclusive in (False, True):
                how = {"before": bool(before), "after": bool(after), "exclusive": exclusive}
                name = f"{layout}_flips_{before}{after}_{int(exclusive)}"
                found.append(scan(name, shape, axis, **how))
        for combine in ("mul", "max", "min", "maxnum", "logaddexp"):
            found.append(scan(f"{layout}_{combine}", shape, axis, combine))
        for dtype in ("f16", "bf16"):
            found.append(scan(f"{layout}_{dtype}", shape, axis, dtype=dtype))
        for dtype in ("i32", "i64", "i16"):
            found.append(scan(f"{layout}_{dtype}", shape, axis, "addi", dtype))
        found.append(scan(f"{layout}_narrow", shape, axis, dtype="f16", element="f16"))
        found.append(
            scan(f"{layout}_exclusive_i32", shape, axis, "addi", "i32", exclusive=True, init=7)
        )
        found.append(scan(f"{layout}_products_i64", shape, axis, "muli", "i64"))
        found.append(
            scan(f"{layout}_maxima_i32", shape, axis, "maxi", "i32", before=True, after=True)
        )
    return {one.name: one for one in found}


CASES = cases()

NARROW = tuple(
    name
    for name in CASES
    if name.startswith(("row", "inner")) or ("flips" not in name and "long" not in name)
)
"""The cases that are run for smaller vectors than this machine's: a sample by default."""

RUNS = Runs(CASES, TARGETS, pipeline=PASSES, further=NARROW)


@pytest.mark.parametrize(("target", "name"), RUNS.parameters)
def test_numerics(target, name):
    RUNS.outcome(target, name).check()


@pytest.mark.parametrize("name", ["row_long", "columns_tall"])
def test_sums_of_f32_are_as_exact_as_pytorch(name):
    """PyTorch accumulates them in f64: each result is rounded once."""
    found = RUNS.outcome(TARGETS[0], name)
    for key in ("normal", "whole"):
        (made,) = found.fused[key]
        (exact,) = found.case.reference(*(x.astype(np.float64) for x in found.case.inputs[key]))
        np.testing.assert_array_less(np.abs(made - exact), 0.75 * np.spacing(np.abs(made)) + 1e-30)
