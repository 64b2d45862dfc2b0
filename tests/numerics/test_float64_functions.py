"""Functions of f64 on CPUs, which have no code in IREE, against those of the C library."""

import math

import numpy as np
import pytest
import torch

import mlirfuse
from helpers import function_text
from mlirfuse.builders import codegen_repairs

COUNT = 6000


def each(function):
    """A function of numbers, for arrays."""

    def found(*arrays):
        with np.errstate(all="ignore"):
            return np.vectorize(function, otypes=[float])(*arrays)

    return found


EXACT = {
    "math.acos": (np.arccos, 5),
    "math.acosh": (np.arccosh, 4),
    "math.asin": (np.arcsin, 5),
    "math.asinh": (np.arcsinh, 4),
    "math.atan": (np.arctan, 5),
    "math.atan2": (np.arctan2, 5),
    "math.atanh": (np.arctanh, 4),
    "math.cbrt": (np.cbrt, 2),
    "math.cos": (np.cos, 3),
    "math.erf": (each(math.erf), 4),
    "math.erfc": (each(math.erfc), 6),
    "math.exp2": (np.exp2, 2),
    "math.expm1": (np.expm1, 3),
    "math.log10": (np.log10, 3),
    "math.log1p": (np.log1p, 3),
    "math.log2": (np.log2, 3),
    "math.sin": (np.sin, 3),
    "math.sinh": (np.sinh, 4),
    "math.tan": (np.tan, 4),
    "math.tanh": (np.tanh, 4),
    "arith.remf": (np.fmod, 0.5),
}
"""The function, and an error in units in the last place that is not reached."""

PERIODIC = ("math.cos", "math.sin", "math.tan")

OF_TWO = ("math.atan2", "arith.remf")


def arguments():
    """Numbers of all exponents, and of the interesting range, with the special ones first.

    IREE's threads compute with zeros in place of denormal numbers.
    """
    random = np.random.default_rng(1)
    bits = random.integers(0, 1 << 64, COUNT // 3, dtype=np.uint64).view(np.float64)
    bits = np.where(np.abs(bits) < 2.3e-308, 0.0, bits)
    special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.0**29, -(2.0**53), 1e22]
    special += [1.7e308, 709.0, 710.0, 711.0, -1e-300, 1e-9, -1e-9, 1e-17, 26.0, 27.5, math.pi]
    special += [1000.0, 1e15, 8.0, 1024.0, 0.25, 1 - 2.0**-53, -1 + 2.0**-53, 1e5, 40.0, 2.0**28]
    near = random.normal(0, 4, COUNT // 3)
    within = random.uniform(-1, 1, COUNT - len(special) - len(bits) - len(near))
    x = np.concatenate([special, bits, near, within])
    y = np.concatenate([special[::-1], random.permutation(x[len(special) :])])
    return x, y


def text_of(*, flipped):
    """A program that computes all of them."""
    functions = {
        name.replace(".", "_"): (name, [0, 1] if name in OF_TWO else [0]) for name in EXACT
    }
    return function_text.program(functions, 2, COUNT, "f64", flipped=flipped)


@pytest.mark.parametrize(
    ("flipped", "target"),
    [(False, "cpu"), (True, "cpu"), (False, "cpu:x86-64")],
    ids=["loop", "kernel", "without_fma"],
)
def test_errors(flipped, target):
    x, y = arguments()
    found = mlirfuse.compile(text_of(flipped=flipped), target=target)(x, y)
    wrong = {}
    for (name, (function, most)), ours in zip(EXACT.items(), found, strict=True):
        assert ours.dtype == np.float64
        ours = ours[::-1] if flipped else ours
        with np.errstate(all="ignore"):
            exact = function(x, y) if name in OF_TWO else function(x)
        # A large angle is a fraction of a turn in 64 bits.
        least = np.where((np.abs(x) > 2**29) & (name in PERIODIC), 2.0**-10, 0)
        errors = function_text.errors(ours, exact, tiny=1e-307, least=least)
        if name == "arith.remf":
            # A unit of the last place of the divisor is a normal number.
            counted = np.abs(y) > 1e-290
            errors = function_text.errors(ours[counted], exact[counted], tiny=1e-307)
        if errors.max() >= most:
            wrong[name] = errors.max()
    assert not wrong, wrong


def test_exact_results():
    x, y = arguments()
    powers = 2.0 ** np.arange(-500, 500)
    x[: len(powers)] = powers
    decimal = 10.0 ** np.arange(23)
    x[len(powers) :][: len(decimal)] = decimal
    found = dict(
        zip(EXACT, mlirfuse.compile(text_of(flipped=False), target="cpu")(x, y), strict=True)
    )
    np.testing.assert_array_equal(found["math.log2"][: len(powers)], np.arange(-500, 500))
    logarithms = found["math.log10"][len(powers) :][: len(decimal)]
    np.testing.assert_array_equal(logarithms, np.arange(23))


class Constants(torch.nn.Module):
    """A function of a constant, which IREE computes while it compiles."""

    def __init__(self):
        super().__init__()
        self.register_buffer("angles", torch.linspace(0, 9, 50, dtype=torch.float64))

    def forward(self, x):
        return x * self.angles.sin().tanh() + torch.remainder(x, 0.7)


def test_functions_of_constants():
    model, x = Constants(), torch.linspace(-4, 4, 50, dtype=torch.float64)
    module = mlirfuse.compile(model, (x,), target="cpu")
    assert not module.report.notes
    np.testing.assert_allclose(module(x), model(x).numpy(), rtol=1e-14, atol=1e-15)


def test_constants_alone_are_rewritten_before_global_optimization():
    from iree.compiler import ir

    text = """
      func.func @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
        %c = arith.constant dense<0.5> : tensor<f64>
        %0 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>],
            iterator_types = []} ins(%c : tensor<f64>) outs(%c : tensor<f64>) {
        ^bb0(%a: f64, %o: f64):
          %r = math.tanh %a : f64
          linalg.yield %r : f64
        } -> tensor<f64>
        %1 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>],
            iterator_types = []} ins(%x : tensor<f64>) outs(%c : tensor<f64>) {
        ^bb0(%a: f64, %o: f64):
          %r = math.tanh %a : f64
          linalg.yield %r : f64
        } -> tensor<f64>
        return %0, %1 : tensor<f64>, tensor<f64>
      }"""
    with ir.Context():
        module = ir.Module.parse(text)
        assert not codegen_repairs.repair_constants(module, has_angles=True, keeps_f64=False)
        assert codegen_repairs.repair_constants(module, has_angles=False, keeps_f64=True)
        assert str(module).count("math.tanh") == 1
