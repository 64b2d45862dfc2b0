"""Twelve small models of PyTorch, one of each common class, that are tuned within minutes.

Each function returns a module in evaluation mode and its example inputs in f32, the same at every
call. `build` makes one by its name in an element type.
"""

# Type checks run without PyTorch, whose classes are `Any` to them.
# mypy: allow-subclassing-any

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mlirfuse.core import UsageError, nearest

if TYPE_CHECKING:
    import torch
    from torch import nn

    Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


def encoder() -> Made:
    """A layer of a transformer's encoder, 4 sequences of 128, width 384, 6 heads."""
    import torch

    layer = torch.nn.TransformerEncoderLayer(
        384, 6, dim_feedforward=1536, activation="gelu", batch_first=True, norm_first=True
    )
    return layer, (torch.randn(4, 128, 384),)


def decoder_prompt() -> Made:
    """A block of a decoder with rotary positions and a gated MLP, a prompt of 256 tokens."""
    import torch

    from benchmarks.models import LlamaBlock

    return LlamaBlock(512, 8, 2, 1408, 256), (torch.randn(1, 256, 512),)


def decoder_token() -> Made:
    """One token of 4 sequences that attend to 511 earlier ones, width 512, 8 heads."""
    import torch
    from torch import nn
    from torch.nn import functional

    from benchmarks.models import RMSNorm, SwiGLU

    class Token(nn.Module):
        def __init__(self, width: int, heads: int, hidden: int) -> None:
            super().__init__()
            self.heads = heads
            self.norm, self.norm2 = RMSNorm(width), RMSNorm(width)
            self.qkv = nn.Linear(width, 3 * width, bias=False)
            self.out = nn.Linear(width, width, bias=False)
            self.mlp = SwiGLU(width, hidden)

        def forward(
            self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            batch, _, width = x.shape
            split = self.qkv(self.norm(x)).view(batch, 1, 3, self.heads, width // self.heads)
            q, k, v = (part.transpose(1, 2) for part in split.unbind(2))
            keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            found = functional.scaled_dot_product_attention(q, keys, values)
            x = x + self.out(found.transpose(1, 2).reshape(batch, 1, width))
            return x + self.mlp(self.norm2(x)), keys, values

    past = [torch.randn(4, 8, 511, 64) for _ in range(2)]
    return Token(512, 8, 1408), (torch.randn(4, 1, 512), *past)


def vision_transformer() -> Made:
    """Patches of 16 pixels of an image of 224, a class token, and two layers of width 192."""
    import torch
    from torch import nn

    class Transformer(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.token = nn.Parameter(torch.randn(1, 1, width))
            self.places = nn.Parameter(torch.randn(1, 197, width))
            self.layers = nn.Sequential(
                *(
                    nn.TransformerEncoderLayer(
                        width, 3, 4 * width, activation="gelu", batch_first=True, norm_first=True
                    )
                    for _ in range(2)
                )
            )
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            x = self.patches(image).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
            found: torch.Tensor = self.head(self.norm(self.layers(x))[:, 0])
            return found

    return Transformer(192), (torch.randn(2, 3, 224, 224),)


def resnet() -> Made:
    """A stem with a max pooling, a block, one with stride 2, and a classifier; 112 pixels."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inner: int, outer: int, stride: int) -> None:
            super().__init__()
            self.one = _convolution(inner, outer, 3, stride)
            self.two = _convolution(outer, outer, 3, 1, activation=None)
            same = inner == outer and stride == 1
            self.short = (
                nn.Identity() if same else _convolution(inner, outer, 1, stride, activation=None)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.two(self.one(x)) + self.short(x))

    model = nn.Sequential(
        _convolution(3, 64, 7, 2),
        nn.MaxPool2d(3, 2, 1),
        Block(64, 64, 1),
        Block(64, 128, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 100),
    )
    return model, (torch.randn(4, 3, 112, 112),)


def mobilenet() -> Made:
    """Three inverted residuals with squeeze and excitation, 40 channels of 28 pixels."""
    import torch
    from torch import nn

    class Squeeze(nn.Module):
        def __init__(self, channels: int, inner: int) -> None:
            super().__init__()
            self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mean = x.mean((2, 3), keepdim=True)
            return x * nn.functional.hardsigmoid(self.up(torch.relu(self.down(mean))))

    class Inverted(nn.Module):
        def __init__(self, channels: int, inner: int, size: int) -> None:
            super().__init__()
            self.parts = nn.Sequential(
                _convolution(channels, inner, 1, 1, activation=nn.Hardswish),
                _convolution(inner, inner, size, 1, activation=nn.Hardswish, groups=inner),
                Squeeze(inner, inner // 4),
                _convolution(inner, channels, 1, 1, activation=None),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            changed: torch.Tensor = self.parts(x)
            return x + changed

    blocks = (Inverted(40, 120, 5), Inverted(40, 240, 3), Inverted(40, 200, 3))
    return nn.Sequential(*blocks), (torch.randn(4, 40, 28, 28),)


def convnext() -> Made:
    """Two blocks of ConvNeXt with a layer scale, and the reduction between; 96 channels of 28."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
            self.norm = nn.LayerNorm(channels, 1e-6)
            self.up, self.down = (
                nn.Linear(channels, 4 * channels),
                nn.Linear(4 * channels, channels),
            )
            self.scale = nn.Parameter(torch.full((channels,), 0.1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
            y = self.scale * self.down(nn.functional.gelu(self.up(y)))
            return x + y.permute(0, 3, 1, 2)

    model = nn.Sequential(Block(96), nn.Conv2d(96, 192, 2, 2), Block(192))
    return model, (torch.randn(4, 96, 28, 28),)


def unet() -> Made:
    """The way down and up of a U-Net with group norms and a time embedding, 64 channels of 32."""
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, inner: int, outer: int, time: int) -> None:
            super().__init__()
            self.norm, self.norm2 = nn.GroupNorm(16, inner), nn.GroupNorm(16, outer)
            self.one = nn.Conv2d(inner, outer, 3, padding=1)
            self.two = nn.Conv2d(outer, outer, 3, padding=1)
            self.time = nn.Linear(time, outer)
            self.short = nn.Identity() if inner == outer else nn.Conv2d(inner, outer, 1)

        def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
            y = self.one(nn.functional.silu(self.norm(x)))
            y = y + self.time(nn.functional.silu(time))[:, :, None, None]
            y = self.two(nn.functional.silu(self.norm2(y)))
            return y + self.short(x)

    class Net(nn.Module):
        def __init__(self, channels: int, time: int) -> None:
            super().__init__()
            self.first = Residual(channels, channels, time)
            self.down = nn.Conv2d(channels, 2 * channels, 3, 2, 1)
            self.middle = Residual(2 * channels, 2 * channels, time)
            self.up = nn.Conv2d(2 * channels, channels, 3, padding=1)
            self.last = Residual(2 * channels, channels, time)

        def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
            first = self.first(x, time)
            low = self.middle(self.down(first), time)
            up = self.up(nn.functional.interpolate(low, scale_factor=2.0))
            found: torch.Tensor = self.last(torch.cat([up, first], 1), time)
            return found

    return Net(64, 128), (torch.randn(2, 64, 32, 32), torch.randn(2, 128))


def lstm() -> Made:
    """Two layers of an LSTM of width 128, 32 steps of 8 sequences, and a classifier."""
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.LSTM(64, 128, 2, batch_first=True)
            self.head = nn.Linear(128, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log_softmax(self.head(self.layers(x)[0]), -1)

    return Tagger(), (torch.randn(8, 32, 64),)


def recommender() -> Made:
    """A DLRM: 8 embedding tables, products of all pairs, and two MLPs; 256 rows."""
    import torch
    from torch import nn

    class Recommender(nn.Module):
        def __init__(self, tables: int, width: int) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(500, width) for _ in range(tables))
            self.bottom = _layers(13, 256, width)
            pairs = (tables + 1) * tables // 2
            self.top = _layers(pairs + width, 512, 256, 1)
            self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

        def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
            dense = self.bottom(dense)
            found = [dense, *(table(sparse[:, i]) for i, table in enumerate(self.tables))]
            rows = torch.stack(found, 1)
            products = torch.bmm(rows, rows.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            return torch.sigmoid(self.top(torch.cat([dense, products], 1)))

    return Recommender(8, 64), (torch.randn(256, 13), torch.randint(0, 500, (256, 8)))


def experts() -> Made:
    """A mixture of 8 experts of which each of 64 tokens takes 2, width 256."""
    import torch
    from torch import nn

    class Experts(nn.Module):
        def __init__(self, count: int, width: int, hidden: int) -> None:
            super().__init__()
            self.norm, self.gate = nn.LayerNorm(width), nn.Linear(width, count, bias=False)
            self.up = nn.Parameter(torch.randn(count, width, 2 * hidden) * width**-0.5)
            self.down = nn.Parameter(torch.randn(count, hidden, width) * hidden**-0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm(x)
            weights, chosen = torch.topk(torch.softmax(self.gate(y), -1), 2)
            weights = weights / weights.sum(-1, keepdim=True)
            share = torch.zeros(len(x), len(self.up), dtype=x.dtype, device=x.device)
            share = share.scatter(1, chosen, weights)
            gate, up = torch.matmul(y, self.up).chunk(2, -1)
            parts = torch.matmul(nn.functional.silu(gate) * up, self.down)
            return x + (parts * share.t()[:, :, None]).sum(0)

    return Experts(8, 256, 512), (torch.randn(64, 256),)


def audio_encoder() -> Made:
    """Two convolutions over a mel spectrogram of 400 frames, an encoder's layer of width 256."""
    import torch
    from torch import nn

    class Audio(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.one = nn.Conv1d(80, width, 3, padding=1)
            self.two = nn.Conv1d(width, width, 3, 2, 1)
            self.places = nn.Parameter(torch.randn(1, 200, width))
            self.layer = nn.TransformerEncoderLayer(
                width, 4, 4 * width, activation="gelu", batch_first=True, norm_first=True
            )
            self.norm = nn.LayerNorm(width)

        def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
            x = nn.functional.gelu(self.one(spectrogram))
            x = nn.functional.gelu(self.two(x)).transpose(1, 2)
            found: torch.Tensor = self.norm(self.layer(x + self.places))
            return found

    return Audio(256), (torch.randn(1, 80, 400),)


def _convolution(
    inner: int,
    outer: int,
    size: int,
    stride: int,
    *,
    activation: Callable[[], nn.Module] | None = lambda: _relu(),
    groups: int = 1,
) -> nn.Module:
    """A convolution without a bias, its batch norm and an activation."""
    from torch import nn

    parts = [
        nn.Conv2d(inner, outer, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outer),
    ]
    return nn.Sequential(*parts, *([] if activation is None else [activation()]))


def _relu() -> nn.Module:
    from torch import nn

    return nn.ReLU()


def _layers(*widths: int) -> nn.Module:
    """Linear layers with a ReLU between them."""
    from torch import nn

    parts: list[nn.Module] = []
    for inner, outer in itertools.pairwise(widths):
        parts += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


MODELS: Mapping[str, Callable[[], Made]] = {
    made.__name__: made
    for made in (
        encoder,
        decoder_prompt,
        decoder_token,
        vision_transformer,
        resnet,
        mobilenet,
        convnext,
        unet,
        lstm,
        recommender,
        experts,
        audio_encoder,
    )
}
"""Name -> function, in the order of the record."""

SEED = 20
"""Seed of all weights and inputs."""


def build(name: str, dtype: str = "float32") -> tuple[Any, tuple[Any, ...]]:
    """A model by name, and its example inputs; what is in f32 is converted.

    Raises:
      UsageError: there is no such model.
    """
    import torch

    if name not in MODELS:
        raise UsageError(f"there is no model '{name}'{nearest(name, MODELS)}")
    with torch.random.fork_rng(devices=[]):  # the models are made on the CPU
        torch.manual_seed(SEED)
        module, inputs = MODELS[name]()
    kind = getattr(torch, dtype)
    module = module.eval().requires_grad_(False).to(kind)
    return module, tuple(x.to(kind) if x.is_floating_point() else x for x in inputs)
