"""A contraction with a dequantized weight agrees with the unfused program."""

import pytest

from helpers.dequant_cases import jax_form, torch_form
from helpers.harness import Batch

PASSES = "dequant_matmul_fusion"
SWITCHES = {"enable_pass": PASSES}

CASES = {
    c.name: c
    for c in [
        torch_form("torch_f32"),
        jax_form("jax_f16_i8", "f16", "i8"),
        jax_form("jax_bf16_i4", "bf16", "i4"),
        jax_form("jax_f32_i4", "f32", "i4"),
    ]
}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=PASSES, switches=SWITCHES).run()


@pytest.mark.parametrize("name", CASES)
def test_dequantized(name, outcomes):
    outcomes[name].check()
