"""Samples of modules that PyTorch's module database lacks, or has in few forms.

They extend the database: pooling that is undone, bags of embeddings, resizing, batched sequences of
more steps, and attention with masks and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.testing import make_tensor
from torch.testing._internal.common_modules import FunctionInput, ModuleInfo, ModuleInput

Make = Callable[..., torch.Tensor]
"""From a shape, and optionally `dtype`, `low` and `high`: a tensor."""

Construct = Callable[[Make], tuple[FunctionInput, FunctionInput]]
"""From `Make`: the arguments of the constructor and those of the call."""

_given = FunctionInput


def further() -> Iterator[ModuleInfo]:
    """Entries as those of the database, one for each class."""
    samples: dict[type[nn.Module], tuple[Construct, ...]] = {
        **_shapes(),
        **_pooling(),
        **_resizing(),
        **_embeddings(),
        **_norms(),
        **_distances(),
        **_sequences(),
        **_attention(),
    }
    for module, constructs in samples.items():
        yield ModuleInfo(
            module,
            module_inputs_func=partial(_inputs, constructs),
            train_and_eval_differ=issubclass(module, nn.modules.batchnorm._BatchNorm),
        )


def _inputs(
    constructs: Sequence[Construct], info: ModuleInfo, *, dtype: torch.dtype, **_: Any
) -> list[ModuleInput]:
    make = partial(_made, dtype)
    return [ModuleInput(*construct(make)) for construct in constructs]


def _made(element: torch.dtype, *shape: int, **kwargs: Any) -> torch.Tensor:
    return make_tensor(shape, **{"device": "cpu", "dtype": element, **kwargs})


def _one(*constructor: Any, shapes: Sequence[tuple[int, ...]], **kwargs: Any) -> Construct:
    """A sample whose call takes tensors of the given shapes."""
    return lambda make: (_given(*constructor, **kwargs), _given(*(make(*s) for s in shapes)))


def _image(*constructor: Any, **kwargs: Any) -> Construct:
    return _one(*constructor, shapes=[(2, 4, 6, 9)], **kwargs)


def _shapes() -> dict[type[nn.Module], tuple[Construct, ...]]:
    return {
        nn.ChannelShuffle: (_image(2),),
        nn.Flatten: (_image(), _image(0, 2)),
        nn.Fold: (
            _one((4, 5), (2, 3), shapes=[(2, 24, 9)]),
            _one((4, 5), (2, 3), padding=1, stride=(2, 1), shapes=[(2, 24, 15)]),
            _one((6, 7), (2, 3), dilation=2, shapes=[(24, 12)]),
        ),
        nn.Identity: (_image(),),
        nn.PixelShuffle: (_image(2),),
        nn.PixelUnshuffle: (_image(3),),
        nn.Unflatten: (_image(1, (2, 2)),),
        nn.Unfold: (_image((2, 3)), _image((2, 3), dilation=2, padding=1, stride=2)),
    }


def _pooling() -> dict[type[nn.Module], tuple[Construct, ...]]:
    def unpool(dimensions: int, sizes: tuple[int, ...], exact: bool) -> Construct:
        pool = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[dimensions - 1]

        def construct(make: Make) -> tuple[FunctionInput, FunctionInput]:
            image = make(2, 3, *sizes)
            pooled, indices = pool(image, 2, return_indices=True)
            return _given(2), _given(pooled, indices, sizes if exact else None)

        return construct

    return {
        nn.MaxUnpool1d: (unpool(1, (8,), False), unpool(1, (9,), True)),
        nn.MaxUnpool2d: (unpool(2, (6, 8), False), unpool(2, (7, 9), True)),
        nn.MaxUnpool3d: (unpool(3, (4, 6, 8), False), unpool(3, (5, 7, 9), True)),
        nn.MaxPool2d: (
            _image(3, 2, 1, return_indices=True),
            _image(2, dilation=2, ceil_mode=True),
        ),
        nn.AdaptiveMaxPool2d: (_image((4, 5), return_indices=True),),
        nn.AvgPool2d: (_image(3, 2, 1, count_include_pad=False, ceil_mode=True),),
    }


def _resizing() -> dict[type[nn.Module], tuple[Construct, ...]]:
    return {
        nn.Upsample: (
            _image(scale_factor=2),
            _image((5, 7), mode="nearest-exact"),
            _image(scale_factor=1.5, mode="bilinear"),
            _image((11, 3), mode="bilinear", align_corners=True),
            _image(scale_factor=(2, 0.5), mode="bicubic"),
            _one(scale_factor=2, mode="linear", shapes=[(2, 3, 7)]),
            _one(scale_factor=2, mode="trilinear", shapes=[(1, 2, 3, 4, 5)]),
        ),
        nn.UpsamplingBilinear2d: (_image(scale_factor=2),),
        nn.UpsamplingNearest2d: (_image((7, 11)),),
        nn.ConvTranspose2d: (
            _image(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
            _image(4, 3, (2, 3), dilation=2),
        ),
        nn.Conv2d: (
            _image(4, 6, 3, padding="same", padding_mode="circular"),
            _image(4, 4, (3, 2), padding=1, padding_mode="reflect", groups=4),
        ),
    }


def _embeddings() -> dict[type[nn.Module], tuple[Construct, ...]]:
    def bag(mode: str, weighted: bool = False, **kwargs: Any) -> Construct:
        def construct(make: Make) -> tuple[FunctionInput, FunctionInput]:
            words = make(3, 5, dtype=torch.int64, low=0, high=7)
            weights = make(3, 5) if weighted else None
            return _given(7, 4, mode=mode, **kwargs), _given(words, None, weights)

        return construct

    def offsets(mode: str, weighted: bool = False, **kwargs: Any) -> Construct:
        def construct(make: Make) -> tuple[FunctionInput, FunctionInput]:
            words = make(11, dtype=torch.int64, low=0, high=7)
            weights = make(11) if weighted else None
            # The second bag is empty.
            starts = torch.tensor([0, 3, 3, 8])
            return _given(7, 4, mode=mode, **kwargs), _given(words, starts, weights)

        return construct

    def words(**kwargs: Any) -> Construct:
        return lambda make: (
            _given(7, 4, **kwargs),
            _given(make(3, 5, dtype=torch.int64, low=0, high=7)),
        )

    modes = ("sum", "mean", "max")
    return {
        nn.EmbeddingBag: (
            *(bag(mode) for mode in modes),
            *(bag(mode, padding_idx=2) for mode in modes),
            *(offsets(mode) for mode in modes),
            *(offsets(mode, padding_idx=2) for mode in modes),
            bag("sum", weighted=True),
            offsets("sum", weighted=True),
        ),
        nn.Embedding: (words(padding_idx=1), words(max_norm=0.5)),
    }


def _norms() -> dict[type[nn.Module], tuple[Construct, ...]]:
    line, image, volume = [(4, 5, 6)], [(2, 3, 4, 5)], [(2, 3, 4, 5, 2)]
    return {
        nn.CrossMapLRN2d: (_one(3, shapes=image),),
        nn.LazyBatchNorm1d: (_one(shapes=line),),
        nn.LazyBatchNorm2d: (_one(shapes=image),),
        nn.LazyBatchNorm3d: (_one(shapes=volume),),
        nn.LazyInstanceNorm1d: (_one(shapes=line),),
        nn.LazyInstanceNorm2d: (_one(affine=True, shapes=image),),
        nn.LazyInstanceNorm3d: (_one(shapes=volume),),
        nn.LazyLinear: (_one(7, shapes=line),),
        nn.BatchNorm2d: (_one(3, momentum=None, shapes=image),),
    }


def _distances() -> dict[type[nn.Module], tuple[Construct, ...]]:
    pair, triple = [(4, 5)] * 2, [(4, 5)] * 3

    def adaptive(make: Make) -> tuple[FunctionInput, FunctionInput]:
        targets = torch.tensor([0, 5, 12, 3, 19, 15])
        return _given(8, 20, [4, 10, 15], div_value=2.0), _given(make(6, 8), targets)

    return {
        nn.AdaptiveLogSoftmaxWithLoss: (adaptive,),
        nn.CosineSimilarity: (_one(shapes=pair), _one(dim=0, shapes=pair)),
        nn.PairwiseDistance: (
            _one(shapes=pair),
            _one(p=1.0, keepdim=True, shapes=pair),
            _one(p=float("inf"), shapes=pair),
        ),
        nn.TripletMarginLoss: (
            _one(shapes=triple),
            _one(p=1.0, swap=True, reduction="none", shapes=triple),
        ),
        nn.TripletMarginWithDistanceLoss: (
            _one(shapes=triple),
            _one(distance_function=nn.PairwiseDistance(), swap=True, shapes=triple),
        ),
        nn.Hardsigmoid: (_one(shapes=pair[:1]),),
        **{
            dropout: (_image(),)
            for dropout in (nn.Dropout, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout)
        },
        nn.Dropout1d: (_one(shapes=[(2, 3, 4)]),),
        nn.Dropout3d: (_one(shapes=[(2, 3, 4, 5, 2)]),),
    }


def _sequences() -> dict[type[nn.Module], tuple[Construct, ...]]:
    """Batches of 7 steps: longer ones than those of the database."""

    def layer(states: int, **kwargs: Any) -> Construct:
        def construct(make: Make) -> tuple[FunctionInput, FunctionInput]:
            directions = 2 if kwargs.get("bidirectional") else 1
            layers = directions * kwargs.get("num_layers", 1)
            sizes = (kwargs.get("proj_size") or 5, 5)[:states]
            initial = tuple(make(layers, 3, size) for size in sizes)
            x = make(3, 7, 4) if kwargs.get("batch_first") else make(7, 3, 4)
            hidden = initial if states == 2 else initial[0] if states else None
            return _given(4, 5, **kwargs), _given(x, hidden)

        return construct

    forms: tuple[dict[str, Any], ...] = (
        {},
        {"num_layers": 2, "bidirectional": True, "batch_first": True},
        {"bias": False, "bidirectional": True},
    )
    return {
        nn.RNN: (
            *(layer(1, **form) for form in forms),
            layer(0, nonlinearity="relu", num_layers=2),
        ),
        nn.GRU: (*(layer(1, **form) for form in forms), layer(0, num_layers=2)),
        nn.LSTM: (
            *(layer(2, **form) for form in forms),
            layer(0, num_layers=2),
            layer(2, proj_size=3, num_layers=2, batch_first=True),
        ),
    }


def _attention() -> dict[type[nn.Module], tuple[Construct, ...]]:
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]])
    causal = nn.Transformer.generate_square_subsequent_mask(5).isinf()

    def heads(
        constructor: dict[str, Any], shapes: Sequence[tuple[int, ...]] | None = None, **call: Any
    ) -> Construct:
        def construct(make: Make) -> tuple[FunctionInput, FunctionInput]:
            tensors = [make(*shape) for shape in shapes or [(2, 5, 8)] * 3]
            given = {"num_heads": 2, "batch_first": True, **constructor}
            return _given(8, **given), _given(*tensors, **call)

        return construct

    def stack(
        layer: type[nn.Module], tensors: int, constructor: dict[str, Any] | None = None, **call: Any
    ) -> Construct:
        def construct(make: Make) -> tuple[FunctionInput, FunctionInput]:
            given = {"dropout": 0.0, "batch_first": True, **(constructor or {})}
            inputs = [make(2, 5, 8) for _ in range(tensors)]
            return _given(layer(8, 2, 16, **given), 2), _given(*inputs, **call)

        return construct

    encoder = partial(stack, nn.TransformerEncoderLayer, 1)
    decoder = partial(stack, nn.TransformerDecoderLayer, 2)
    memory = {"tgt_mask": causal, "tgt_key_padding_mask": padding}
    return {
        nn.MultiheadAttention: (
            heads({}),
            heads({}, need_weights=False),
            heads({}, average_attn_weights=False),
            heads({}, key_padding_mask=padding),
            heads({}, attn_mask=causal, is_causal=True, need_weights=False),
            heads({}, attn_mask=causal, key_padding_mask=padding, need_weights=False),
            heads({"batch_first": False}, shapes=[(5, 2, 8)] * 3, attn_mask=causal),
            heads({"add_bias_kv": True, "add_zero_attn": True}, need_weights=False),
            heads({"kdim": 3, "vdim": 6}, shapes=[(2, 4, 8), (2, 5, 3), (2, 5, 6)]),
        ),
        nn.TransformerEncoder: (
            encoder(),
            encoder(src_key_padding_mask=padding),
            encoder({"norm_first": True}, mask=causal, is_causal=True),
            encoder({"activation": "gelu"}, mask=causal, src_key_padding_mask=padding),
        ),
        nn.TransformerDecoder: (
            decoder(),
            decoder({"norm_first": True}, tgt_mask=causal, tgt_is_causal=True),
            decoder({"activation": "gelu"}, **memory, memory_key_padding_mask=padding),
        ),
    }
