"""Networks for text, speech, sequences and tables, with random weights."""

# Type checks run without PyTorch, whose classes are `Any` to them.
# mypy: allow-subclassing-any

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

from benchmarks.cpu.wrapped import varied, wrapped
from benchmarks.models import Inputs, seeded, sentences

Made = tuple[nn.Module, Inputs]

VOCABULARY = 8000
"""Rows of the embeddings: their size does not change the time of a call."""

SAMPLE_RATE = 16000
"""Values of a second of speech."""


def bert(
    batch: int = 1, tokens: int = 128, width: int = 384, heads: int = 12, layers: int = 6
) -> Made:
    """BERT with MiniLM's sizes."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_attention_heads=heads,
        num_hidden_layers=layers,
        intermediate_size=4 * width,
    )
    with seeded():
        model = BertModel(config, add_pooling_layer=False)
        return wrapped(model, "input_ids", "attention_mask"), sentences(batch, tokens, VOCABULARY)


def bert_base(batch: int = 1, tokens: int = 128) -> Made:
    """A third of BERT-base: 4 of its 12 layers."""
    return bert(batch, tokens, width=768, heads=12, layers=4)


def gpt2(tokens: int = 128, layers: int = 6) -> Made:
    """GPT-2 small with half of its layers, a prompt."""
    from transformers import GPT2Config, GPT2Model

    with seeded():
        model = GPT2Model(GPT2Config(vocab_size=VOCABULARY, n_layer=layers, use_cache=False))
        return wrapped(model, "input_ids"), (torch.randint(VOCABULARY, (1, tokens)),)


def _llama(width: int, layers: int) -> Any:
    from transformers import LlamaConfig, LlamaModel

    return LlamaModel(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=11 * width // 4,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            num_key_value_heads=width // 128,
            use_cache=False,
        )
    )


def llama(tokens: int = 128, width: int = 1024, layers: int = 2) -> Made:
    """Layers of Llama with two query heads for each key head, a prompt."""
    with seeded():
        ids = torch.randint(VOCABULARY, (1, tokens))
        return wrapped(_llama(width, layers), "input_ids"), (ids,)


class Step(nn.Module):
    """One token of Llama after those whose keys and values are arguments."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: torch.Tensor, *cached: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The token's result, and its keys and values of each layer."""
        from transformers import DynamicCache

        cache = DynamicCache(list(zip(cached[::2], cached[1::2], strict=True)))
        state = self.model(token, past_key_values=cache, use_cache=True).last_hidden_state
        new = [t[:, :, -1:] for layer in cache.layers for t in (layer.keys, layer.values)]
        return state, *new


def llama_token(past: int = 127, width: int = 1024, layers: int = 2) -> Made:
    """Layers of Llama, one token after a prompt."""
    with seeded():
        cached = torch.randn(2 * layers, 1, width // 128, past, 64).unbind()
        return varied(Step(_llama(width, layers))), (torch.randint(VOCABULARY, (1, 1)), *cached)


def t5(tokens: int = 128, outputs: int = 32) -> Made:
    """T5 small, encoder and decoder."""
    from transformers import T5Config, T5Model

    with seeded():
        model = T5Model(T5Config(vocab_size=VOCABULARY, use_cache=False))
        ids, mask = sentences(1, tokens, VOCABULARY)
        module = wrapped(model, "input_ids", "attention_mask", "decoder_input_ids")
        return module, (ids, mask, torch.randint(VOCABULARY, (1, outputs)))


def whisper(frames: int = 1500) -> Made:
    """The encoder of Whisper tiny: two convolutions, which halve 3000 frames, and 4 layers."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(max_source_positions=frames)
    with seeded():
        module = wrapped(WhisperEncoder(config), "input_features")
        return module, (torch.randn(1, config.num_mel_bins, 2 * frames),)


def wav2vec2(seconds: float = 1.0, layers: int = 2) -> Made:
    """The seven 1-D convolutions of wav2vec 2.0, its positions by a grouped one, and layers."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    with seeded():
        model = Wav2Vec2Model(Wav2Vec2Config(num_hidden_layers=layers))
        values = torch.randn(1, int(seconds * SAMPLE_RATE))
        return wrapped(model.eval(), "input_values"), (values,)


class Recurrent(nn.Module):
    """Layers of LSTM, and a linear one for each step."""

    def __init__(self, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`(batch, steps, width)` to the scores of the classes of each step."""
        return self.head(self.lstm(x)[0])


def lstm(steps: int = 64, width: int = 256, layers: int = 2) -> Made:
    """Layers of LSTM."""
    with seeded():
        return varied(Recurrent(width, layers, 100)), (torch.randn(1, steps, width),)


class Recommender(nn.Module):
    """DLRM: dense features, embeddings of categories, products of all pairs, and layers on top."""

    def __init__(self, rows: int, tables: int, width: int, dense: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = _layers(dense, 512, 256, width)
        pairs = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer("pairs", pairs[0] * (tables + 1) + pairs[1], persistent=False)
        self.top = _layers(width + pairs.shape[1], 512, 256, 1)

    def forward(self, dense: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        """Features `(batch, dense)` and categories `(batch, tables)` to a score."""
        bottom = self.bottom(dense)
        found = [table(categories[:, n]) for n, table in enumerate(self.embeddings)]
        vectors = torch.stack([bottom, *found], dim=1)
        products = (vectors @ vectors.transpose(1, 2)).flatten(1)
        return self.top(torch.cat((bottom, products[:, self.pairs]), dim=1)).sigmoid()


def _layers(*widths: int) -> nn.Module:
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))[:-1]


def dlrm(batch: int = 128, tables: int = 26, rows: int = 2000, width: int = 64) -> Made:
    """DLRM with the 13 dense features and 26 categories of Criteo's data."""
    with seeded():
        module = varied(Recommender(rows, tables, width, dense=13))
        return module, (torch.randn(batch, 13), torch.randint(rows, (batch, tables)))
