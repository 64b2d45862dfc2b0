"""Register tiles of CPUs' kernels, and the indices that kernels are written with."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlirfuse import targets
from mlirfuse.kernels.vector import register_tiles
from mlirfuse.kernels.vector.products import Product
from mlirfuse.kernels.vector.register_tiles import RegisterTile
from mlirfuse.kernels.vector.tiled import Window
from mlirfuse.kernels.vector.writer import Linear, Writer, linear

AVX2 = targets.parse("cpu:x86-64-v3").cpu
AVX512 = targets.parse("cpu:x86-64-v4").cpu
SSE2 = targets.parse("cpu:x86-64").cpu
NEON = dataclasses.replace(SSE2, num_registers=32, has_fma=True)
DEVICES = {"sse2": SSE2, "avx2": AVX2, "avx512": AVX512, "neon": NEON}

devices = st.sampled_from([*DEVICES.values()])
rows, vectors = st.integers(1, 300), st.integers(1, 70)


@given(rows, vectors, st.integers(1, 5000), devices)
def test_accumulators_fit_the_registers_with_little_padding(rows, vectors, depth, device):
    tile = register_tiles.choose(rows, vectors, depth, device)
    assert tile.rows * tile.vectors + tile.vectors + 1 <= device.num_registers
    assert -vectors % tile.vectors <= vectors * register_tiles.MAX_PADDING
    assert tile.rows <= rows


@given(rows, vectors, devices)
def test_tiles_of_windows_fit_the_registers_and_divide_the_channels(rows, vectors, device):
    tile = register_tiles.choose_windowed(rows, vectors, device)
    assert tile.rows * tile.vectors + tile.vectors + 2 <= device.num_registers
    assert vectors % tile.vectors == 0
    assert tile.vectors * device.vector_bytes <= register_tiles.CACHE_LINE
    assert -(-rows // tile.rows) * tile.rows - rows < tile.rows


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_large_products_hide_the_latency_of_multiply_adds(device):
    tile = register_tiles.choose(960, 48, 64, device)
    needed = register_tiles.FMA_LATENCY * device.fma_ports
    assert tile.rows * tile.vectors >= needed


@pytest.mark.parametrize("rows", [16, 120, 128])
def test_avx2_keeps_more_accumulators_than_are_in_flight(rows):
    """128x1024x2816 f32 took 6.8 ms with 8 of them, and 5.8 with 12: a row is four pages."""
    tile = register_tiles.choose(rows, 352, 1024, AVX2, row_bytes=4096)
    assert tile in (RegisterTile(4, 3), RegisterTile(6, 2))


def test_elements_that_several_taps_read_have_registers():
    def chosen(overlap):
        return register_tiles.choose(112, 8, 27, AVX2, row_bytes=12, overlap=overlap)

    assert (chosen(0), chosen(1)) == (RegisterTile(6, 2), RegisterTile(4, 2))
    assert not register_tiles.fits(6, 2, AVX2, overlap=1)
    assert register_tiles.fits(6, 2, AVX2, overlap=6)


@pytest.mark.parametrize(
    ("stride", "taps", "dilation", "spread", "overlap"),
    [
        (1, 3, 1, 1, 1),
        (2, 3, 1, 1, 1),
        (2, 2, 1, 1, 0),
        (3, 3, 1, 1, 0),
        (1, 3, 2, 1, 2),
        (1, 4, 1, 2, 1),
        (1, 2, 1, 2, 0),
        (1, 1, 1, 1, 0),
    ],
)
def test_pixels_that_read_an_element_by_several_taps(stride, taps, dilation, spread, overlap):
    window = Window(0, stride, taps, dilation, 0, 64, 1, spread)
    assert window.overlap == overlap
    read = {
        index: {window.element(index, tap) for tap in range(taps) if window.reads(index, tap)}
        for index in range(0, 8 * spread, spread)
    }
    shared = [n for n in range(1, 8) if read[0] & read[n * spread]]
    assert (shared[0] if shared else 0) == overlap


def test_a_product_that_is_not_added_at_once_has_a_register():
    words = Product(2, "llvm.x86.avx2.pmadd.wd", "i16", adds=False)
    assert register_tiles.choose(128, 384, 384, AVX2, row_bytes=768) == RegisterTile(4, 3)
    found = register_tiles.choose(128, 384, 384, AVX2, row_bytes=768, product=words)
    assert found == RegisterTile(6, 2)
    assert not register_tiles.fits(4, 3, AVX2, product=words)


def test_bytes_whose_sign_is_flipped_are_broadcast_to_several_vectors():
    flipped = Product(4, "llvm.x86.avx512.vpdpbusd.256", "i8", shift=128)
    device = dataclasses.replace(AVX2, load_ports=3)
    plain = dataclasses.replace(flipped, shift=0)
    found = [
        register_tiles.choose(128, 384, 192, device, row_bytes=768, product=product)
        for product in (plain, flipped)
    ]
    assert found == [RegisterTile(13, 1), RegisterTile(4, 3)]


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_rows_of_a_tile_do_not_evict_each_other(device):
    """Rows at a distance of a page are in one set of the first data cache."""
    ways = device.l1_bytes // register_tiles.CACHE_WAY_BYTES
    for row_bytes, sets in ((4096, 1), (8192, 1), (2048, 2), (3072, 4)):
        assert register_tiles.max_cached_rows(row_bytes, device) == ways * sets
        tile = register_tiles.choose(960, 48, 1024, device, row_bytes=row_bytes)
        assert tile.rows <= ways * sets


def test_far_rows_have_lower_and_wider_tiles():
    """On AVX-512 the tile for near rows has more of them than a first cache of 8 ways has lines."""
    device = dataclasses.replace(AVX512, fma_ports=1, load_ports=1)
    near, far = (register_tiles.choose(128, 176, 1024, device, row_bytes=n) for n in (4, 4096))
    assert near.rows > 8 >= far.rows


@pytest.mark.parametrize("device", [AVX2, AVX512], ids=("avx2", "avx512"))
def test_transposed_results_fill_more_lanes(device):
    plain = register_tiles.choose(320, 5, 64, device)
    assert register_tiles.choose(320, 5, 64, device, transposes=True).rows > plain.rows


def test_more_registers_are_used():
    few, many = (
        register_tiles.choose(960, 48, 64, dataclasses.replace(SSE2, num_registers=n))
        for n in (16, 32)
    )
    assert few.rows * few.vectors < many.rows * many.vectors


def test_a_sum_of_indices():
    total = linear("%a") * 3 + linear("%b") + 5 + linear("%a") * -3
    assert total == Linear({"%b": 1}, 5)
    assert (total * 0).is_constant
    assert not total.is_constant
    assert linear(7) + 1 == Linear(constant=8)


terms = st.dictionaries(st.sampled_from(["%a", "%b", "%c"]), st.integers(-9, 9), max_size=3)
sums = st.builds(Linear, terms, st.integers(-99, 99))


@given(sums, sums, st.integers(-5, 5))
def test_sums_are_those_of_their_values(one, other, factor):
    values = {"%a": 3, "%b": -8, "%c": 21}

    def value(index):
        return index.constant + sum(values[name] * f for name, f in index.terms.items())

    assert value(one + other) == value(one) + value(other)
    assert value(one * factor) == value(one) * factor


def test_constants_are_written_once_and_first():
    writer = Writer()
    writer.index(Linear({"%a": 4}, 4))
    lines = writer.text()
    assert lines == [
        "%k0 = arith.constant 4 : index",
        "%v1 = arith.muli %a, %k0 : index",
        "%v2 = arith.addi %v1, %k0 : index",
    ]


def test_a_loop_without_carried_values_yields_nothing():
    writer = Writer()
    assert writer.loop(0, 4, 1, [], [], lambda index, _: []) == []
    assert [line.strip() for line in writer.lines] == [
        "scf.for %v1 = %k0 to %k1 step %k2 {",
        "}",
    ]
