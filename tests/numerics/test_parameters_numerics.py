"""Weights that are parameters are rewritten as constants are, when the program is loaded."""

import re

import numpy as np
import pytest

from helpers.harness import Batch, Case, section
from mlirfuse import targets

FIRES = {
    "linear": {"weight_packing_rewrite": 1},
    "merged_heads": {"matmul_horizontal_fusion": 1},
    "torch": {"conv_batch_norm_activation_fusion": 1},
}
"""Functions of the passes' lit files, whose weights become random ones."""

pytestmark = pytest.mark.skipif(
    not targets.parse("cpu").packed_matmul_tiles, reason="no CPU with AVX-512: nothing is packed"
)

TENSOR = re.compile(r"arith\.constant dense<[^>]*> : (tensor<([\dx]+)x(f\d+)>)")


def weights(name):
    """The text of a function, and random data for its weights in their order."""
    text = re.sub("//.*", "", section(name, *FIRES[name]))
    if name == "merged_heads":  # of f32 each matmul would be packed
        text = text.replace("f32", "f16")
    draws = np.random.default_rng(len(name))
    kinds = {"f16": np.float16, "f32": np.float32}
    return text, [
        draws.standard_normal([int(n) for n in sizes.split("x")]).astype(kinds[kind])
        for _, sizes, kind in TENSOR.findall(text)
    ]


def held(name, *, elsewhere):
    """The function with its weights as parameters, in both ways to write them, or as data."""
    text, arrays = weights(name)
    left, before = list(enumerate(arrays)), []

    def one(found):
        index, array = left.pop(0)
        kind = found[1]
        if not elsewhere:
            return f'arith.constant dense<"0x{array.tobytes().hex()}"> : {kind}'
        attribute = f'#flow.parameter.named<"model"::"{name}.{index}"> : {kind}'
        if index % 2:
            return f"flow.tensor.constant {attribute}"
        before.append(f"util.global private @{name}{index} = {attribute}")
        return f"util.global.load @{name}{index} : {kind}"

    return "\n".join([TENSOR.sub(one, text), *before])


def linear(x, bias):
    (w,) = wide("linear")
    return (x @ w.T + bias,)


def merged_heads(x):
    wq, bq, wk, bk = wide("merged_heads")
    return tuple(np.abs((x @ w.T + b).reshape(16, -1, 8)) for w, b in ((wq, bq), (wk, bk)))


def torch(x):
    w, *vectors = wide("torch")
    bias, scale, shift = (v[:, None] for v in vectors)
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=2)
    sums = np.einsum("ncwq,fcq->nfw", windows, w)
    return (np.maximum((sums + bias) * scale + shift, 0.0),)


def wide(name):
    return [array.astype(np.float64) for array in weights(name)[1]]


INPUTS = {
    "linear": (np.float32, (24, 16), (64,)),
    "merged_heads": (np.float16, (16, 16)),
    "torch": (np.float32, (4, 2, 10)),
}


def batch(*, elsewhere):
    draws = np.random.default_rng(1)
    cases = [
        Case(
            name=reference.__name__,
            text=held(reference.__name__, elsewhere=elsewhere),
            inputs={"normal": tuple(draws.standard_normal(s).astype(kind) for s in shapes)},
            reference=reference,
            fires=FIRES[reference.__name__],
            ulps=16,
            computed="f16" if kind is np.float16 else "f32",
        )
        for reference in (linear, merged_heads, torch)
        for kind, *shapes in [INPUTS[reference.__name__]]
    ]
    arrays = {f"{c.name}.{n}": a for c in cases for n, a in enumerate(weights(c.name)[1])}
    return Batch(
        cases=cases,
        pipeline=",".join(name for fires in FIRES.values() for name in fires),
        switches={
            "enable_pass": ("matmul_horizontal_fusion",),
            "disable_feature": ("kernels",),
        },
        parameters=arrays if elsewhere else {},
    )


def test_parameters_act_like_constants():
    given, known = (batch(elsewhere=elsewhere).run() for elsewhere in (True, False))
    for name, outcome in given.items():
        outcome.check()
        assert outcome.fired == known[name].fired
        # The producers of the weights run when the program is loaded.
        assert outcome.dispatches["fused"] == known[name].dispatches["fused"]
        pairs = zip(outcome.fused["normal"], known[name].fused["normal"], strict=True)
        assert all(one.tobytes() == other.tobytes() for one, other in pairs)
