"""The models of the benchmark, by name and element type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import nn

from benchmarks import models
from benchmarks.cpu import language, vision

Made = tuple[nn.Module, models.Inputs]


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A model and an element type.

    Attributes:
      work: name of the model, with its sizes.
      dtype: `f32`, `bf16`, or `i8` for linear layers with i8 weights and activations.
      make: builds the module, in f32, and its example inputs.
    """

    work: str
    dtype: str
    make: Callable[[], Made]

    @property
    def name(self) -> str:
        """Name of the row."""
        return f"{self.work} {self.dtype}"

    def model(self) -> Made:
        """The module and its inputs in the row's floating-point type; f32 for `i8`."""
        module, inputs = self.make()
        if self.dtype == "bf16":
            return models.in_precision(module, inputs, torch.bfloat16)
        return module, inputs


WORK: dict[str, tuple[Callable[[], Made], tuple[str, ...]]] = {
    "BERT 6x384 1x128": (language.bert, ("f32", "bf16", "i8")),
    "ResNet-18": (vision.resnet_18, ("f32",)),
    "MobileNetV2": (vision.mobilenet_v2, ("f32",)),
    "Llama 2x1024 1x128": (language.llama, ("f32", "bf16")),
    "Llama 2x1024 token": (language.llama_token, ("f32", "bf16", "i8")),
    "ViT-S/16": (vision.vit, ("f32", "bf16")),
    "ConvNeXt-T": (vision.convnext, ("f32",)),
    "MiniLM 1x128": (lambda: models.minilm(1, 128), ("f32",)),
    "BERT-base 4 layers 1x128": (language.bert_base, ("f32", "i8")),
    "BERT 6x384 4x128": (lambda: language.bert(batch=4), ("f32",)),
    "GPT-2 6 layers 1x128": (language.gpt2, ("f32",)),
    "T5 small 1x128 to 1x32": (language.t5, ("f32",)),
    "Whisper tiny encoder": (language.whisper, ("f32",)),
    "Swin-T": (vision.swin, ("f32",)),
    "ResNet-50": (vision.resnet_50, ("f32", "bf16")),
    "MobileNetV3-L": (vision.mobilenet_v3, ("f32",)),
    "EfficientNet-B0": (vision.efficientnet, ("f32",)),
    "U-Net": (vision.unet, ("f32",)),
    "LSTM 2x256 64 steps": (language.lstm, ("f32",)),
    "DLRM batch 128": (language.dlrm, ("f32",)),
    "RegNetY-400MF": (vision.regnet, ("f32",)),
    "SegFormer-B0": (vision.segformer, ("f32",)),
    "MobileViT-S": (vision.mobilevit, ("f32",)),
    "wav2vec 2.0 2 layers 1 s": (language.wav2vec2, ("f32",)),
}
"""Name -> how to make the model, and its element types."""

ROWS = tuple(Row(work, dtype, make) for work, (make, dtypes) in WORK.items() for dtype in dtypes)


SMOKE = Row("smoke test", "f32", lambda: language.dlrm(4, tables=2, rows=10, width=8))
"""A tiny model that shows which systems run; never in a record of the others."""


def find(name: str) -> Row:
    """The row of a name."""
    return next(row for row in (*ROWS, SMOKE) if row.name == name)


def select(words: Sequence[str]) -> list[Row]:
    """The rows with one of the words in their name or type; without words all but `SMOKE`."""
    low = [word.lower() for word in words]
    if not low:
        return list(ROWS)
    return [row for row in (*ROWS, SMOKE) if any(word in row.name.lower() for word in low)]
