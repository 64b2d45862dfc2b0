"""Small models of PyTorch that are tuned within minutes."""

from __future__ import annotations

from typing import Any


def mlp() -> Any:
    """A gated unit with a norm before it, f32, 64 rows of 256."""
    import torch

    class Gated(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(256)
            self.gate = torch.nn.Linear(256, 1024)
            self.up = torch.nn.Linear(256, 1024)
            self.down = torch.nn.Linear(1024, 256)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm(x)
            gated = torch.nn.functional.silu(self.gate(y)) * self.up(y)
            down: torch.Tensor = self.down(gated)
            return x + down

    torch.manual_seed(0)
    return Gated().eval(), (torch.randn(64, 256),)


def encoder() -> Any:
    """A layer of a transformer's encoder, f32, 1 sequence of 128, width 256, 4 heads."""
    import torch

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        256, 4, dim_feedforward=1024, activation="gelu", batch_first=True, norm_first=True
    )
    return layer.eval(), (torch.randn(1, 128, 256),)


def convnet() -> Any:
    """Two residual blocks of convolutions with batch norms, f32, 32x32 pixels of 32 channels."""
    import torch

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, channels: int) -> None:
            super().__init__()
            parts: list[torch.nn.Module] = []
            for _ in range(2):
                parts.append(torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False))
                parts.append(torch.nn.BatchNorm2d(channels))
                parts.append(torch.nn.ReLU())
            self.parts = torch.nn.Sequential(*parts)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            changed: torch.Tensor = self.parts(x)
            return x + changed

    torch.manual_seed(0)
    model = torch.nn.Sequential(Block(32), Block(32), torch.nn.AdaptiveAvgPool2d(1))
    return model.eval(), (torch.randn(1, 32, 32, 32),)


MODELS = ("mlp", "encoder", "convnet")
"""The functions of this module, in order."""
