"""Kernels in the vector dialect agree with float64 and with IREE, for several instruction sets."""

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.grouped_conv_text import Form
from helpers.harness import Batch
from helpers.spread import Runs
from helpers.vector_cases import (
    EPILOGUES,
    PASSES,
    activated,
    channels_between,
    convolution,
    gated_by_transposed,
    matmul,
    pooling,
    reordered,
    reshaped_constant,
    scaled_image,
    strided,
    two_results,
)
from mlirfuse import targets

TARGETS = ("cpu:host", "cpu:x86-64-v3", "cpu:x86-64")
"""This machine, AVX2, and SSE2: vectors of 16 to 64 bytes, with and without multiply-adds."""


def last(image, taps, inner, outer, **more):
    """A dense convolution with channels last."""
    return Form(image, taps, inner=inner, outer=outer, last=True, **more)


FORMS = {
    "line": last((19,), (3,), 7, 16),
    "square": last((9, 11), (3, 3), 5, 24),
    "cube": last((5, 6, 7), (3, 2, 3), 3, 8, batch=1),
    "strides": last((11, 13), (3, 3), 6, 16, stride=2),
    "dilation": last((11, 12), (3, 3), 4, 16, dilation=2, low=2, high=2),
    "dilation_and_wide_padding": last((6, 5), (3, 3), 4, 16, dilation=3, low=4, high=3),
    "uneven_padding": last((8, 9), (3, 3), 4, 16, low=0, high=2),
    "no_padding": last((8, 40), (3, 3), 4, 16, low=0, high=0),
    "odd_channels": last((8, 9), (3, 3), 5, 37),
    "one_channel": last((8, 9), (3, 3), 1, 1),
    "image_of_one_channel": last((9, 11), (5, 3), None, 24, low=2, high=1),
    "image_of_one_channel_first": Form((9, 11), (3, 3), outer=13, stride=2),
    "one_output_channel": last((9, 11), (3, 3), 20, None),
    "one_output_channel_first": Form((9, 12), (3, 2), inner=5, stride=2),
    "one_output_channel_spread": last((7, 6), (4, 4), 20, None, spread=2, low=2, high=2),
    "groups_of_one_channel": Form((8, 9), (3, 3), groups=3, outer=10, last=True),
    "seven_taps": last((16, 15), (7, 7), 3, 16, stride=2, low=3, high=3, batch=1),
    "many_channels": last((4, 5), (3, 3), 640, 16, batch=1),
    "groups_last": Form((8, 9), (3, 3), groups=3, inner=4, outer=10, last=True),
    "groups_first": Form((8, 9), (3, 3), groups=2, inner=4, outer=6),
    "groups_first_from_bias": Form((8, 9), (3, 3), groups=2, inner=4, outer=21, starts=True),
    "first_from_bias": Form((4, 5, 6), (3, 3, 3), inner=3, outer=8, batch=1, starts=True),
    "depthwise": Form((9, 11), (3, 3), groups=21, last=True),
    "depthwise_strides": Form((9, 40), (5, 3), groups=32, last=True, stride=2, low=2, high=1),
    "depthwise_dilation": Form((12,), (3,), groups=8, last=True, dilation=2, low=2, high=2),
    "spread": last((7, 6), (4, 4), 20, 24, spread=2, low=2, high=2),
    "spread_uneven": last((7, 21), (3, 5), 5, 37, spread=2, low=1, high=2),
    "spread_by_taps": last((5, 40), (2, 2), 16, 16, spread=2, low=1, high=1, batch=1),
    "spread_beyond_taps": last((5, 6), (2, 2), 4, 16, spread=3, low=1, high=4),
    "spread_wide_padding": last((4, 5), (3, 3), 4, 16, spread=4, low=9, high=7),
    "spread_many_channels": last((4, 5), (3, 3), 640, 16, spread=2, low=2, high=2, batch=1),
    "spread_dilation": last((9, 9), (4, 4), 6, 16, spread=3, dilation=2, low=5, high=6),
    "spread_by_dilation": last((9, 7), (5, 5), 3, 16, spread=4, dilation=6, low=7, high=9),
    "spread_cube": last((3, 4, 5), (3, 2, 4), 6, 8, spread=2, low=3, high=2),
    "spread_line": last((9,), (4,), 7, 16, spread=3, low=3, high=4),
    "spread_groups": Form(
        (5, 5), (4, 4), groups=3, inner=8, outer=5, spread=2, low=2, high=2, last=True
    ),
    "spread_depthwise": Form((7, 6), (3, 5), groups=20, spread=3, low=2, high=3, last=True),
    "first": Form((9, 10), (3, 3), inner=5, outer=13),
    "first_strides": Form((9, 10), (3, 3), inner=5, outer=16, stride=2),
    "first_cube": Form((4, 5, 6), (3, 3, 3), inner=3, outer=8, batch=1),
    # Rows whose parts are workgroups of their own.
    "long_line": last((1201,), (5,), 32, 40, low=2, high=2),
    "long_line_first": Form((1201,), (5,), inner=32, outer=40, low=2, high=2, batch=1),
    "long_line_spread": last((701,), (4,), 32, 40, spread=2, low=2, high=2),
    "long_line_strides": last((2503,), (7,), 16, 24, stride=2, dilation=3, batch=1),
    "long_depthwise": Form((9001,), (7,), groups=40, last=True, low=3, high=3, batch=1),
}


def cases():
    """Every form once with a computed filter, and some with a constant one or narrow elements."""
    # Loops of one iteration are gone before the passes: a convolution of one channel is none.
    found = [
        convolution(name, form, fires={} if name == "one_channel" else None)
        for name, form in FORMS.items()
    ]
    found += [
        convolution(f"{name}_constant", FORMS[name], constant=True)
        for name in (
            *("square", "odd_channels", "groups_last", "depthwise", "first", "many_channels"),
            *("spread", "spread_by_taps"),
        )
    ]
    found += [
        convolution(f"{name}_{dtype}", FORMS[name], dtype)
        for name in (
            *("square", "odd_channels", "depthwise", "groups_last", "first", "spread"),
            "image_of_one_channel",
        )
        for dtype in ("f16", "bf16")
    ]
    found += [
        matmul("m_1", 1, 40, 33, constant=True),
        matmul("m_prime", 61, 47, 29, constant=True),
        matmul("m_large", 130, 64, 48),
        matmul("n_1", 64, 1, 32, constant=True, fires={}),
        matmul("k_1", 64, 32, 1, constant=True, fires={}),
        # A prime number of vectors, the last one ragged: the last tile has vectors beyond the end.
        matmul("n_of_prime_vectors", 45, 16 * 13 - 1, 30, constant=True),
        matmul("k_large", 65, 16, 5000, constant=True),
        matmul("computed_few_rows", 8, 40, 33),
        # Filters with contiguous channels, which are transposed on the stack.
        matmul("computed_one_row_transposed", 1, 40, 33, b="nk"),
        matmul("transposed_two_rows", 2, 40, 33, b="nk"),
        matmul("transposed_even_few_rows", 7, 64, 32, b="nk", fires={}),
        matmul("transposed_even", 8, 64, 32, b="nk"),
        matmul("transposed_columns_beyond", 9, 83, 5, b="nk"),
        matmul("transposed_in_batches", 12, 21, 50, a="gmk", b="gnk", c="gmn", batch=5),
        matmul("transposed_between", 6, 19, 40, a="mgk", b="ngk", c="gmn", batch=3),
        matmul("transposed_long", 20, 130, 700, b="nk"),
        matmul("transposed_long_and_many_rows", 70, 130, 700, b="nk"),
        matmul("transposed_f16", 21, 50, 45, "f16", b="nk"),
        matmul("transposed_bf16", 21, 50, 45, "bf16", b="nk"),
        matmul("transposed_bf16_long", 20, 130, 1401, "bf16", b="nk"),
        matmul("transposed_bf16_between", 6, 19, 40, "bf16", a="mgk", b="ngk", c="gmn", batch=3),
        matmul("transposed_mixed", 21, 50, 45, "bf16", b="nk", other="f32"),
        matmul("transposed_to_columns", 21, 50, 45, b="nk", c="nm"),
        *(
            matmul(
                f"{one}_times_{other}{'_constant' * c}", 21, 50, 45, one, other=other, constant=c
            )
            for one, other in (("f16", "f32"), ("f32", "f16"), ("bf16", "f32"), ("f32", "bf16"))
            for c in (False, True)
        ),
        matmul("transposed_b", 37, 40, 33, b="nk", constant=True),
        matmul("transposed_a", 37, 40, 33, a="km", constant=True),
        matmul("transposed_both", 37, 41, 33, a="km", b="nk"),
        matmul("transposed_result", 37, 41, 33, c="nm"),
        *(matmul(f"product_{t}", 37, 41, 33, t) for t in ("f16", "bf16")),
        *(matmul(f"product_transposed_{t}", 37, 41, 33, t, a="km") for t in ("f16", "bf16")),
    ]
    found += [
        pooling("maximum", "arith.maximumf", float("-inf")),
        pooling("minimum", "arith.minimumf", float("inf"), channels=32, stride=1, fires={}),
        pooling("total", "arith.addf", 0.0, pad=(0, 2), channels=3),
        pooling("maximum_f16", "arith.maximumf", float("-inf"), dtype="f16"),
        pooling("maximum_bf16", "arith.maximumf", float("-inf"), channels=32, dtype="bf16"),
        pooling("total_f16", "arith.addf", 0.0, channels=19, dtype="f16"),
        pooling("total_overlapping", "arith.addf", 0.0, side=5, stride=1, pad=(2, 2), size=20),
    ]
    found += [activated(name, name) for name in EPILOGUES]
    found += [two_results("two_results"), strided("strided"), channels_between("channels_between")]
    found += [
        gated_by_transposed("gated_by_transposed"),
        gated_by_transposed("gated_by_transposed_f16", "f16"),
        scaled_image("scaled_image", 21),
        scaled_image("scaled_image_channels_first", 21, (0, 1, 2)),
        reshaped_constant("reshaped_constant", 37, 45),
        reordered("reordered", residual=False),
        reordered("reordered_residual", residual=True),
    ]
    return {one.name: one for one in found}


CASES = cases()

NARROW = (
    *("square", "dilation", "odd_channels", "depthwise", "depthwise_strides", "first", "strided"),
    *("spread_uneven", "spread_by_dilation", "spread_depthwise", "long_line", "long_line_spread"),
    *("long_depthwise", "gated_by_transposed", "erf", "log1p", "expm1", "sin", "cos"),
    *("maximum_f16", "maximum_bf16", "total_f16", "depthwise_f16"),
    *("square_f16", "depthwise_bf16", "groups_last_bf16", "m_prime", "k_large", "transposed_both"),
    *(
        "product_f16",
        "product_bf16",
        "product_transposed_bf16",
        "maximum",
        "total_overlapping",
        "two_results",
    ),
    *("gelu", "silu", "tanh", "scaled_image_channels_first", "reshaped_constant"),
    *("reordered", "reordered_residual", "transposed_in_batches", "transposed_long"),
    *("transposed_between", "transposed_f16", "transposed_mixed", "transposed_to_columns"),
    "transposed_bf16",
    *("bf16_times_f32", "f32_times_f16_constant", "f16_times_f32"),
)
"""The cases that are run for smaller vectors than this machine's: a sample by default."""

RUNS = Runs(CASES, TARGETS, pipeline=PASSES, further=NARROW)


@pytest.mark.parametrize(("target", "name"), RUNS.parameters)
def test_numerics(target, name):
    RUNS.outcome(target, name).check()


@st.composite
def forms(draw):
    """A convolution of small sizes."""
    rank = draw(st.integers(1, 2))
    taps = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    dilation, last = draw(st.integers(1, 2)), draw(st.booleans())
    groups, spread = draw(st.sampled_from([None, 2, 3])), draw(st.sampled_from([1, 1, 2, 3]))
    depthwise = groups is not None and last and draw(st.booleans())
    return Form(
        tuple(draw(st.integers((t - 1) * dilation + 2, 14)) for t in taps),
        taps,
        groups=draw(st.integers(2, 40)) if depthwise else groups,
        inner=None if depthwise else draw(st.integers(2, 9)),
        outer=None if depthwise else draw(st.integers(2, 40)),
        batch=draw(st.integers(1, 2)),
        stride=draw(st.integers(1, 3)) if spread == 1 else 1,
        spread=spread,
        dilation=dilation,
        low=draw(st.integers(0, 3)),
        high=draw(st.integers(0, 3)),
        last=last,
    )


@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(forms(), min_size=6, max_size=6))
def test_any_convolution(forms):
    """IREE may turn a form into another op before the passes: which ones fire is not compared."""
    made = [convolution(f"f{n}", form) for n, form in enumerate(forms)]
    for target in ("cpu:x86-64-v3", "cpu:host"):
        for one in Batch(cases=made, pipeline=PASSES, target=target).run().values():
            fires = dict(one.fired)
            dataclasses.replace(one, case=dataclasses.replace(one.case, fires=fires)).check()


def test_code_for_arm():
    """Vectors of 16 bytes and 32 registers; compiled, not run."""
    arm = targets.parse("cpu:generic")
    flags = (*arm.flags, "--iree-llvmcpu-target-triple=aarch64-linux-gnu")
    arm = dataclasses.replace(arm, flags=flags)
    chosen = [
        CASES[name] for name in ("odd_channels", "depthwise_bf16", "product_f16", "gelu", "spread")
    ]
    fired = Batch(cases=chosen, pipeline=PASSES, target=arm).compiled()
    assert fired == {one.name: one.fires for one in chosen}
