"""Convolutions by minimal filtering agree with float64, for several instruction sets."""

import dataclasses

import numpy as np
import pytest

from helpers.grouped_conv_text import Form
from helpers.harness import Batch
from helpers.spread import sample
from helpers.vector_cases import convolution
from mlirfuse.kernels.vector.winograd import plan
from mlirfuse.kernels.vector.winograd.transforms import WINDOWS, Filtering

TARGETS = ("cpu:host", "cpu:x86-64-v3", "cpu:x86-64")
PASSES = "convolution_fusion,winograd_vector_kernel"
FIRES = {"convolution_fusion": 1, "winograd_vector_kernel": 1}


def last(image, taps, inner, outer, **more):
    """A dense convolution with channels last."""
    return Form(image, taps, inner=inner, outer=outer, last=True, **more)


FORMS = {
    "square": last((9, 11), (3, 3), 5, 24),
    "whole_windows": last((12, 16), (3, 3), 32, 32),
    "no_padding": last((9, 14), (3, 3), 20, 16, low=0, high=0, batch=1),
    "uneven_padding": last((8, 9), (3, 3), 4, 16, low=0, high=2),
    "wide_padding": last((3, 2), (3, 3), 4, 16, low=4, high=5),
    "few_pixels": last((2, 3), (3, 3), 17, 16, batch=1),
    "odd_channels": last((8, 9), (3, 3), 7, 37),
    "many_channels": last((4, 5), (3, 3), 320, 160, batch=1),
    "many_windows": last((60, 61), (3, 3), 16, 16),
    "line": last((29,), (3,), 16, 32),
    "line_of_five": last((29,), (5,), 16, 32, low=2, high=2),
    "rectangle": last((9, 10), (3, 5), 16, 16, low=2, high=1),
    "even_taps": last((9, 10), (2, 4), 16, 16),
    "cube": last((5, 6, 7), (3, 2, 3), 6, 16, batch=1),
}


def case(name, dtype="f32"):
    """A case with a constant filter; its sums are not those of the definition, even of integers."""
    made = convolution(f"{name}_{dtype}", FORMS[name], dtype, constant=True, fires=FIRES)
    inputs = {key: value for key, value in made.inputs.items() if key != "hostile"}
    return dataclasses.replace(made, inputs=inputs, hostile=frozenset(), exact=frozenset())


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Small problems are computed so, too."""
    monkeypatch.setattr(plan, "MARGIN", 0.0)


def check(target, names):
    cases = [case(name) for name in names]
    cases += [case(name, dtype) for name in ("square", "odd_channels") for dtype in ("f16", "bf16")]
    if target == TARGETS[0]:
        # This machine may multiply pairs of bf16.
        cases = [one for one in cases if not one.name.endswith("bf16")]
    for outcome in Batch(cases=cases, pipeline=PASSES, target=target).run().values():
        outcome.check()


@pytest.mark.parametrize("target", TARGETS)
def test_numerics(target):
    number = TARGETS.index(target)
    check(target, sample(list(FORMS), number) if number else FORMS)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS[1:])
def test_all_forms(target):
    check(target, FORMS)


class Values:
    """Computes what a transform writes, in float64."""

    def __init__(self, values):
        self.values = {str(n): value for n, value in enumerate(values)}

    def _new(self, value):
        name = str(len(self.values))
        self.values[name] = value
        return name

    def add(self, one, other):
        return self._new(self.values[one] + self.values[other])

    def subtract(self, one, other):
        return self._new(self.values[one] - self.values[other])

    def multiply_add(self, one, factor, total):
        return self._new(float(factor) * self.values[one] + self.values[total])

    def scale(self, one, factor):
        return self._new(float(factor) * self.values[one])


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("taps", [2, 3, 4, 5])
def test_transforms(window, taps):
    if window - taps < 1:
        pytest.skip("a window with a single output saves nothing")
    filtering = Filtering(window - taps + 1, taps)
    rng = np.random.default_rng(7)
    image, weights = rng.standard_normal(window), rng.standard_normal(taps)
    made = Values(image)
    names = filtering.input([str(n) for n in range(window)], made)
    transformed = [made.values[name] for name in names]
    np.testing.assert_allclose(transformed, np.array(filtering.input_map, float) @ image)
    products = np.array(filtering.filter_map, float) @ weights * transformed
    made = Values(products)
    names = filtering.output([str(n) for n in range(window)], made)
    expected = np.correlate(image, weights, "valid")
    np.testing.assert_allclose([made.values[name] for name in names], expected)
    np.testing.assert_allclose(np.array(filtering.output_map, float) @ products, expected)
