"""Whole models: fused for every target, and run where this machine can run them."""

import numpy as np
import pytest
import torch

import mlirfuse
from benchmarks import models
from helpers import gpus


def short_minilm():
    """MiniLM with two of its six layers and a thousand of its words."""
    module, (ids, mask) = models.minilm(batch=1, tokens=32)
    module.model.encoder.layer = module.model.encoder.layer[:2]
    words = module.model.embeddings.word_embeddings
    words.weight = torch.nn.Parameter(words.weight[:1000])
    return module, (ids % 1000, mask)


MODELS = {
    "short_minilm": short_minilm,
    "llama": lambda: models.llama_block(tokens=32, width=256),
    "minilm": lambda: models.minilm(batch=1, tokens=32),
}

EXPECTED = {
    "short_minilm": {"add_layer_norm_fusion": 5, "matmul_elem_gelu_fusion": 2},
    "llama": {"matmul_elem_gelu_fusion": 1},
    "minilm": {"add_layer_norm_fusion": 13, "matmul_elem_gelu_fusion": 6},
}
"""Rewrites that the default preset applies on a target, at least."""

GATED = {"inference_swiglu_fusion": 1}
"""The pass of `llama`'s gated linear unit where there are matrix instructions for f32."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=pytest.mark.sweep if n == "minilm" else ()) for n in MODELS],
)
def model(request):
    """A model's name, its module and its inputs."""
    module, inputs = MODELS[request.param]()
    return request.param, module, inputs


def _close(got, want):
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-4)


def _check_fired(name, report):
    gated = name == "llama" and report.target == "rocm:gfx942"
    expected = GATED if gated else EXPECTED[name]
    counts = report.counts()
    assert {n: counts.get(n, 0) for n in expected} == expected


@pytest.mark.parametrize("target", gpus.PARAMETERS)
def test_compiles(model, target):
    name, module, inputs = model
    fused = mlirfuse.compile(module, inputs, target=target, cache=False)
    _check_fired(name, fused.report)
    assert fused.report.target == target


def test_runs_on_the_cpu(model):
    name, module, inputs = model
    fused = mlirfuse.compile(module, inputs, target="cpu", cache=False)
    with torch.inference_mode():
        _close(fused(*inputs), module(*inputs))
    _check_fired(name, fused.report)


def test_runs_on_vulkan(model, vulkan):
    _, module, inputs = model
    fused = mlirfuse.compile(module, inputs, target=vulkan, cache=False)
    with torch.inference_mode():
        _close(fused(*inputs), module(*inputs))
