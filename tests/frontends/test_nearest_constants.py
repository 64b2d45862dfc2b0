"""Scalars of PyTorch are rounded to the nearest f32, as in PyTorch."""

import pytest
import torch
from iree.compiler import ir

from helpers.torch_programs import check
from mlirfuse.frontends.nearest_constants import round_constants

NUMBERS = [4 / 9, 1 / 3, 2 / 3, 1e-5, 0.1, 1e-40, -7 / 11]


@pytest.mark.parametrize("number", NUMBERS)
def test_products(number):
    x = torch.arange(-3.0, 14.0, 0.25)
    check(lambda x: (x * number, torch.where(x > 0, number, x), x + number), x, rtol=1e-12)


def test_places_of_elements():
    """4.5 * 4 / 9 is two."""
    places = torch.arange(9, dtype=torch.float32) + 0.5
    check(lambda x: (x * (4 / 9)).to(torch.int64), places)


def test_conversions():
    text = """
      func.func @f(%x: f64) -> (f32, f16, f32) {
        %c = arith.constant 0.44444444444444442 : f64
        %a = arith.truncf %c : f64 to f32
        %b = arith.truncf %c : f64 to f16
        %d = arith.truncf %x : f64 to f32
        return %a, %b, %d : f32, f16, f32
      }
    """
    with ir.Context():
        module = ir.Module.parse(text)
        assert round_constants(module)
        assert not round_constants(module)
        assert str(module).count("arith.truncf") == 2
        assert "0.444444448 : f32" in str(module)
