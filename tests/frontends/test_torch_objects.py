"""Objects of classes that PyTorch's pytrees do not know, among arguments and results."""

import dataclasses

import pytest
import torch

import mlirfuse
from mlirfuse.core import CallError


class Cache:
    """As the caches of transformers: tensors in lists of objects, and numbers."""

    def __init__(self, *layers):
        self.layers = list(layers)
        self.kind = torch.float32


class Layer:
    def __init__(self, keys):
        self.keys = keys
        self.length = keys.shape[0]


@dataclasses.dataclass
class Output:
    state: torch.Tensor
    cache: Cache | None = None


def step(x, cache):
    layers = [Layer(torch.cat([layer.keys, x])) for layer in cache.layers]
    return Output(sum(layer.keys.sum() for layer in layers) * x, Cache(*layers))


def test_objects_are_opened_and_made_again():
    x, cache = torch.randn(1, 4), Cache(Layer(torch.randn(3, 4)), Layer(torch.randn(3, 4)))
    program = mlirfuse.compile(step, (x, cache))
    got, want = program(x, cache), step(x, cache)
    assert type(got) is Output and type(got.cache) is Cache
    assert got.cache.kind is torch.float32
    torch.testing.assert_close(got.state, want.state)
    for a, b in zip(got.cache.layers, want.cache.layers, strict=True):
        torch.testing.assert_close(a.keys, b.keys)
        assert a.length == b.length == 4


def test_results_are_objects_each_time():
    program = mlirfuse.compile(lambda x: Cache(Layer(x + 1)), (torch.zeros(2),))
    first, second = program(torch.zeros(2)), program(torch.ones(2))
    assert first.layers[0].keys.tolist() == [1, 1] and second.layers[0].keys.tolist() == [2, 2]


def test_another_class_is_refused():
    x = torch.randn(1, 4)
    program = mlirfuse.compile(step, (x, Cache(Layer(torch.randn(3, 4)))))
    with pytest.raises(CallError, match="Layer"):
        program(x, Layer(torch.randn(3, 4)))
    with pytest.raises(CallError, match="step: "):
        program(x, Cache(Layer(torch.randn(3, 4)), Layer(torch.randn(3, 4))))


def test_a_model_of_transformers_returns_its_cache():
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=60,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    model, ids = LlamaModel(config).eval(), torch.randint(3, 60, (1, 5))
    program = mlirfuse.compile(model, {"input_ids": ids})
    with torch.no_grad():
        got, want = program(input_ids=ids), model(input_ids=ids)
    torch.testing.assert_close(got.last_hidden_state, want.last_hidden_state)
    for a, b in zip(got.past_key_values.layers, want.past_key_values.layers, strict=True):
        torch.testing.assert_close(a.keys, b.keys)
