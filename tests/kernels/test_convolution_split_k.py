"""Convolutions whose CTAs split K, and 1x1 ones of groups, which are contractions."""

import dataclasses

import numpy as np
import pytest
from iree.compiler import ir

from helpers.conv_text import Conv, arrays_of, conv_text, plan_of, reference
from helpers.grouped_conv_text import Form, form_reference, form_text
from helpers.kernel_runner import TARGET, close, draw, needs_triton, run
from helpers.linalg_text import Function
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.convolution import family, heuristics, parallel_split_k
from mlirfuse.kernels.convolution.family import CONVOLUTION
from mlirfuse.kernels.convolution.problem import ConvolutionConfig, ConvolutionProblem

SPLIT = ConvolutionConfig(16, 16, 16, 4, 2, k_splits=4)


@needs_triton
@pytest.mark.parametrize(
    "case",
    [
        Conv(2, 9, 7, 24, 20, low=1, high=1),
        Conv(1, 12, 9, 17, 33, taps=(3, 2), stride=2, low=1, high=2),
        Conv(2, 8, 6, 6, 8, taps=(2, 2), stride=2),
        Conv(2, 9, 7, 24, 20, low=1, high=1, image="bchw", filter="fcij"),
        Conv(3, 5, 5, 70, 24, taps=(1, 1), filter="cf"),
    ],
    ids=lambda c: f"{c.image} {c.batch}x{c.in_channels} {c.taps}",
)
@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_ctas_split_k(interpreter, monkeypatch, case, kind):
    """Parts begin within a tap and end beyond the last one."""
    monkeypatch.setattr(family, "_choose", lambda *_: SPLIT)
    arrays = arrays_of(case, kind=kind)
    (found,) = run(interpreter, conv_text(case, kind), "convolution", arrays, [case.result(2)])
    close(found, reference(case, *arrays), kind)
    assert plan_of(conv_text(case, kind), SPLIT, TARGET).before is not None


@needs_triton
@pytest.mark.parametrize("last", [False, True])
def test_ctas_split_k_of_a_single_output(interpreter, monkeypatch, last):
    monkeypatch.setattr(family, "_choose", lambda *_: SPLIT)
    form = Form((5, 6), (3, 3), inner=40, batch=2, last=last)
    arrays = [
        draw(form.shape(form.image_axes, form.image), "f32", 1),
        draw(form.shape(form.filter_axes), "f32", 2, 1 / 20),
        draw([], "f32", 3),
    ]
    shapes = [form.shape(form.out_axes)]
    (found,) = run(interpreter, form_text(form, "f32"), "convolution", arrays, shapes)
    close(found, form_reference(form, *arrays), "f32")
    assert plan_of(form_text(form, "f32"), SPLIT, TARGET).before is not None


@pytest.mark.parametrize(
    "case",
    [Conv(None, 6, 5, 70, 20, high=1), Conv(1, 17, 14, 3, 24, taps=(7, 7), stride=2, low=3)],
    ids=["dynamic images", "pairs of taps"],
)
def test_others_are_not_split(case):
    assert plan_of(conv_text(case), SPLIT, TARGET).before is None


@needs_triton
@pytest.mark.parametrize(
    "form",
    [
        Form((7, 6), (4, 4), inner=20, outer=18, spread=2, low=2, high=2),
        Form((5, 6), (7, 7), inner=20, outer=18, batch=2, spread=2, low=3, high=3),
        Form((4, 5), (3, 3), inner=33, outer=20, batch=2, spread=3, low=1, high=2, last=True),
        Form((4, 5), (1, 1), inner=33, outer=20, spread=2, low=0, high=1),
    ],
    ids=["4x4", "7x7", "3x3, stride 3", "1x1"],
)
@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_ctas_split_k_of_residue_classes(interpreter, monkeypatch, form, kind):
    """Of transposed ones; some classes have fewer taps than parts, or none."""
    monkeypatch.setattr(family, "_choose", lambda *_: SPLIT)
    arrays = [
        draw(form.shape(form.image_axes, form.image), kind, 1),
        draw(form.shape(form.filter_axes), kind, 2, 1 / 20),
        draw(form.shape(form.bias_axes), "f32", 3),
    ]
    text = form_text(form, kind)
    (found,) = run(interpreter, text, "convolution", arrays, [form.shape(form.out_axes)])
    close(found, form_reference(form, *arrays), kind)
    assert plan_of(text, SPLIT, TARGET).before is not None


@pytest.mark.parametrize(
    ("problem", "splits"),
    [
        (ConvolutionProblem(128, 128, 256, 9, operand_bits=32), True),
        (ConvolutionProblem(256, 256, 160, 9), True),
        (ConvolutionProblem(128, 128, 16, 9), False),
        (ConvolutionProblem(100352, 128, 256, 9), False),
        (ConvolutionProblem(100352, 128, 256, 9, operand_bits=32), False),
    ],
    ids=str,
)
def test_few_tiles_with_a_long_k_are_split(problem, splits):
    assert (CONVOLUTION.default_config(problem, TARGET).k_splits > 1) == splits


def test_a_measured_tile_that_would_leave_the_device_idle_gives_way():
    measured, few = (ConvolutionProblem(pixels, 512, 512, 9) for pixels in (1568, 196))
    config = ConvolutionConfig(64, 64, 64, 4, 4)
    assert heuristics.keeps_busy(measured, config, measured, TARGET)
    assert not heuristics.keeps_busy(measured, config, few, TARGET)
    assert heuristics.keeps_busy(few, config, few, TARGET)


@needs_triton
def test_object_code():
    case = Conv(2, 16, 16, 256, 128, stride=2, low=1, high=1)
    found = plan_of(conv_text(case, "f32"), None, TARGET)
    assert found.before is not None
    assert parallel_split_k.PART in dict(found.before.program.arguments).values()
    for step in found.kernels():
        assert triton_compiler.build(step.program, "sm_90").workgroup_memory <= TARGET.shared_memory


@needs_triton
@pytest.mark.parametrize("first", [True, False], ids=["channels first", "channels last"])
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("copied", ["", "b"], ids=["filter in place", "filter copied"])
def test_pointwise_groups(interpreter, monkeypatch, first, splits, copied):
    """IREE makes a contraction of such a convolution: its batch is the second dimension."""
    config = ConvolutionConfig(16, 16, 16, 4, 2, k_splits=splits, aligned_copies=copied)
    monkeypatch.setattr(family, "_choose", lambda *_: config)
    sizes = (2, 3, 20, 5, 7, 37)  # images, groups, outputs, height, width, inputs
    images, weights = (0, 1, 5, 3, 4) if first else (0, 3, 4, 1, 5), (1, 2, 5)
    out = (0, 1, 2, 3, 4) if first else (0, 3, 4, 1, 2)
    f = Function("main", sizes)
    x, w = f.argument(images, "f32"), f.argument(weights, "f32")
    text = f.finish(f.contract(x, w, out, "f32"))
    arrays = [
        draw([sizes[n] for n in loops], "f32", n) for n, loops in ((0, images), (1, (1, 2, 5)))
    ]
    (found,) = run(interpreter, text, "convolution", arrays, [[sizes[n] for n in out]])
    names = ["".join("bgohwc"[n] for n in loops) for loops in (images, weights, out)]
    expected = np.einsum(f"{names[0]},{names[1]}->{names[2]}", *map(np.float64, arrays))
    close(found, expected, "f32")


NARROW = ConvolutionProblem(
    65536, 160, 373, 1, channels_last=False, k_contiguous=False, operand_bits=32, groups=2
)


@pytest.mark.parametrize(
    ("changes", "copied"),
    [
        ({"narrow_filter": True}, "b"),
        ({}, ""),
        ({"narrow_filter": True, "pixels": 64, "in_channels": 37}, ""),
        ({"narrow_filter": True, "operand_bits": 16}, "b"),
    ],
    ids=str,
)
def test_filters_of_narrow_rows_are_copied(changes, copied):
    problem = dataclasses.replace(NARROW, **changes)
    assert CONVOLUTION.default_config(problem, TARGET).aligned_copies == copied


NARROW_PIXELS = ConvolutionProblem(
    4608, 128, 21, 49, k_contiguous=False, narrow_filter=True, narrow_image=True
)


@pytest.mark.parametrize(
    ("changes", "copied"),
    [
        ({}, "ab"),
        ({"operand_bits": 32}, "ab"),
        ({"narrow_image": False}, "b"),
        ({"pixels": 64, "taps": 1}, ""),
    ],
    ids=str,
)
def test_images_of_narrow_pixels_are_copied(changes, copied):
    """Each pixel is loaded for 49 taps."""
    problem = dataclasses.replace(NARROW_PIXELS, **changes)
    assert CONVOLUTION.default_config(problem, TARGET).aligned_copies == copied


def test_measured_configurations_give_way_to_copies():
    with ir.Context():
        case = Conv(16, 56, 56, 37, 64, filter="fijc", low=1, high=1)
        first, *_ = plan_of(conv_text(case, "f16"), None, TARGET).kernels()
        assert len(first.scratch) == 2


def test_other_filters_are_not_copied():
    config = dataclasses.replace(SPLIT, k_splits=1, aligned_copies="b")
    for case in (
        Conv(2, 9, 7, 24, 20, filter="fijc"),
        Conv(2, 9, 7, 25, 20, filter="ijcf"),
        Conv(2, 9, 7, 5, 20, filter="fijc"),
    ):
        assert plan_of(conv_text(case), config, TARGET).before is None
    narrow = Conv(2, 9, 7, 25, 20, filter="fijc")
    assert plan_of(conv_text(narrow), config, TARGET).before is not None


@needs_triton
@pytest.mark.parametrize("copied", ["b", "a", "ab"])
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("moved", [{}, {"stride": 2}, {"dilation": 2}], ids=str)
def test_taps_of_copied_operands(interpreter, monkeypatch, splits, copied, moved):
    """Their channels, an odd number, have zeros behind them."""
    config = ConvolutionConfig(16, 16, 16, 4, 2, k_splits=splits, aligned_copies=copied)
    monkeypatch.setattr(family, "_choose", lambda *_: config)
    case = Conv(2, 9, 7, 25, 20, low=1, high=1, filter="fijc", **moved)
    with ir.Context():
        copies = plan_of(conv_text(case), config, TARGET).kernels()[0].scratch
    assert len(copies) == len(copied)
    arrays = arrays_of(case, kind="f16")
    (found,) = run(interpreter, conv_text(case), "convolution", arrays, [case.result(2)])
    close(found, reference(case, *arrays), "f16")


def test_batches_of_several_queries_have_a_kernel():
    """Query heads that share a head of keys: two loops of the queries alone, one of the keys."""
    f = Function("main", (2, 3, 4, 1, 65, 32))
    q, k = f.argument((0, 1, 2, 3, 5), "f32"), f.argument((0, 1, 4, 5), "f32")
    text = f.finish(f.contract(q, k, (0, 1, 2, 3, 4), "f32"))
    with ir.Context():
        assert plan_of(text, None, TARGET).program.entry == "conv_kernel"
