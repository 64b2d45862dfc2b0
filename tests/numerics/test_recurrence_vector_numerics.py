"""Kernels for CPUs of loops that carry states agree with float64 and with IREE."""

import re

import numpy as np
import pytest

from helpers.harness import Case
from helpers.recurrence_text import Recurrence, expected, recurrence_text
from helpers.spread import Runs

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
    "gathered_input": Recurrence("rnn", backward=True),
    "rows_in_two_dimensions": Recurrence("rnn", rows=(3, 7), columns=19, backward=True),
    "columns_of_two_workgroups": Recurrence("lstm", rows=(1,), columns=128, steps=40),
    "unequal_parts_of_columns": Recurrence("gru", rows=(2,), columns=150, steps=9),
}

OTHERS = {
    "contraction_of_a_computed_value": Recurrence("gru_before"),
    "no_contraction": Recurrence("gate"),
    "f16": Recurrence("rnn", dtype="f16", columns=32),
}


def gathered(text, steps):
    """The module with elements of the input at an index in a tensor, as PyTorch's loops have it."""
    found = re.search(r"(%v\d+) = tensor.extract_slice %x.* : (\S+) to (\S+)", text)
    name, source, kind = found.groups()
    return text.replace(
        found[0],
        f"""%number = arith.index_cast %step : index to i64
      %none = tensor.empty() : tensor<i64>
      %last_i64 = arith.constant dense<{steps - 1}> : tensor<i64>
      %place = linalg.generic {{
        indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []
      }} ins(%last_i64 : tensor<i64>) outs(%none : tensor<i64>) {{
      ^bb0(%i: i64, %o: i64):
        %d = arith.subi %i, %number : i64
        linalg.yield %d : i64
      }} -> tensor<i64>
      {name} = linalg.generic {{
        indexing_maps = [affine_map<(r, n) -> ()>, affine_map<(r, n) -> (r, n)>],
        iterator_types = ["parallel", "parallel"]
      }} ins(%place : tensor<i64>) outs(%state : {kind}) {{
      ^bb0(%i: i64, %o: f32):
        %p = arith.index_cast %i : i64 to index
        %row = linalg.index 0 : index
        %column = linalg.index 1 : index
        %z = tensor.extract %x[%p, %row, %column] : {source}
        linalg.yield %z : f32
      }} -> {kind}""",
    )


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
    text = recurrence_text(spec).replace("@main", f"@{name}")
    return Case(
        name=name,
        text=gathered(text, spec.steps) if name == "gathered_input" else text,
        inputs=inputs,
        reference=lambda *arrays: tuple(expected(spec, *arrays)),
        fires={PASS: 1} if name in KERNELS else {},
        ulps=64,
        computed=spec.dtype,
    )


CASES = {name: case(name, spec) for name, spec in (KERNELS | OTHERS).items()}
RUNS = Runs(CASES, TARGETS, pipeline=PASS)


@pytest.mark.parametrize(("target", "name"), RUNS.parameters)
def test_numerics(target, name):
    RUNS.outcome(target, name).check()
