"""The harness tells right programs from wrong ones."""

import dataclasses

import numpy as np
import pytest

from helpers.harness import Batch, Case, Outcome, dispatches
from helpers.linalg_text import Function


def make() -> Case:
    f = Function("f", (None, 8))
    x = f.argument((0, 1), "f32")
    total = f.reduce("arith.addf", f.apply("arith.mulf", x, x), (1,))
    mean = f.apply("arith.divf", total, 8.0)
    y = f.apply("arith.mulf", x, f.apply("math.rsqrt", f.apply("arith.addf", mean, 1e-5)))
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((4, 8)).astype(np.float32)
    special = rows.copy()
    special[0, 3], special[1, 0] = np.nan, np.inf
    special[3] = 3e38  # Its squares overflow, in f32 only.
    return Case(
        name="f",
        text=f.finish(y),
        inputs={"normal": (rows,), "special": (special,)},
        reference=lambda x: (x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5),),
        fires={"rms_norm_fusion": 1},
        ulps=4.0,
        hostile=frozenset({"special"}),
        dispatches=1,
    )


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return Batch(cases=[make()], pipeline="layer_norm_fusion,rms_norm_fusion").run()["f"]


def changed(outcome: Outcome, **case) -> Outcome:
    return dataclasses.replace(outcome, case=dataclasses.replace(outcome.case, **case))


def spoiled(outcome: Outcome, name: str, change) -> Outcome:
    (result,) = outcome.fused[name]
    copy = result.copy()
    change(copy)
    return dataclasses.replace(outcome, fused={**outcome.fused, name: (copy,)})


def test_a_right_program_passes(outcome):
    outcome.check()
    assert outcome.dispatches == {"fused": 1, "unfused": 1}


@pytest.mark.parametrize(
    "case",
    [
        {"fires": {}},
        {"fires": {"rms_norm_fusion": 2}},
        {"fires": {"rms_norm_fusion": 1, "layer_norm_fusion": 1}},
        {"dispatches": 2},
        {"reference": lambda x: (x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-3),)},
        {"reference": lambda x: (x / np.sqrt((x * x).sum(1, keepdims=True) / 7 + 1e-5),)},
        {"reference": lambda x: (x[:, :7],)},
        {"hostile": frozenset()},
    ],
)
def test_a_wrong_expectation_fails(case, outcome):
    with pytest.raises(AssertionError):
        changed(outcome, **case).check()


def add(amount):
    def change(array):
        array[1, 2] += amount

    return change


def put(row, value):
    def change(array):
        array[row, 2] = value

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("normal", add(1e-4)),
        ("normal", put(0, np.nan)),
        ("normal", put(0, np.inf)),
        ("special", put(2, np.nan)),
        ("special", put(2, -np.inf)),
        ("special", put(0, 1.0)),
        ("special", lambda array: add(1e-4)(array[1:])),
    ],
)
def test_a_wrong_result_fails(name, change, outcome):
    with pytest.raises(AssertionError):
        spoiled(outcome, name, change).check()


def test_a_change_within_the_last_place_passes_unless_exactness_is_asked_for(outcome):
    def nudge(array):
        array[0, 0] = np.nextafter(array[0, 0], np.float32(9.0))

    spoiled(outcome, "normal", nudge).check()
    with pytest.raises(AssertionError, match="not bit-equal"):
        spoiled(changed(outcome, exact=frozenset({"normal"})), "normal", nudge).check()


@pytest.mark.parametrize(
    ("steps", "exact", "right"),
    [(0, True, True), (1, True, False), (1, False, True), (2, False, False)],
)
def test_integers_may_be_off_by_one_unless_the_sums_are_exact(steps, exact, right):
    x = np.arange(8, dtype=np.float32).reshape(1, 8)
    off = x.astype(np.int8)
    off[0, 3] += steps
    case = Case(
        name="f",
        text="",
        inputs={"a": (x,)},
        reference=lambda x: (np.rint(x),),
        fires={},
        ulps=9.0,
        exact=frozenset({"a"} if exact else ()),
    )
    outcome = Outcome(
        case=case,
        fired={},
        refused=[],
        fused={"a": (off,)},
        unfused={"a": (off,) if exact else (x.astype(np.int8),)},
        dispatches={},
    )
    if right:
        outcome.check()
    else:
        with pytest.raises(AssertionError, match="ulps"):
            outcome.check()


def test_dispatches_are_counted_by_function():
    flow = """
  util.func public @a$async(%x: tensor<8xf32>) {
    %0 = flow.dispatch @a_dispatch_0::@a_0(%x)
    %1 = flow.dispatch @a_dispatch_1::@a_1(%0)
  }
  util.func private @b() {
  }
"""
    assert dispatches(flow) == {"a": 2, "b": 0}
