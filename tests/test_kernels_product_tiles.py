"""Which measured tiling a product gets."""

import dataclasses

import pytest

from mlirfuse import targets
from mlirfuse.kernels import product_tiles, tuning
from mlirfuse.kernels.product_tiles import Tiling
from mlirfuse.kernels.provider import Key
from mlirfuse.targets.base import Tuned

HOPPER = targets.parse("cuda:sm_90")
FORM = "16 bits, k inside, k inside"
WIDE, NARROW = Tiling(128, 64, 64, 4, 4), Tiling(64, 32, 128, 4, 6)


@pytest.fixture
def chosen(monkeypatch):
    """The tiling for a product where nothing but some tilings was measured."""
    monkeypatch.setattr(tuning, "MEASURED", {})
    return _chosen


def _chosen(sizes, *entries, sums=1):
    tuned = tuple(
        Tuned("matmul", FORM, measured, dataclasses.astuple(tiling), 1.0)
        for measured, tiling in entries
    )
    target = dataclasses.replace(HOPPER, tuned=tuned)
    return product_tiles.tiling(target, Key("matmul", FORM, sizes), sums)


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


def test_where_none_fills_the_nearest_counts(chosen):
    entry = (256, 4096, 4096, 1), WIDE
    assert chosen((256, 512, 4096, 1), entry) == WIDE


def test_tiles_too_low_for_the_rows_are_passed_over(chosen):
    entries = ((16, 4096, 4096, 1), Tiling(16, 32, 256, 4, 3)), ((512, 4096, 4096, 1), WIDE)
    assert chosen((64, 4096, 4096, 1), *entries).height == 16
    assert chosen((80, 4096, 4096, 1), *entries) == WIDE


@pytest.mark.parametrize(
    "large", [Tiling(128, 128, 64, 4, 3), Tiling(64, 64, 128, 4, 6)], ids=["registers", "memory"]
)
def test_several_sums_need_room(chosen, large):
    entries = ((256, 4096, 4096, 1), large), ((64, 4096, 4096, 1), NARROW)
    assert chosen((256, 4096, 4096, 1), *entries) == large
    assert chosen((256, 4096, 4096, 1), *entries, sums=2) == NARROW
