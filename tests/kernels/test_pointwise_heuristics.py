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


def test_tiles_shrink_to_one_load_of_one_warp():
    assert heuristics.default_config(PointwiseProblem(1 << 26), TARGET) == PointwiseConfig(
        block_rows=2, block_columns=1024, num_warps=4
    )
    assert heuristics.default_config(PointwiseProblem(4096), TARGET) == PointwiseConfig(
        block_rows=1, block_columns=256, num_warps=1
    )


def test_a_device_of_few_sms_has_larger_tiles():
    few = dataclasses.replace(TARGET, gpu=dataclasses.replace(TARGET.gpu, num_sms=4))
    problem = PointwiseProblem(1 << 14)
    assert ctas(problem, few) < ctas(problem)


def test_pooling_tiles_shrink_with_the_result():
    large = pooling_heuristics.default_config(PoolingProblem(1 << 20, 64, "3x3"), TARGET)
    small = pooling_heuristics.default_config(PoolingProblem(1 << 11, 64, "3x3"), TARGET)
    assert (large.tile_elements, large.num_warps) == (2048, 4)
    assert (small.tile_elements, small.num_warps) == (512, 2)
