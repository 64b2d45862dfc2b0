"""A model of each family: the sizes of its configuration class, with few layers.

The defaults of the configuration classes of transformers are those of a published model.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import nn

from benchmarks.cpu.wrapped import varied, wrapped
from benchmarks.models import Inputs, seeded

VOCABULARY = 8000
"""Rows of the embeddings: their size does not change the time of a call."""

LAYERS = 2

TOKENS, FEW_TOKENS = 512, 64
"""Tokens of a text; few where transformers unrolls a loop over them."""

IMAGES, PIXELS = 8, 224

FRAMES = 3000
"""Columns of a spectrogram of 30 seconds."""

SAMPLES = 80_000
"""Values of five seconds of speech."""


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """A model family.

    Attributes:
      name: the family, and the model whose sizes it has.
      kind: `decoder`, `encoder`, `encoder-decoder`, `mixture`, `state space`, `vision` or `audio`.
      model: name of its class in transformers.
      inputs: names of its arguments.
      settings: fields of its configuration that differ from the default.
      part: name of the part that is measured; empty for the whole model.
      tokens: number of tokens.
    """

    name: str
    kind: str
    model: str
    inputs: tuple[str, ...] = ("input_ids",)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    part: str = ""
    tokens: int = TOKENS

    def made(self) -> tuple[nn.Module, Inputs]:
        """The model in evaluation mode with random weights, and its arguments; in f32."""
        import transformers

        base = self.model.removesuffix("Model")
        config_class = getattr(transformers, f"{base}Config")
        with seeded():
            config = config_class(**self.settings)
            config.use_cache = False
            model = getattr(transformers, self.model)(config)
            if self.part:
                model = model.get_submodule(self.part)
            module = wrapped(model, *self.inputs)
            return varied(module), tuple(_input(name, self.tokens) for name in self.inputs)


def _input(name: str, tokens: int) -> torch.Tensor:
    if name in ("input_ids", "decoder_input_ids"):
        return torch.randint(3, VOCABULARY, (1, tokens))
    if name == "pixel_values":
        return torch.randn(IMAGES, 3, PIXELS, PIXELS)
    if name == "input_features":
        return torch.randn(1, 80, FRAMES)
    return torch.randn(1, SAMPLES)


def _text(name: str, kind: str, model: str, **settings: Any) -> Family:
    sizes = {"vocab_size": VOCABULARY, "num_hidden_layers": LAYERS}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return Family(name, kind, model, settings={**sizes, **special, **settings})


_VISION = ("pixel_values",)

FAMILIES = (
    _text("Llama", "decoder", "LlamaModel"),
    _text("Mistral", "decoder", "MistralModel"),
    _text("Qwen2", "decoder", "Qwen2Model"),
    _text("Qwen3", "decoder", "Qwen3Model"),
    _text("Gemma 2", "decoder", "Gemma2Model"),
    _text("Phi-3", "decoder", "Phi3Model"),
    _text("GPT-NeoX", "decoder", "GPTNeoXModel", hidden_size=2048, num_attention_heads=16),
    _text("Falcon", "decoder", "FalconModel"),
    _text("OLMo 2", "decoder", "Olmo2Model"),
    _text("GPT-2", "decoder", "GPT2Model"),
    _text("OPT", "decoder", "OPTModel"),
    _text("Mixtral", "mixture", "MixtralModel", intermediate_size=3584),
    dataclasses.replace(_text("Mamba", "state space", "MambaModel"), tokens=FEW_TOKENS),
    _text("BERT", "encoder", "BertModel"),
    _text("RoBERTa", "encoder", "RobertaModel", max_position_embeddings=TOKENS + 8),
    _text("ModernBERT", "encoder", "ModernBertModel"),
    _text("DeBERTa v2", "encoder", "DebertaV2Model"),
    Family(
        "T5",
        "encoder-decoder",
        "T5Model",
        ("input_ids", "decoder_input_ids"),
        {"vocab_size": VOCABULARY, "num_layers": LAYERS, "num_decoder_layers": LAYERS},
    ),
    Family(
        "BART",
        "encoder-decoder",
        "BartModel",
        ("input_ids", "decoder_input_ids"),
        {"vocab_size": VOCABULARY, "encoder_layers": LAYERS, "decoder_layers": LAYERS},
    ),
    Family("ViT", "vision", "ViTModel", _VISION, {"num_hidden_layers": LAYERS}),
    Family("DINOv2", "vision", "Dinov2Model", _VISION, {"num_hidden_layers": LAYERS}),
    Family("Swin", "vision", "SwinModel", _VISION, {"depths": [2, 2, 2, 2]}),
    Family("ConvNeXt", "vision", "ConvNextModel", _VISION, {"depths": [2, 2, 2, 2]}),
    Family("ResNet", "vision", "ResNetModel", _VISION, {"depths": [2, 2, 2, 2]}),
    Family(
        "Whisper",
        "audio",
        "WhisperModel",
        ("input_features",),
        {"encoder_layers": LAYERS, "decoder_layers": 1},
        part="encoder",
    ),
    Family("wav2vec 2.0", "audio", "Wav2Vec2Model", ("input_values",), {"num_hidden_layers": 2}),
)
"""The families in the order of the table."""

BY_NAME = {family.name: family for family in FAMILIES}
