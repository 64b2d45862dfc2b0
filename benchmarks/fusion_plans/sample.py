"""Random fusion plans over ops, shapes, layouts and element types, the same for one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from mlirfuse.fusion_plan import ops
from mlirfuse.fusion_plan.activations import ACTIVATIONS
from mlirfuse.fusion_plan.codes import Refusal
from mlirfuse.fusion_plan.description import Description
from mlirfuse.fusion_plan.ops import Op
from mlirfuse.fusion_plan.tensors import DTYPES, TensorSpec

_SIZES = (1, 2, 5, 7, 8, 13, 14, 16, 28, 33)
_CHANNELS = (1, 3, 4, 8, 12, 16, 32, 40)
_ROWS = (1, 2, 4, 7, 16, 31, 64, 100)
_COLUMNS = (1, 3, 8, 17, 32, 50, 64, 128, 200, 384, 1000)
_MANY_COLUMNS = (20000, 100000)
_MANY_CHANNELS = (256, 512)
_RARELY = 0.1
"""Share of the plans with few rows of many columns or few pixels of many channels, which kernels
may split."""

_TRANSPOSED = 0.15
"""Share of the convolutions that are transposed."""


def plans(seed: int) -> Iterator[Description]:
    """An endless sequence of plans whose tensors fit their ops."""
    rng = random.Random(seed)
    while True:
        made = _plan(rng)
        try:
            made.derived()
        except Refusal:
            continue
        yield made


def _plan(rng: random.Random) -> Description:
    kind = rng.choice(("conv", "conv", "conv", "pool", "training", "rows", "rows", "matmul", ""))
    images = kind in ("conv", "pool", "training") or (not kind and rng.random() < 0.5)
    spec = _image(rng) if images else _rows(rng)
    chain: list[Op] = []
    if kind == "rows" and rng.random() < 0.4:
        chain.append(_pointwise(rng, images))
    if kind:
        chain.append(_root(rng, kind, spec))
    else:
        chain.append(_pointwise(rng, images))
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4))):
        chain.append(_pointwise(rng, images))
    if rng.random() < 0.1:
        chain.append(ops.Quantize())
    return Description(spec, tuple(chain))


def _image(rng: random.Random) -> TensorSpec:
    layout = rng.choice(("NCHW", "NCHW", "NHWC", "NHWC", "NCW", "NWC", "NCDHW", "NDHWC"))
    largest = 8 if "D" in layout else 33
    sizes = {letter: rng.choice([s for s in _SIZES if s <= largest]) for letter in "DHW"}
    sizes |= {"N": rng.choice((1, 2, 3)), "C": rng.choice(_CHANNELS)}
    if rng.random() < _RARELY:
        sizes = {letter: min(size, 7) for letter, size in sizes.items()}
        sizes["C"] = rng.choice(_MANY_CHANNELS)
    return TensorSpec(tuple(sizes[letter] for letter in layout), rng.choice(DTYPES), layout)


def _rows(rng: random.Random) -> TensorSpec:
    if rng.random() < _RARELY:
        shape = (rng.choice((1, 2, 4)), rng.choice(_MANY_COLUMNS))
        return TensorSpec(shape, rng.choice(DTYPES))
    shape = [rng.choice(_ROWS) for _ in range(rng.choice((1, 1, 2)))]
    return TensorSpec((*shape, rng.choice(_COLUMNS)), rng.choice(DTYPES))


def _pointwise(rng: random.Random, images: bool) -> Op:
    kind = rng.choice(("bias", "activation", "activation", "residual", "batch_norm"))
    if kind == "bias":
        return ops.Bias()
    if kind == "residual":
        return ops.Residual()
    if kind == "batch_norm" and images:
        return ops.BatchNormInference(rng.choice(ops.MODES))
    return ops.ActivationForward(rng.choice(tuple(ACTIVATIONS)))


def _root(rng: random.Random, kind: str, spec: TensorSpec) -> Op:
    if kind == "conv":
        window = rng.choice((1, 1, 2, 3, 3, 3, 5, 7))
        groups = rng.choice((1, 1, 1, 2, spec.channels))
        filters = spec.channels if groups == spec.channels else groups * rng.choice((1, 2, 4, 8))
        padding = rng.choice((0, window // 2))
        stride, dilation = rng.choice((1, 1, 2)), rng.choice((1, 1, 1, 2))
        windows = (window, stride, padding, dilation, groups)
        if rng.random() < _TRANSPOSED:
            output_padding = rng.randrange(max(stride, dilation))
            return ops.ConvForward(filters, *windows, "transpose", output_padding)
        return ops.ConvForward(filters, *windows)
    if kind == "pool":
        window = rng.choice((2, 3, 5))
        padding = rng.choice((0, window // 2))
        return ops.Pool(rng.choice(ops.POOLS), window, rng.choice((1, 2, 3)), padding)
    if kind == "training":
        mode = rng.choice(ops.MODES)
        return rng.choice((ops.BatchNormForwardTraining(mode), ops.BatchNormBackward(mode)))
    if kind == "matmul":
        return ops.Matmul(rng.choice(_COLUMNS), rng.random() < 0.5)
    axes = rng.choice(((-1,), (-1,), (0,), (0, -1)))
    reduce = ops.Reduce(rng.choice(ops.REDUCTIONS), axes)
    return rng.choice((ops.Norm(rng.choice(ops.NORMS)), ops.Softmax(), reduce))
