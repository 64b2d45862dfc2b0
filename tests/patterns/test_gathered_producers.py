"""Gathers that compute what they read, beside PyTorch in float64 and the unfused program."""

import pytest
import torch
import torch.nn.functional as F

import mlirfuse
from helpers.torch_program import Program

PASS = "gathered_producer_rewrite"


def labels(*shape, below):
    return torch.randint(0, below, shape, generator=torch.manual_seed(1))


def values(*shape):
    return torch.randn(*shape, generator=torch.manual_seed(2))


PROGRAMS = {
    "cross_entropy": (F.cross_entropy, values(64, 300), labels(64, below=300)),
    "of_pixels": (F.cross_entropy, values(2, 21, 9, 16), labels(2, 9, 16, below=21)),
    "scaled_rows": (lambda x, s, n: (x * s)[n], values(500, 24), values(24), labels(64, below=500)),
    "columns": (lambda x, n: F.gelu(x).index_select(1, n), values(33, 700), labels(64, below=700)),
    "of_a_deep_chain": (
        lambda x, n: F.mish(F.gelu(x, approximate="tanh")).index_select(1, n),
        values(33, 700),
        labels(64, below=700),
    ),
    "of_a_norm": (
        lambda x, n: torch.gather(x.exp() / x.abs().sum(-1, keepdim=True), 1, n),
        values(64, 300),
        labels(64, 1, below=300),
    ),
    "of_the_largest": (
        lambda x: torch.gather(F.log_softmax(x, -1), 1, x.argmax(-1, keepdim=True)),
        values(64, 300),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    function, *arguments = PROGRAMS[name]
    exact = function(*(x.double() if x.is_floating_point() else x for x in arguments))
    program = mlirfuse.compile(Program(function), arguments)
    assert any(d.taken and d.pass_name == PASS for d in program.report.decisions)
    without = mlirfuse.compile(Program(function), arguments, disable_pass=[PASS])
    got, expected = program(*arguments), without(*arguments)
    torch.testing.assert_close(got, exact.float(), rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


def test_the_loss_of_logits_is_one_pass_over_them():
    function, *arguments = PROGRAMS["cross_entropy"]
    program = mlirfuse.compile(Program(function), arguments, target="cuda:sm_90")
    exchanged = [b.bytes for b in program.report.boundaries]
    assert max(exchanged) <= 64 * 4


@pytest.mark.parametrize("name", ["columns", "of_a_deep_chain"])
def test_a_chain_whose_values_are_used_twice_is_computed_whole(name):
    function, *arguments = PROGRAMS[name]
    program = mlirfuse.compile(Program(function), arguments, target="cuda:sm_90")
    assert len(program.kernels) == 1
