"""Computed configurations of convolutions: they fill the device and fit in shared memory."""

import dataclasses
import importlib.util

import pytest

from helpers.conv_text import Conv, conv_text, plan_of
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.convolution.family import CONVOLUTION
from mlirfuse.kernels.convolution.problem import ConvolutionConfig, ConvolutionProblem

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)
TARGETS = ("cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_90", "rocm:gfx90a", "rocm:gfx942")
PROBLEM = ConvolutionProblem(100352, 128, 128, 9, k_contiguous=False)


def default(problem, target="cuda:sm_90"):
    return CONVOLUTION.default_config(problem, targets.parse(target))


@pytest.mark.parametrize("name", TARGETS)
def test_larger_tiles_need_more_pixels(name):
    """The largest tile whose CTAs occupy three quarters of the SMs."""
    sms = gpu_of(targets.parse(name)).num_sms
    for tile, pixels in (((128, 128), 128 * sms), ((128, 64), 64 * sms), ((64, 64), 64)):
        config = default(dataclasses.replace(PROBLEM, pixels=pixels), name)
        assert (config.block_m, config.block_n) == tile


@pytest.mark.parametrize("out_channels", [8, 64, 128])
@pytest.mark.parametrize("name", TARGETS)
def test_tiles_have_no_more_columns_than_output_channels(name, out_channels):
    config = default(dataclasses.replace(PROBLEM, out_channels=out_channels), name)
    assert config.block_n == max(16, out_channels)


@pytest.mark.parametrize(
    ("in_channels", "taps", "block_k"),
    [(64, 9, 64), (96, 9, 32), (80, 1, 32), (40, 9, 64), (256, 1, 64), (3, 49, 32), (4, 16, 64)],
)
def test_blocks_of_k_have_few_masked_elements(in_channels, taps, block_k):
    """Blocks divide the channels of a tap, or, of few channels, those of all taps."""
    problem = dataclasses.replace(PROBLEM, in_channels=in_channels, taps=taps)
    assert default(problem).block_k == block_k


def test_default_of_the_first_convolution_of_resnet_is_the_measured_one():
    problem = ConvolutionProblem(401408, 64, 3, 49, k_contiguous=False)
    assert default(problem) == ConvolutionConfig(128, 64, 32, 4, 4)


@needs_triton
@pytest.mark.parametrize("name", ["cuda:sm_80", "cuda:sm_90", "rocm:gfx942"])
def test_defaults_fit_in_shared_memory(name):
    target = targets.parse(name)
    case = Conv(32, 56, 56, 64, 64, low=1, high=1)
    config = default(dataclasses.replace(PROBLEM, out_channels=64), name)
    plan = plan_of(conv_text(case), config, target)
    kernel = triton_compiler.build(plan.program, target.arch)
    assert kernel.workgroup_memory <= target.shared_memory


@pytest.mark.parametrize("name", TARGETS)
def test_configurations_to_measure_are_distinct(name):
    target = targets.parse(name)
    for pixels in (49, 6272, 401408):
        for channels in (3, 64, 512):
            problem = dataclasses.replace(PROBLEM, pixels=pixels, in_channels=channels)
            found = CONVOLUTION.configs(problem, target)
            assert found
            assert len(set(found)) == len(found)
