"""Kernels for CPUs of loops that carry states agree with float64 and with IREE."""

import functools

import numpy as np
import pytest

from helpers.harness import Batch, Case
from helpers.recurrence_text import Recurrence, expected, recurrence_text

PASS = "recurrence_vector_kernel"

TARGETS = ("cpu:host", "cpu:x86-64-v3", "cpu:x86-64")
"""This machine, AVX2, and SSE2: vectors of 16 to 64 bytes, with and without multiply-adds."""

KERNELS = {
    "lstm": Recurrence("lstm"),
    "gru": Recurrence("gru", columns=40, steps=4),
    "rnn": Recurrence("rnn", columns=150),
    "one_row": Recurrence("lstm", rows=(), columns=32),
    "one_row_and_odd_columns": Recurrence("gru", rows=(1,), columns=17, backward=True),
    "rows_of_several_tiles": Recurrence("lstm", rows=(67,), columns=20, steps=3),
    "rows_in_two_dimensions": Recurrence("rnn", rows=(3, 7), columns=19, backward=True),
}

OTHERS = {
    "contraction_of_a_computed_value": Recurrence("gru_before"),
    "no_contraction": Recurrence("gate"),
    "f16": Recurrence("rnn", dtype="f16", columns=32),
}


def case(name, spec):
    """A loop on arguments near zero, and on larger ones, whose gates are open or closed."""
    rng = np.random.default_rng(5)
    scales = {"normal": (1.0, 0.3, 1.0, 1.0), "large": (20.0, 1.0, 5.0, 5.0)}
    kind = np.float16 if spec.dtype == "f16" else np.float32
    inputs = {
        key: tuple(
            (rng.standard_normal(shape) * scale).astype(kind)
            for shape, scale in zip(spec.shapes, each, strict=False)
        )
        for key, each in scales.items()
    }
    return Case(
        name=name,
        text=recurrence_text(spec).replace("@main", f"@{name}"),
        inputs=inputs,
        reference=lambda *arrays: tuple(expected(spec, *arrays)),
        fires={PASS: 1} if name in KERNELS else {},
        ulps=64,
        computed=spec.dtype,
    )


@functools.cache
def outcomes(target):
    cases = [case(name, spec) for name, spec in (KERNELS | OTHERS).items()]
    return Batch(cases=cases, pipeline=PASS, target=target).run()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*KERNELS, *OTHERS])
def test_numerics(target, name):
    outcomes(target)[name].check()
