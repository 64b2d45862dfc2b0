"""Persistent kernels of convolutions in Gluon: which ones can run, and their addresses."""

import dataclasses
import itertools
import re
import types

import numpy as np
import pytest

from helpers.conv_text import Array, Conv, arrays_of, conv_text, plan_of, reference
from helpers.kernel_runner import close, needs_triton
from mlirfuse import targets
from mlirfuse.core import NoMatch
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.convolution.family import CONVOLUTION
from mlirfuse.kernels.convolution.problem import ConvolutionConfig, ConvolutionProblem
from mlirfuse.kernels.matmul.persistent_sm90 import BLOCK_K
from mlirfuse.kernels.plan import Extent

HOPPER = targets.parse("cuda:sm_90")
PING_PONG = ConvolutionConfig(64, 64, 64, 4, 8, consumer_warpgroups=3, ping_pong=True)
COOPERATIVE = ConvolutionConfig(192, 64, 64, 4, 6, consumer_warpgroups=3)
CASE = Conv(2, 9, 7, 64, 64, low=1, high=1, filter="fijc")

pytestmark = needs_triton


def plan(case, config=PING_PONG, target=HOPPER, text=None):
    """The plan of a convolution's kernel, or the refusal."""
    return plan_of(text or conv_text(case), config, target)


def functions(source):
    """The functions `row_start` and `block_start` of a kernel's source, for arrays."""
    text = source[source.index("@gluon.jit\ndef row_start") : source.index("@gluon.jit\ndef conv")]
    gluon = types.SimpleNamespace(static_range=range, int32=np.int32)
    names = {"gl": gluon}
    exec(text.replace("@gluon.jit\n", ""), names)
    return names["row_start"], names["block_start"]


def accumulate(case, source, image, weight):
    """The accumulators over all blocks of K, addressed by the kernel's own functions."""
    row_start, block_start = functions(source)
    pixels = np.arange(case.batch * np.prod(case.out_size()))[:, None].view(Array)
    start, valid_taps = row_start(pixels)
    offs_k = np.arange(BLOCK_K)
    accumulators = np.zeros((len(pixels), len(weight)))
    masked = False
    for index in range(len(weight[0]) // BLOCK_K):
        offset, tap = block_start(index)
        offsets = np.asarray(start) + offset + offs_k
        valid = np.broadcast_to((np.asarray(valid_taps) >> tap) & 1, offsets.shape) != 0
        if not isinstance(valid_taps, Array):
            valid = np.full(offsets.shape, True)
        masked = masked or not valid.all()
        assert (offsets[valid] >= 0).all()
        a = np.where(valid, image[np.where(valid, offsets, 0)], 0)
        accumulators += a @ weight[:, index * BLOCK_K + offs_k].T
    assert masked == (case.low + case.high > 0)
    return accumulators


@pytest.mark.parametrize(
    "case",
    [
        CASE,
        dataclasses.replace(CASE, in_channels=128, stride=2, low=1, high=2),
        dataclasses.replace(CASE, taps=(3, 2), dilation=2, low=2, high=2),
        dataclasses.replace(CASE, taps=(2, 3)),
        dataclasses.replace(CASE, taps=(3, 2), filter="fjic"),
        Conv(3, 5, 5, 128, 64, taps=(1, 1), filter="fc"),
        Conv(2, 9, 9, 64, 64, taps=(1, 1), stride=2, filter="fc"),
    ],
    ids=lambda c: f"{c.taps} {c.in_channels} stride {c.stride} dilation {c.dilation}",
)
def test_addresses(case):
    """Each row of A starts at the first tap of its pixel; taps in the padding are not loaded."""
    source = plan(case).program.source
    image, weight, mean, var, residual = arrays_of(case)
    accumulators = accumulate(
        case,
        source,
        image.astype(np.float64).ravel(),
        weight.reshape(case.out_channels, -1).astype(np.float64),
    )
    shape = (case.batch, *case.out_size(), case.out_channels)
    found = (accumulators.reshape(shape) - mean) / np.sqrt(
        var.astype(np.float64) + 0.001
    ) + residual
    close(np.maximum(found, 0), reference(case, image, weight, mean, var, residual), "f16")


def spec_of(plan):
    """The keyword arguments of the specification that the device function is passed."""
    call = re.search(r"matmul_sm90\.make_spec\((.*)\)", plan.program.source)
    return eval(f"dict({call[1]})")


def test_the_source():
    found = plan(CASE)
    pixels = 2 * 9 * 7
    assert spec_of(found) == {
        "m": pixels,
        "n": 64,
        "k": 576,
        "b_stride": 576,
        "masked": True,
        "parts": 1,
        "accumulators": 1,
        "block_m": 64,
        "block_n": 64,
        "num_stages": 8,
        "consumer_warpgroups": 3,
        "ping_pong": True,
        "group_m": 8,
        "num_ctas": 2,
        "epilogue_n": 64,
    }
    assert f"mask_m = offs_m < {pixels}" in found.program.source
    assert found.grid == (Extent(2), Extent(1), Extent(1))
    unmasked = plan(dataclasses.replace(CASE, low=0, high=0, height=66, width=66))
    assert (spec_of(unmasked)["m"], spec_of(unmasked)["masked"]) == (8192, False)
    assert "mask_m" not in unmasked.program.source
    assert "valid_taps" not in unmasked.program.source


@pytest.mark.parametrize(
    "case",
    [
        dataclasses.replace(CASE, image="bchw"),
        dataclasses.replace(CASE, in_channels=96),
        dataclasses.replace(CASE, out_channels=96),
        dataclasses.replace(CASE, out_channels=16),
        dataclasses.replace(CASE, batch=None),
        dataclasses.replace(CASE, taps=(8, 4), low=4, high=4),
        dataclasses.replace(CASE, batch=32768, height=33, width=32),
    ],
    ids=str,
)
def test_convolutions_without_persistent_kernel(case):
    """A given configuration is refused, and never chosen."""
    assert isinstance(plan(case), NoMatch)
    assert "matmul_sm90" not in plan(case, None).program.source


def test_accumulators_that_start_from_a_tensor_are_not_persistent():
    text = conv_text(CASE)
    head, _, tail = text.partition("%s = linalg.fill ins(%zero : f32)")
    text = head.replace("%r: ", "%s: tensor<2x9x7x64xf32>, %r: ") + tail.partition("\n")[2]
    assert isinstance(plan(CASE, text=text), NoMatch)


def test_other_targets_have_no_persistent_kernel(monkeypatch):
    assert isinstance(plan(CASE, target=targets.parse("cuda:sm_80")), NoMatch)
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
    assert isinstance(plan(CASE), NoMatch)
    assert "matmul_sm90" not in plan(CASE, None).program.source


def test_measured_configurations():
    case = Conv(32, 14, 14, 256, 256, low=1, high=1, filter="fijc")
    spec = spec_of(plan(case, None))
    assert (spec["block_m"], spec["block_n"], spec["num_stages"]) == (128, 128, 6)
    assert (spec["consumer_warpgroups"], spec["ping_pong"], spec["num_ctas"]) == (2, False, 98)
    wide = dataclasses.replace(case, out_channels=320)
    assert "matmul_sm90" not in plan(wide, None).program.source
    square = dataclasses.replace(case, height=56, width=56, in_channels=64, out_channels=64)
    assert "matmul_sm90" in plan(square, None).program.source
    few = dataclasses.replace(
        case,
        height=224,
        width=224,
        in_channels=3,
        out_channels=64,
        taps=(7, 7),
        stride=2,
        low=3,
        high=3,
    )
    assert "tl.dot(" in plan(few, None).program.source


def test_the_problem_says_where_k_is_contiguous():
    """Without blocks of K the problem is that of other convolutions with channels last."""
    other = plan(dataclasses.replace(CASE, in_channels=96), None).problem
    assert (other.channels_last, other.k_contiguous) == (True, False)
    problem = plan(CASE).problem
    assert (problem.channels_last, problem.k_contiguous) == (True, True)


@pytest.mark.parametrize("order", ["ijcf", "ficj"])
def test_other_filters_have_no_persistent_kernel(order):
    """`filter_layout_rewrite` lays them out before this kernel is planned."""
    found = plan(dataclasses.replace(CASE, filter=order))
    assert found.detail.endswith("input channels are not in contiguous blocks of 64")


def persistent_shapes(problem):
    return {
        (c.block_m, c.block_n, c.consumer_warpgroups, c.ping_pong)
        for c in CONVOLUTION.configs(problem, HOPPER)
        if c.consumer_warpgroups
    }


def test_configurations_to_measure():
    problem = ConvolutionProblem(6272, 256, 256, 9)
    shapes = persistent_shapes(problem)
    assert {(64, 256, 2, 1), (128, 128, 2, 0), (192, 128, 3, 0)} <= shapes
    assert (128, 64, 2, 1) in persistent_shapes(dataclasses.replace(problem, out_channels=64))
    plain = CONVOLUTION.configs(dataclasses.replace(problem, k_contiguous=False), HOPPER)
    assert not any(c.consumer_warpgroups for c in plain)


@pytest.mark.parametrize(("kind", "config"), [("f16", PING_PONG), ("bf16", COOPERATIVE)])
def test_it_builds(kind, config):
    found = plan(CASE, config, text=conv_text(CASE, kind))
    kernel = triton_compiler.build(found.program, "sm_90")
    text = kernel.code.decode()
    loads = [line for line in text.splitlines() if "cp.async.cg" in line]
    # A load of no bytes leaves zeros; the filter is always loaded.
    assert any(line.rstrip().endswith("0x10, 0x10;") for line in loads)
    assert any("0x10, %r" in line for line in loads)
    assert kernel.workgroup_size == (512, 1, 1)
    assert kernel.workgroup_memory <= HOPPER.shared_memory
    letter = "f16" if kind == "f16" else "bf16"
    assert f"wgmma.mma_async.sync.aligned.m64n64k16.f32.{letter}" in text


def test_bits_of_taps():
    """Each tap has a bit of its own."""
    row_start, block_start = functions(plan(dataclasses.replace(CASE, taps=(3, 2))).program.source)
    taps = [block_start(index)[1] for index in range(6)]
    assert taps == list(range(6))
    _, valid_taps = row_start(np.zeros((1, 1), np.int32).view(Array))
    valid = [i >= 1 and j >= 1 for i, j in itertools.product(range(3), range(2))]
    assert [bool(valid_taps[0, 0] >> n & 1) for n in range(6)] == valid
