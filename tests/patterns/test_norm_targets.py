"""The norm passes' groups become code on every target, or are refused with a reason."""

import pytest

import mlirfuse
from helpers import gpus
from helpers.linalg_text import Function
from helpers.norm_text import WRITINGS, group_norm_text, quantized, silu
from mlirfuse.core import Reason


def norm(
    name: str,
    writing: str,
    *,
    dtype: str = "f32",
    shape: tuple[int, ...] = (64,),
    rows: int | None = 8,
    add: bool = True,
    affine: tuple[str | None, ...] = (),
    quantize: bool = False,
) -> str:
    """A norm over all dimensions of `shape`; its residual add is a result too."""
    f = Function(name, (rows, *shape))
    everything, axes = tuple(range(1 + len(shape))), tuple(range(1, 1 + len(shape)))
    x = f.argument(everything, dtype)
    total = f.apply("arith.addf", x, f.argument(everything, dtype)) if add else x
    parts = [None if kind is None else f.argument(axes, kind) for kind in affine]
    y = WRITINGS[writing](f, total, axes, *parts, stats="f32")
    if quantize:
        y = quantized(f, y, f.argument(axes, "f32"), None)
    return f.finish(y, *([total] if add else []))


def activated() -> str:
    """SiLU after a layer norm of dynamic rows."""
    f = Function("silu_f16", (None, 64))
    x = f.argument((0, 1), "f16")
    return f.finish(silu(f, WRITINGS["layer_norm"](f, x, (1,), None, None, stats="f32")))


def across_reshape() -> str:
    """The add on flat rows, the norm on the rows of a batch together."""
    f = Function("v3_across_reshape", (3, 4, 12, 32))
    flat = f.apply("arith.addf", f.argument((2, 3), "f32"), f.argument((2, 3), "f32"))
    total = f.reshape(flat, (0, 1, 3), "[[0, 1], [2]]")
    return f.finish(WRITINGS["layer_norm"](f, total, (1, 3), None, None, stats="f32"), flat)


PROGRAMS = {
    "add_layer_norm_fusion": [
        norm("add_layer_norm", "layer_norm", affine=("f32", "f32")),
        norm("add_layer_norm_f16", "layer_norm", dtype="f16", rows=None, affine=("f16", "f16")),
    ],
    "add_layer_norm_v3_fusion": [
        norm("v3", "layer_norm", shape=(4, 16), affine=("f32", "f32")),
        norm("v3_f16", "layer_norm", dtype="f16", shape=(4, 16), affine=("f16", None)),
        across_reshape(),
    ],
    "add_layer_norm_ext_fusion": [
        norm("ext", "layer_norm", affine=("f32", None)),
        norm("ext_f16", "layer_norm", dtype="f16", rows=None, affine=("f32", "f32")),
    ],
    "add_rms_norm_fusion": [norm("add_rms_norm", "rms_norm", affine=("f32",))],
    "add_cast_rms_norm_cast_fusion": [
        norm("cast_f16", "rms_norm", dtype="f16", affine=("f16",)),
        norm("cast_bf16", "rms_norm", dtype="bf16", rows=None, affine=("bf16",)),
    ],
    "rms_norm_quant_fusion": [
        norm("quant", "rms_norm", add=False, affine=("f32",), quantize=True),
        norm("quant_f16", "rms_norm", dtype="f16", add=False, affine=("f16",), quantize=True),
    ],
    "add_rms_norm_quant_fusion": [
        norm("add_quant", "rms_norm", affine=("f32",), quantize=True),
        norm("add_quant_f16", "rms_norm", dtype="f16", rows=None, affine=("f16",), quantize=True),
    ],
    "group_norm_fusion": [
        group_norm_text("group_norm", "f32", 2, 4, 2, 16),
        group_norm_text("group_norm_f16", "f16", None, 4, 2, 16, channels_last=True),
        group_norm_text("instance_norm", "f32", 2, 4, 1, 16),
    ],
    "norm_epilogue_fusion": [activated()],
}
"""Pass -> functions that it fuses in the default preset."""


@pytest.mark.parametrize("target", ["cpu", *gpus.PARAMETERS])
def test_compiles(target):
    text = "\n".join(f for functions in PROGRAMS.values() for f in functions)
    report = mlirfuse.compile(text, target=target, function="v3", cache=False).report
    expected = {name: len(functions) for name, functions in PROGRAMS.items()}
    vulkan = target.startswith("vulkan")
    if vulkan:
        expected["group_norm_fusion"] = 1
    counts = report.counts()
    assert {name: counts.get(name, 0) for name in PROGRAMS} == expected
    refused = [d for d in report.decisions if d.pass_name in PROGRAMS and d.reason]
    several = {"group_norm", "group_norm_f16"} if vulkan else set()
    unsupported = [d for d in refused if d.reason is Reason.TARGET_UNSUPPORTED]
    assert {d.function.partition("$")[0] for d in unsupported} == several
    assert {d.detail for d in unsupported} <= {"more than one channel per group"}
    assert Reason.FELL_BACK not in {d.reason for d in refused}
