"""Matches and refusals of group_norm_fusion beyond its lit file."""

import struct

import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from helpers.linalg_text import Function, Tensor
from helpers.norm_text import group_norm_text, mean
from mlirfuse import targets
from mlirfuse.core import Reason
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine

BATCH, CHANNEL, SPACE, HALF, GROUPS, CHANNELS = range(6)
EVERYTHING = (BATCH, CHANNEL, SPACE)
SPLIT = "[[0], [1], [2, 3]]"


def decisions(text: str, target: str = "cpu"):
    module = ir.Module.parse(text, ir.Context())
    options = FusionOptions(pipeline="group_norm_fusion")
    return engine.run(module, target=targets.parse(target), options=options)[1].decisions


def function() -> Function:
    return Function("f", (2, 4, 6, 3, 2, 8))


def normalized(f: Function, x: Tensor, axes=(SPACE,), *, centered=True, count=None) -> Tensor:
    """A norm without scale and shift; `count` divides the squares."""
    shifted = f.apply("arith.subf", x, mean(f, x, axes)) if centered else x
    squares = f.apply("arith.mulf", shifted, shifted)
    if count is None:
        variance = mean(f, squares, axes)
    else:
        variance = f.apply("arith.divf", f.reduce("arith.addf", squares, axes), count)
    rstd = f.apply("math.rsqrt", f.apply("arith.addf", variance, 1e-5))
    return f.apply("arith.mulf", shifted, rstd)


def scaled(axes, op="arith.mulf", **norm) -> str:
    """A norm over space that is scaled by a tensor over `axes`."""
    f = function()
    y = normalized(f, f.argument(EVERYTHING, "f32"), **norm)
    return f.finish(f.apply(op, y, f.argument(axes, "f32")))


@pytest.mark.parametrize(
    ("axes", "taken"),
    [
        ((CHANNEL,), True),
        ((BATCH, CHANNEL), True),
        ((CHANNEL, SPACE), True),
        ((BATCH,), True),
        ((SPACE,), False),
        ((BATCH, SPACE), False),
        (EVERYTHING, False),
    ],
)
@pytest.mark.parametrize("op", ["arith.mulf", "arith.addf"])
def test_scales_and_shifts_of_a_group_norm(axes, taken, op):
    found = decisions(scaled(axes, op))
    assert [d.taken for d in found] == [True] * taken


@pytest.mark.parametrize(
    ("op", "norm"),
    [
        ("arith.divf", {}),
        ("arith.mulf", {"centered": False}),
        ("arith.mulf", {"count": 5.0}),
    ],
)
def test_no_group_norm(op, norm):
    assert decisions(scaled((CHANNEL,), op, **norm)) == []


def test_a_norm_without_scale_and_shift_is_left_alone():
    f = function()
    assert decisions(f.finish(normalized(f, f.argument(EVERYTHING, "f32")))) == []


def after_reshape(op="arith.mulf", *, inner=False, axes=(CHANNELS,), centered=True) -> str:
    """A norm over (channel of the group, space), scaled after a reshape to (channel, space)."""
    f = Function("f", (2, 4, 6, 3, 2, 8))
    x = f.argument((BATCH, CHANNEL, HALF, GROUPS), "f32")
    y = normalized(f, x, (HALF, GROUPS), centered=centered)
    if inner:
        y = f.apply("arith.mulf", y, f.argument((GROUPS,), "f32"))
    y = f.reshape(y, (BATCH, CHANNEL, SPACE), "[[0], [1], [2, 3]]")
    return f.finish(f.apply(op, y, f.argument(axes, "f32")))


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ({"axes": (CHANNEL,)}, True),
        ({"axes": (CHANNEL,), "op": "arith.addf"}, True),
        ({"axes": (CHANNEL,), "op": "arith.divf"}, False),
        ({"axes": (CHANNEL,), "centered": False}, False),
        ({"axes": (CHANNEL,), "inner": True}, False),
        ({"axes": EVERYTHING}, False),
        ({"axes": EVERYTHING, "op": "arith.addf"}, False),
    ],
)
def test_scales_and_shifts_after_a_reshape(options, taken):
    assert [d.taken for d in decisions(after_reshape(**options))] == [True] * taken


@pytest.mark.parametrize(("dtype", "taken"), [("f16", True), ("f32", False)])
def test_a_cast_after_a_reshape_is_a_group_norms(dtype, taken):
    """Without a scale: `layer_norm_fusion` would leave the widening before the reshape outside."""
    f = Function("f", (2, 4, 6, 3, 2, 8))
    wide = f.cast(f.argument(EVERYTHING, dtype), "f32")
    y = normalized(f, f.reshape(wide, (BATCH, CHANNEL, HALF, GROUPS), SPLIT), (HALF, GROUPS))
    y = f.reshape(y, EVERYTHING, SPLIT)
    y = f.cast(y, dtype) if dtype != "f32" else f.apply("arith.mulf", y, 2.0)
    assert [d.taken for d in decisions(f.finish(y))] == [True] * taken


def test_weights_that_were_not_trained_scale_a_group_norm():
    f = Function("f", (2, 4, 6, 3, 2, 8))
    x = f.argument((BATCH, CHANNEL, HALF, GROUPS), "f32")
    y = f.reshape(normalized(f, x, (HALF, GROUPS)), EVERYTHING, SPLIT)
    ones = f.constant((CHANNEL,), "f32", struct.pack("<4f", 1, 1, 1, 1))
    assert [d.taken for d in decisions(f.finish(f.apply("arith.mulf", y, ones)))] == [True]


def test_a_divided_norm_is_no_group_norm_for_its_shift():
    f = Function("f", (2, 4, 6, 3, 2, 8))
    x = f.argument((BATCH, CHANNEL, HALF, GROUPS), "f32")
    y = f.reshape(normalized(f, x, (HALF, GROUPS)), EVERYTHING, "[[0], [1], [2, 3]]")
    y = f.apply("arith.divf", y, f.argument((CHANNEL,), "f32"))
    assert decisions(f.finish(f.apply("arith.addf", y, f.argument((CHANNEL,), "f32")))) == []


# --- no common space -----------------------------------------------------------------------------


def test_sizes_that_do_not_divide_each_other():
    """Rows of 4x6 read as rows of 3x8."""
    f = Function("f", (2, 4, 6, 3, 8, 24))
    y = normalized(f, f.argument((0, 1, 2), "f32"), (1, 2))
    y = f.reshape(f.reshape(y, (0, 5), "[[0], [1, 2]]"), (0, 3, 4), "[[0], [1, 2]]")
    (found,) = decisions(f.finish(f.apply("arith.mulf", y, f.argument((3,), "f32"))))
    assert found.reason is Reason.SHAPE_MISMATCH
    assert found.detail.endswith("have no common digits")


SCALED = "    %r = arith.mulf %a0, %a1 : f32"
BY_INDEX = """    %n = linalg.index 1 : index
    %k = arith.index_cast %n : index to i32
    %w = arith.sitofp %k : i32 to f32
    %r = arith.mulf %a0, %w : f32"""


def test_a_body_that_reads_its_loops():
    text = BY_INDEX.join(scaled((CHANNEL,)).rsplit(SCALED, 1))
    (found,) = decisions(text)
    assert found.taken
    x = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("f4")
    centered = x - x.mean(-1, keepdims=True)
    normed = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    program = mlirfuse.compile(text, target="cpu", pipeline="group_norm_fusion")
    scale = np.zeros(4, "f4")  # replaced by the index
    np.testing.assert_allclose(program(x, scale), normed * np.arange(4)[:, None], rtol=1e-5)


@pytest.mark.parametrize(("target", "taken"), [("cpu", True), ("cuda", True), ("vulkan", False)])
def test_several_channels_a_group(target, taken):
    (found,) = decisions(group_norm_text("f", "f32", 2, 4, 2, 6), target)
    assert found.taken is taken
    assert found.reason is (None if taken else Reason.TARGET_UNSUPPORTED)


@pytest.mark.parametrize(
    ("target", "space", "channels_last", "taken"),
    [
        ("cuda:sm_80", 512, True, True),
        ("cuda:sm_80", 513, True, False),
        ("cuda:sm_80", 513, False, True),
        ("rocm:gfx942", 128, True, True),
        ("rocm:gfx942", 129, True, False),
        ("cpu", 513, True, True),
    ],
)
def test_large_groups_that_are_not_contiguous(target, space, channels_last, taken):
    text = group_norm_text("f", "f32", 2, 4, 2, space, channels_last=channels_last)
    (found,) = decisions(text, target)
    assert found.taken is taken
    assert found.detail == ("" if taken else f"{2 * space} elements that are not contiguous")
