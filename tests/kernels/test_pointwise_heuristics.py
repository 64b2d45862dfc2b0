"""Computed configurations of pointwise and pooling kernels: from the size and the device."""

import dataclasses

import pytest

from helpers.kernel_runner import TARGET
from mlirfuse.kernels.pointwise import heuristics
from mlirfuse.kernels.pointwise.problem import PointwiseConfig, PointwiseProblem
from mlirfuse.kernels.pooling import heuristics as pooling_heuristics
from mlirfuse.kernels.pooling.problem import PoolingProblem


def ctas(problem, target=TARGET):
    config = heuristics.default_config(problem, target)
    return problem.elements // (config.block_rows * config.block_columns)


@pytest.mark.parametrize("trait", ["arithmetic", "transposed"])
def test_each_sm_has_a_tile_where_there_are_enough_elements(trait):
    sms = TARGET.gpu.num_sms
    for elements in (sms * 1024, sms * 2048, sms * 4096, sms * 8192, 1 << 26):
        assert ctas(PointwiseProblem(elements, trait)) >= sms


def test_tiles_have_1024_elements_and_half_of_them_where_there_are_few():
    assert heuristics.default_config(PointwiseProblem(1 << 26), TARGET) == PointwiseConfig(
        block_rows=1, block_columns=1024, num_warps=4
    )
    assert heuristics.default_config(PointwiseProblem(4096), TARGET) == PointwiseConfig(
        block_rows=1, block_columns=512, num_warps=8
    )


@pytest.mark.parametrize("bits", [32, 16, 8])
def test_a_thread_has_16_bytes_where_there_are_enough_elements(bits):
    gpu = TARGET.gpu
    threads = gpu.num_sms * gpu.max_threads_per_sm
    for elements in (threads // 4, threads, 2 * threads, 4 * threads, 1 << 26):
        problem = PointwiseProblem(elements, result_bits=bits)
        config = heuristics.default_config(problem, TARGET)
        each = config.block_columns // (gpu.warp_size * config.num_warps)
        assert each == (8 if bits < 32 and elements >= 2 * threads else 4)


@pytest.mark.parametrize(
    ("wide", "bits", "tile"), [(True, 16, 256), (False, 16, 1024), (True, 32, 512)]
)
def test_gathers_at_wide_indices_have_few_elements_in_a_thread(wide, bits, tile):
    problem = PointwiseProblem(1 << 24, "gathered", bits, wide_indices=wide)
    assert heuristics.default_config(problem, TARGET).block_columns == tile


@pytest.mark.parametrize(
    ("trait", "bits", "each", "warps"),
    [
        ("functions", 32, 8, 2),
        ("error function", 32, 8, 2),
        ("gathered", 32, 8, 2),
        ("functions", 16, 16, 2),
        ("permuted", 16, 8, 4),
        ("swapped", 32, 8, 4),
        ("sliced", 32, 4, 8),
    ],
)
def test_threads_have_more_elements_of_functions_and_scattered_loads(trait, bits, each, warps):
    gpu = TARGET.gpu
    filled = gpu.num_sms * gpu.max_threads_per_sm * 4
    config = heuristics.default_config(PointwiseProblem(filled, trait, result_bits=bits), TARGET)
    assert config.num_warps == warps
    assert config.block_columns == each * warps * gpu.warp_size
    few = heuristics.default_config(PointwiseProblem(filled - 1, trait, result_bits=bits), TARGET)
    assert few.block_columns <= 4 * few.num_warps * gpu.warp_size * (2 if bits == 16 else 1)


@pytest.mark.parametrize("bits", [16, 32])
def test_few_gathered_elements_have_small_ctas(bits):
    few = heuristics.default_config(PointwiseProblem(393216, "gathered", result_bits=bits), TARGET)
    assert (few.block_columns, few.num_warps) == (512, 4)


def test_a_device_of_few_sms_has_larger_tiles():
    few = dataclasses.replace(TARGET, gpu=dataclasses.replace(TARGET.gpu, num_sms=4))
    problem = PointwiseProblem(1 << 14)
    assert ctas(problem, few) < ctas(problem)


def test_pooling_tiles_shrink_with_the_result():
    large = pooling_heuristics.default_config(PoolingProblem(1 << 20, 64, "3x3"), TARGET)
    small = pooling_heuristics.default_config(PoolingProblem(1 << 11, 64, "3x3"), TARGET)
    assert (large.tile_elements, large.num_warps) == (1024, 4)
    assert (small.tile_elements, small.num_warps) == (512, 8)


@pytest.mark.parametrize("pixels", [1 << 10, 1 << 13, 1 << 16, 1 << 19])
def test_threads_that_load_single_elements_are_many(pixels):
    """Every window of 5x5 is 25 loads one after the other."""
    problem = PoolingProblem(pixels, 32, "5x5", strided_columns=True)
    config = pooling_heuristics.default_config(problem, TARGET)
    gpu, elements = TARGET.gpu, pixels * 32
    each = config.tile_elements // (gpu.warp_size * config.num_warps)
    assert config.max_columns == 0
    assert each == 1 or 2 * elements >= gpu.num_sms * gpu.max_threads_per_sm * each
    assert elements // config.tile_elements >= min(gpu.num_sms // 2, elements // 512)


@pytest.mark.parametrize(
    ("bits", "gathers", "spread", "each", "warps"),
    [
        (16, 1, False, 8, 4),
        (16, 4, False, 8, 2),
        (16, 4, True, 4, 2),
        (16, 16, False, 4, 2),
        (32, 4, False, 8, 2),
        (32, 4, True, 4, 2),
        (32, 16, False, 4, 2),
    ],
)
def test_threads_have_fewer_elements_of_many_gathers(bits, gathers, spread, each, warps):
    problem = PointwiseProblem(1 << 24, "gathered", bits, gathers=gathers, spread=spread)
    config = heuristics.default_config(problem, TARGET)
    assert (config.num_warps, config.block_columns) == (warps, each * warps * 32)
