"""Which configuration a matmul gets: measured for a near problem, or computed from the device."""

import dataclasses
import re

import pytest
from iree.compiler import ir

from helpers.kernel_runner import needs_triton
from helpers.matmul_plans import linear, plan
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.matmul import cost_model, few_rows, heuristics, selection, tile_shapes
from mlirfuse.kernels.matmul.family import MATMUL
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem, bucket_m
from mlirfuse.kernels.matmul.selection import choose_config
from mlirfuse.targets.base import MeasuredConfig

HOPPER = targets.parse("cuda:sm_90")
DEVICES = ("cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_90", "rocm:gfx90a", "rocm:gfx942")
WIDE, NARROW = MatmulConfig(128, 64, 64, 4, 4), MatmulConfig(64, 32, 128, 4, 6)


@pytest.fixture
def chosen(monkeypatch):
    """The configuration of a matmul where only some configurations were measured."""
    monkeypatch.setattr(lookup, "_built_in_entries", lambda *_: ())
    for share in ("MODELLED_SHARE", "PERSISTENT_SHARE"):
        monkeypatch.setattr(selection, share, float("inf"))
    return _chosen


def _chosen(sizes, *entries, accumulators=1):
    measured = tuple(
        MeasuredConfig("matmul", MatmulProblem(*known).to_dict(), config.to_dict(), 1.0)
        for known, config in entries
    )
    target = dataclasses.replace(HOPPER, measured=measured)
    return choose_config(MatmulProblem(*sizes, accumulators=accumulators), target)


def test_the_nearest_that_fills_the_device(chosen):
    """With N = 2048 tiles of 128x64 make 64 CTAs, with 3072 they make 96."""
    entries = ((256, 4096, 4096, 1), WIDE), ((256, 1024, 4096, 1), NARROW)
    assert chosen((256, 3072, 4096, 1), *entries) == WIDE
    assert chosen((256, 2048, 4096, 1), *entries) == NARROW
    assert chosen((256, 2048, 4096, 2), *entries) == WIDE


def test_a_configuration_that_filled_little_when_measured_counts(chosen):
    entries = ((64, 256, 4096, 1), WIDE), ((64, 1024, 4096, 1), NARROW)
    assert chosen((64, 256, 4096, 1), *entries) == WIDE
    assert chosen((64, 192, 4096, 1), *entries) == WIDE


def test_where_none_fills_the_default_does_or_the_nearest_counts(chosen):
    entry = (256, 4096, 4096, 1), WIDE
    assert chosen((256, 2048, 4096, 1), entry) == MatmulConfig(64, 64, 128, 4, 4)
    assert chosen((256, 512, 4096, 1), entry) == WIDE


def test_few_rows_and_streamed_weights_may_fill_less(chosen):
    few = MatmulConfig(16, 32, 512, 4, 3)
    streaming = MatmulConfig(32, 32, 1024, 8, 1, weight_streaming=True)
    low, narrow = MatmulConfig(16, 16, 512, 4, 3), ((64, 128, 4096, 1), NARROW)
    entries = ((16, 4096, 4096, 1), few), ((16, 512, 4096, 1), low)
    assert chosen((16, 1536, 4096, 1), *entries) == few
    assert chosen((64, 1024, 4096, 1), ((64, 4096, 4096, 1), streaming), narrow) == streaming


def test_the_model_overrules_a_measurement_of_another_problem(monkeypatch):
    """On an H200 the tiles of 64x64 took 17.5 us, those of 64x128 12.5; a measurement counts."""
    monkeypatch.setattr(lookup, "_built_in_entries", lambda *_: ())
    sizes, small = (768, 768, 3072, 1), MatmulConfig(64, 64, 128, 4, 6)
    computed = heuristics.default_config(MatmulProblem(*sizes), HOPPER)
    assert {computed.block_m, computed.block_n} == {64, 128}
    assert _chosen(sizes, ((640, 768, 3072, 1), small)) == computed
    assert _chosen(sizes, (sizes, small)) == small


def test_long_rows_of_b_are_parts_of_k_for_warpgroups():
    """Measured on an H200: 128x128 by one warpgroup, in parts that leave each SM one CTA."""
    found = heuristics.default_config(
        MatmulProblem(640, 640, 30000, 1, b_k_contiguous=False), HOPPER
    )
    assert (found.block_m, found.block_n, found.num_warps, found.k_splits) == (128, 128, 4, 5)
    found = heuristics.default_config(MatmulProblem(2048, 2048, 2048, 1), HOPPER)
    assert (found.block_n, found.num_warps, found.k_splits) == (256, 8, 1)


@pytest.mark.parametrize(
    ("sizes", "bits", "splits"),
    [
        ((12, 2048, 16384), 32, 16),
        ((1, 4096, 4096), 16, 8),
        ((8, 3072, 768), 16, 11),
        ((8, 3072, 512), 16, 1),
        ((1, 50000, 1024), 16, 1),
        # Loads of 8 and of 4 bytes.
        ((8, 5002, 4096), 32, 6),
        ((12, 2050, 8192), 16, 15),
    ],
)
def test_few_rows_times_long_ones_have_whole_lines_and_parts_of_k(sizes, bits, splits):
    problem = MatmulProblem(*sizes, 1, operand_bits=bits, b_k_contiguous=False)
    found = heuristics.default_config(problem, HOPPER)
    assert found == dataclasses.replace(few_rows.WIDE_TILE, k_splits=splits)
    odd = heuristics.default_config(dataclasses.replace(problem, n=problem.n + 1), HOPPER)
    narrow = (odd.block_n, odd.block_k) == (
        few_rows.NARROW_TILE.block_n,
        few_rows.NARROW_TILE.block_k,
    )
    assert narrow == (bits == 32 and odd.row_classes == 1)
    assert (odd.row_classes > 1) == (bits == 16 or sizes[2] > 10000)


@pytest.mark.parametrize("whole_rows", [False, True])
def test_few_columns_of_f32_have_small_tiles(whole_rows):
    problem = MatmulProblem(
        7182, 17, 4096, 1, operand_bits=32, b_k_contiguous=False, whole_rows=whole_rows
    )
    found = heuristics.default_config(problem, HOPPER)
    assert (found.block_m, found.block_n, found.num_warps) == tile_shapes.NARROW_F32_TILE
    short = heuristics.default_config(dataclasses.replace(problem, k=64), HOPPER)
    assert (short.block_m, short.num_warps) != (found.block_m, found.num_warps)
    lone = heuristics.default_config(dataclasses.replace(problem, m=500), HOPPER)
    assert (lone.block_m, lone.num_warps) != (found.block_m, found.num_warps)


def test_tiles_of_too_few_rows_are_passed_over(chosen):
    few = (16, 4096, 4096, 1), MatmulConfig(16, 32, 256, 4, 3)
    entries = few, ((512, 4096, 4096, 1), NARROW)
    assert chosen((64, 4096, 4096, 1), *entries).block_m == 16
    assert chosen((80, 4096, 4096, 1), *entries) == NARROW


@pytest.mark.parametrize(
    "large",
    [MatmulConfig(128, 128, 64, 4, 3), MatmulConfig(64, 64, 128, 4, 6)],
    ids=["registers", "shared memory"],
)
def test_several_accumulators_need_room(chosen, large):
    entries = ((256, 4096, 4096, 1), large), ((64, 4096, 4096, 1), NARROW)
    assert chosen((256, 4096, 4096, 1), *entries) == large
    assert chosen((256, 4096, 4096, 1), *entries, accumulators=2) == NARROW


def test_quantized_weights_have_their_own_tiles():
    problem = MatmulProblem(128, 14336, 4096, 1, prologue=True, weight_bits=8)
    assert choose_config(problem, HOPPER).weight_streaming


@pytest.mark.parametrize(
    ("m", "tile"),
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
def test_tiles_by_m(m, tile):
    """With the built-in measurements each fills nearly all of 132 SMs, and so does the default."""
    problem = MatmulProblem(bucket_m(m, streamed=False), 4096, 4096, 1)
    found = choose_config(problem, HOPPER)
    assert (found.block_m, found.block_n) == tile
    assert -(-m // found.block_m) * (4096 // found.block_n) >= 128
    assert cost_model.num_ctas(problem, heuristics.default_config(problem, HOPPER)) >= 128


@pytest.mark.parametrize(("m", "counts"), [(1, 1), (16, 16), (17, 32), (1000, 1024)])
def test_m_counts_as_a_power_of_two(m, counts):
    assert bucket_m(m, streamed=False) == counts
    assert bucket_m(1025, streamed=False) == 1025


PROBLEMS = [
    MatmulProblem(1, 4096, 4096, 1),
    MatmulProblem(1, 4096, 4096, 1, b_k_contiguous=False),
    MatmulProblem(1, 64, 70, 1, prologue=True, weight_bits=4),
    MatmulProblem(16, 4096, 14336, 1),
    MatmulProblem(16, 1024, 64, 1, prologue=True),
    MatmulProblem(16, 14336, 4096, 1, accumulators=2),
    MatmulProblem(64, 4096, 4096, 1),
    MatmulProblem(128, 64, 64, 1, operand_bits=8),
    MatmulProblem(512, 512, 64, 64),
    MatmulProblem(1024, 14336, 4096, 1, accumulators=2),
    MatmulProblem(512, 4096, 4096, 1, accumulators=3),
    MatmulProblem(4096, 4096, 4096, 1),
    MatmulProblem(8192, 28672, 8192, 1, b_k_contiguous=False),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_defaults_fit_the_device(problem, device):
    """Accumulators fit registers, stages fit shared memory, and dimensions are powers of two."""
    target = targets.parse(device)
    found = MATMUL.default_config(problem, target)
    for size in (found.block_m, found.block_n, found.block_k, found.num_warps):
        assert size & (size - 1) == 0
    assert heuristics.has_room(found, problem, target)
    tensor_cores = found.block_m > 1 and not found.weight_streaming
    assert not tensor_cores or min(found.block_m, found.block_n, found.block_k) >= 16
    configs = MATMUL.configs(problem, target)
    assert configs[0] == found
    assert len({*configs}) == len(configs) < 100


@pytest.mark.parametrize(("m", "streams"), [(1, True), (128, True), (129, False)])
def test_weights_of_few_rows_are_streamed_by_default(m, streams):
    """Where the region allows it; else they are dequantized in the loop."""
    problem = MatmulProblem(m, 50, 2**20, 1, prologue=True, weight_bits=4)
    assert choose_config(problem, HOPPER).weight_streaming == streams
    assert not choose_config(problem, HOPPER, lambda c: not c.weight_streaming).weight_streaming


def test_default_of_an_unknown_device():
    """Without the resources of the GPU the tiles are those of a small one."""
    target = dataclasses.replace(HOPPER, gpu=None)
    found = MATMUL.default_config(MatmulProblem(4096, 4096, 4096, 1), target)
    loaded = (found.block_m + found.block_n) * found.block_k * 2
    assert found.num_stages * loaded <= 48 * 1024


@needs_triton
@pytest.mark.parametrize(
    ("sizes", "persistent"), [((128, 14336, 4096), False), ((6000, 3072, 768), True)]
)
def test_object_code_with_measured_configurations(sizes, persistent):
    with ir.Context():
        found = plan(linear(sizes), None)
        assert ("matmul_sm90" in found.program.source) == persistent
        kernel = triton_compiler.build(found.program, "sm_90")
    assert b"wgmma" in kernel.code
    assert kernel.workgroup_memory <= (HOPPER.shared_memory or 0)


@pytest.mark.parametrize(
    ("n", "function", "wide"),
    [
        (1024, "math.erf", True),
        (1024, "arith.negf", False),  # one tensor of the result's size, and no function
        (929, "arith.negf", True),  # whose rows are not aligned
    ],
)
def test_wide_epilogues_have_tiles_of_half_the_accumulators(n, function, wide):
    sizes = (4096, n, 784)
    with ir.Context():
        found = plan(linear(sizes, function=function), None)
        (accumulator,) = re.findall(r"784, (\d+), (\d+), 64, tl.float32", found.program.source)
    each = int(accumulator[0]) * int(accumulator[1]) // (32 * found.program.num_warps)
    assert each == (64 if wide else 128)


@pytest.mark.parametrize(("k", "each"), [(784, 64), (8192, 128)])
def test_an_epilogue_behind_a_long_k_may_spill(k, each):
    with ir.Context():
        found = plan(linear((4096, 1024, k), function="math.erf"), None)
        (tile,) = re.findall(rf"{k}, (\d+), (\d+), 64, tl.float32", found.program.source)
    assert int(tile[0]) * int(tile[1]) // (32 * found.program.num_warps) == each


@pytest.mark.parametrize(
    ("changes", "tile"),
    [
        ({}, (64, 16, 128, 1)),
        ({"n": 24, "k": 16}, (64, 32, 16, 1)),
        ({"n": 33}, None),
        ({"k": 129}, None),
        ({"m": 4096}, None),
        ({"operand_bits": 32}, None),
    ],
    ids=str,
)
def test_few_columns_of_a_short_k_are_one_block(changes, tile):
    thin = MatmulProblem(130368, 8, 72, 1, b_k_contiguous=False)
    found = MATMUL.default_config(dataclasses.replace(thin, **changes), HOPPER)
    shape = (found.block_m, found.block_n, found.block_k, found.num_stages)
    assert (shape == tile) if tile else (found.num_stages > 1)


@pytest.mark.parametrize(("n", "stages"), [(4456, 3), (4200, 4), (9000, 4)])
def test_three_ctas_share_an_sm_where_they_are_all(n, stages):
    """Of 280 CTAs of 64 by 128; 264, two for each SM, and more than three have four stages."""
    problem = MatmulProblem(64, n, 1280, 8, b_k_contiguous=False)
    found = MATMUL.default_config(problem, HOPPER)
    assert (found.block_m, found.block_n, found.num_stages) == (64, 128, stages)


def test_a_measured_tile_that_leaves_a_wide_epilogue_too_few_registers_is_passed_over(chosen):
    large = MatmulConfig(128, 256, 64, 8, 3)
    target = dataclasses.replace(
        HOPPER,
        measured=(
            MeasuredConfig(
                "matmul", MatmulProblem(4096, 4096, 4096, 1).to_dict(), large.to_dict(), 1.0
            ),
        ),
    )
    problem = MatmulProblem(4096, 4096, 4096, 1)
    exact = dataclasses.replace(problem, wide_epilogue=True)
    assert choose_config(problem, target) == large
    assert choose_config(problem, target, exact=exact) != large


@pytest.mark.parametrize(
    ("n", "k", "bits", "loops"),
    [
        (4096, 14336, 16, True),
        (14336, 4096, 16, False),  # two blocks, unrolled
        (4096, 2048, 16, False),
        (4096, 3000, 16, True),
        (50000, 1000, 16, False),  # a part of a block
        (1024, 16384, 16, False),  # too few CTAs of that tile
        (4096, 14336, 32, True),
        (4096, 2048, 32, False),
    ],
)
def test_gemvs_of_more_than_two_blocks_have_lighter_ctas(n, k, bits, loops):
    problem = MatmulProblem(m=1, n=n, k=k, batch=1, operand_bits=bits)
    config = heuristics.default_config(problem, HOPPER)
    assert config.block_m == 1
    assert (config == few_rows.GEMV_LOOP) == loops
    assert config.block_k * bits <= few_rows.GEMV_ROW_BYTES * 8


@pytest.mark.parametrize(
    ("sizes", "splits"),
    [((512, 512, 1200), 4), ((300, 700, 1500), 4), ((200, 1000, 900), 1)],
)
def test_f32_is_split_where_tiles_leave_sms_idle(sizes, splits):
    """K is 1024 or longer: parts of 900 took longer."""
    problem = MatmulProblem(*sizes, 1, operand_bits=32, b_k_contiguous=False)
    assert heuristics.default_config(problem, HOPPER).k_splits == splits
