"""Models of transformers' classes: small configurations with random weights."""

import torch
import transformers
from torch import nn

TOKENS = 32


class Called(nn.Module):
    """A model as a function of tensors to one tensor."""

    def __init__(self, model, names, **fixed):
        super().__init__()
        self.model = model
        self.names = names
        self.fixed = fixed

    def forward(self, *tensors):
        named = dict(zip(self.names, tensors, strict=True))
        return self.model(**named, **self.fixed).last_hidden_state


class BertBlock(nn.Module):
    """One layer of BERT with its padding mask."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, mask):
        return self.layer(x, attention_mask=mask[:, None, None, :])


class LlamaBlock(nn.Module):
    """One layer of Llama; the angles of its positions are constants."""

    def __init__(self, model):
        super().__init__()
        self.layer = model.layers[0]
        angles = model.rotary_emb(torch.zeros(1), torch.arange(TOKENS)[None])
        for name, value in zip(("cos", "sin"), angles, strict=True):
            self.register_buffer(name, value, persistent=False)

    def forward(self, x):
        return self.layer(x, position_embeddings=(self.cos, self.sin))


def _half(model, inputs):
    return model.half(), tuple(x.half() if x.is_floating_point() else x for x in inputs)


def _words(batch=1):
    return torch.randint(100, (batch, TOKENS))


def _llama(layers):
    return transformers.LlamaModel(
        transformers.LlamaConfig(
            vocab_size=100,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            use_cache=False,
        )
    )


def _bert(layers):
    return transformers.BertModel(
        transformers.BertConfig(
            vocab_size=100,
            hidden_size=64,
            num_hidden_layers=layers,
            num_attention_heads=4,
            intermediate_size=128,
            max_position_embeddings=64,
        ),
        add_pooling_layer=False,
    )


def bert():
    """Two layers, two sentences of which one is padded."""
    mask = (torch.arange(TOKENS) < torch.tensor([[TOKENS], [20]])).long()
    return Called(_bert(2), ("input_ids", "attention_mask")), (_words(2), mask)


def bert_block():
    """One layer alone, to count its dispatches."""
    return BertBlock(_bert(1).encoder.layer[0]), (
        torch.randn(1, TOKENS, 64),
        (torch.arange(TOKENS) < 20)[None],
    )


def bert_block_f16():
    """The same layer as it runs on a GPU, in f16."""
    return _half(*bert_block())


def gpt2():
    """Two layers; causal mask, tanh GELU, one matmul for query, key and value."""
    config = transformers.GPT2Config(
        vocab_size=100,
        n_positions=64,
        n_embd=64,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    return Called(transformers.GPT2Model(config), ("input_ids",)), (_words(),)


def llama():
    """Two layers; grouped keys, rotary positions, gated unit."""
    return Called(_llama(2), ("input_ids",)), (_words(),)


def llama_block():
    """One layer alone, to count its dispatches."""
    return LlamaBlock(_llama(1)), (torch.randn(1, TOKENS, 64),)


def llama_block_f16():
    """The same layer as it runs on a GPU, in f16."""
    return _half(*llama_block())


def mistral():
    """Two layers whose queries see 8 keys."""
    config = transformers.MistralConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        sliding_window=8,
        use_cache=False,
    )
    return Called(transformers.MistralModel(config), ("input_ids",)), (_words(),)


def vit():
    """One layer after a convolution that splits an image into 16 patches."""
    config = transformers.ViTConfig(
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
    )
    model = transformers.ViTModel(config, add_pooling_layer=False)
    return Called(model, ("pixel_values",)), (torch.randn(1, 3, 32, 32),)


def whisper():
    """The encoder: two convolutions over time, one layer."""
    config = transformers.WhisperConfig(
        vocab_size=100,
        num_mel_bins=16,
        d_model=64,
        encoder_layers=1,
        encoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_layers=1,
        decoder_attention_heads=4,
        decoder_ffn_dim=128,
        max_source_positions=TOKENS,
        pad_token_id=0,
    )
    model = transformers.WhisperModel(config).encoder
    return Called(model, ("input_features",)), (torch.randn(1, 16, 2 * TOKENS),)


def t5():
    """The encoder with two layers; a bias from the distance of the positions."""
    config = transformers.T5Config(
        vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, use_cache=False
    )
    return Called(transformers.T5EncoderModel(config), ("input_ids",)), (_words(),)
