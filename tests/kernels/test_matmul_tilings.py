"""Which measured tiling a product gets."""

import dataclasses

import pytest
from iree.compiler import ir
from mlirfuse.kernels.matmul.tilings import Tiling

from helpers.kernel_runner import needs_triton
from helpers.matmul_plans import linear, plan
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.matmul import tilings
from mlirfuse.kernels.plan import Key
from mlirfuse.targets.base import Tuned

HOPPER = targets.parse("cuda:sm_90")
FORM = "16 bits, k inside, k inside"
WIDE, NARROW = Tiling(128, 64, 64, 4, 4), Tiling(64, 32, 128, 4, 6)


@pytest.fixture
def chosen(monkeypatch):
    """The tiling for a product where nothing but some tilings was measured."""
    monkeypatch.setattr(lookup, "MEASURED", {})
    return _chosen


def _chosen(sizes, *entries, sums=1):
    tuned = tuple(
        Tuned("matmul", FORM, measured, dataclasses.astuple(tiling), 1.0)
        for measured, tiling in entries
    )
    target = dataclasses.replace(HOPPER, tuned=tuned)
    return tilings.tiling(target, Key("matmul", FORM, sizes), sums)


def test_the_nearest_that_fills_the_device(chosen):
    """Of 2048 columns 128x64 makes 64 workgroups, of 3072 96."""
    entries = ((256, 4096, 4096, 1), WIDE), ((256, 1024, 4096, 1), NARROW)
    assert chosen((256, 3072, 4096, 1), *entries) == WIDE
    assert chosen((256, 2048, 4096, 1), *entries) == NARROW
    assert chosen((256, 2048, 4096, 2), *entries) == WIDE


def test_what_filled_little_where_it_was_measured_counts(chosen):
    entries = ((64, 256, 4096, 1), WIDE), ((64, 1024, 4096, 1), NARROW)
    assert chosen((64, 256, 4096, 1), *entries) == WIDE
    assert chosen((64, 192, 4096, 1), *entries) == WIDE


def test_where_none_fills_an_estimate_does_or_the_nearest_counts(chosen):
    entry = (256, 4096, 4096, 1), WIDE
    assert chosen((256, 2048, 4096, 1), entry) == Tiling(64, 64, 64, 4, 4)
    assert chosen((256, 512, 4096, 1), entry) == WIDE


def test_few_rows_and_straight_weights_may_fill_less(chosen):
    few, straight = Tiling(16, 32, 512, 4, 3), Tiling(32, 32, 1024, 8, 1, straight=1)
    low, narrow = Tiling(16, 16, 512, 4, 3), ((64, 128, 4096, 1), NARROW)
    entries = ((16, 4096, 4096, 1), few), ((16, 512, 4096, 1), low)
    assert chosen((16, 1536, 4096, 1), *entries) == few
    assert chosen((64, 1024, 4096, 1), ((64, 4096, 4096, 1), straight), narrow) == straight


def test_tiles_too_low_for_the_rows_are_passed_over(chosen):
    entries = ((16, 4096, 4096, 1), Tiling(16, 32, 256, 4, 3)), ((512, 4096, 4096, 1), NARROW)
    assert chosen((64, 4096, 4096, 1), *entries).height == 16
    assert chosen((80, 4096, 4096, 1), *entries) == NARROW


@pytest.mark.parametrize(
    "large", [Tiling(128, 128, 64, 4, 3), Tiling(64, 64, 128, 4, 6)], ids=["registers", "memory"]
)
def test_several_sums_need_room(chosen, large):
    entries = ((256, 4096, 4096, 1), large), ((64, 4096, 4096, 1), NARROW)
    assert chosen((256, 4096, 4096, 1), *entries) == large
    assert chosen((256, 4096, 4096, 1), *entries, sums=2) == NARROW


def test_weights_that_are_taken_apart_have_their_own_tiles():
    form = f"{FORM}, computed, 8 bits"
    found = tilings.tiling(HOPPER, Key("matmul", form, (128, 14336, 4096, 1)), 1)
    assert found.straight


@pytest.mark.parametrize(
    ("rows", "tile"),
    [
        (16, (16, 32)),
        (17, (64, 32)),
        (64, (64, 32)),
        (100, (64, 64)),
        (256, (64, 128)),
        (512, (128, 128)),
        (1000, (128, 256)),
        (4096, (128, 256)),
    ],
)
def test_tiles_by_rows(rows, tile):
    """With the built-in table, each fills nearly all of 132 multiprocessors."""
    sizes = (tilings.counted(rows), 4096, 4096, 1)
    found = tilings.tiling(HOPPER, Key("matmul", FORM, sizes), 1)
    assert (found.height, found.width) == tile
    assert -(-rows // found.height) * (4096 // found.width) >= 128


@pytest.mark.parametrize(("rows", "counts"), [(1, 1), (16, 16), (17, 32), (1000, 1024)])
def test_some_rows_count_as_a_power_of_two(rows, counts):
    assert tilings.counted(rows) == counts
    assert tilings.counted(1025) == 1025


@needs_triton
@pytest.mark.parametrize(
    ("sizes", "stays"), [((128, 14336, 4096), False), ((100, 3072, 768), True)]
)
def test_object_code_with_the_built_in_tiles(sizes, stays):
    with ir.Context():
        found = plan(linear(sizes), None)
        assert ("matmul_sm90" in found.program.source) == stays
        kernel = triton_compiler.build(found.program, "sm_90")
    assert b"wgmma" in kernel.code
    assert kernel.workgroup_memory <= (HOPPER.shared_memory or 0)
