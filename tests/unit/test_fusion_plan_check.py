"""`FusionPlan.check`: one kernel or a code for each reason, and the nearest plan that is one."""

import subprocess
import sys

import pytest

from mlirfuse import targets
from mlirfuse.core import UsageError
from mlirfuse.fusion_plan import Code, FusionPlan, TensorSpec, rules
from mlirfuse.fusion_plan.check import fits
from mlirfuse.fusion_plan.description import Description
from mlirfuse.fusion_plan.text import parse
from mlirfuse.kernels import triton_compiler

IMAGE = "2x8x16x16xf32"


def plan(text, spec=IMAGE, layout="", target="cpu"):
    return FusionPlan.of(parse(text, TensorSpec.parse(spec, layout)), target)


def conv(*parameters, **named):
    made = FusionPlan(input=TensorSpec.parse(IMAGE, ""))
    made.conv_forward(*parameters, **named)
    return made


needs_triton = pytest.mark.skipif(triton_compiler.missing() is not None, reason="no Triton")

REFUSED = [
    (Code.ORDER, plan("relu -> conv 8"), "conv_forward before activation"),
    (Code.ORDER, plan("conv 8 -> bias -> softmax"), "without softmax"),
    (Code.ORDER, plan("conv 8 -> quantize -> relu"), "activation before quantize"),
    (Code.LAYOUT, plan("matmul 8"), "input of 256x16xf32"),
    (Code.LAYOUT, plan("conv 8", "2x8x16xf32"), "layout NCW"),
    (Code.DTYPE, plan("conv 8", "2x8x16x16xi8"), "input of f16"),
    (Code.SHAPE, plan("conv 8 g3"), "groups=1"),
    (Code.SHAPE, plan("attention", "8x16xf32"), "input of 1x1x8x16xf32"),
    (Code.FILTER_SIZE, plan("conv 8 k17"), "kernel=3"),
    (Code.FILTER_SIZE, plan("maxpool", "1x8x1x1xf32"), "kernel=1"),
    (Code.STRIDE, plan("conv 8 s0"), "stride=1"),
    (Code.PADDING, plan("maxpool k3 p2"), "padding=0"),
    (Code.MODE, plan("conv 8 mirrored"), "mode=convolution"),
    (Code.MODE, plan("batch_norm per_channel"), "mode=spatial"),
    (Code.SHAPE, conv(0), "filters=1"),
    (Code.SHAPE, conv("8"), "filters=8"),
    (Code.SHAPE, conv(8, kernel=2.5), "kernel=3"),
    (Code.PADDING, conv(8, padding=-1), "padding=0"),
    (Code.PADDING, conv(8, padding=17, mode="transpose"), "padding=0"),
    (Code.PADDING, conv(8, output_padding=1), "output_padding=0"),
    (Code.PADDING, conv(8, stride=2, mode="transpose", output_padding=2), "output_padding=0"),
    (Code.FILTER_SIZE, conv(8, dilation=0), "dilation=1"),
    (Code.SHAPE, plan("attention 0", "1x2x8x16xf32"), "keys=None"),
    (Code.SHAPE, plan("matmul 0", "4x8xf32"), "n=1"),
    (Code.SHAPE, conv(None), "filters=1"),
    (Code.ACTIVATION, plan("conv 8 -> activation mish"), "mode=relu"),
    (Code.MISSING_OP, plan(""), "activation added"),
    (Code.MISSING_OP, plan("pasthru"), "mode=relu"),
    (Code.DTYPE, plan("matmul 8", "4x8xbf16", target="vulkan"), "input of f16"),
    (Code.SHAPE, plan("conv 3x3 8 transpose", "2x32x9x9xf32", target="vulkan"), "convolution"),
    (Code.SHAPE, plan("conv 3x3 p1 8", "2x9x9x256xf32", "NHWC", target="vulkan"), "padding=0"),
    (Code.SHAPE, plan("sum -> relu", "1x99xf32", target="vulkan"), "activation before reduce"),
    (Code.MODE, plan("batch_norm_backward per_activation", target="vulkan"), "mode=spatial"),
    (Code.LAYOUT, plan("batch_norm_backward", layout="NHWC", target="vulkan"), "layout NCHW"),
    (Code.TARGET, plan("attention", "1x2x8x16xf32", target="vulkan"), "target cpu"),
    (Code.OPERANDS, plan(" -> ".join(["batch_norm"] * 8)), "without batch_norm_inference"),
    (
        Code.ORDER,
        plan("softmax -> conv 8 -> softmax -> layer_norm -> conv 8 -> bias"),
        "without softmax, without conv_forward",
    ),
    (Code.DTYPE, plan("conv 8 -> sum -> attention", "4x8x9x9xf64"), "input of f16, without reduce"),
]


@pytest.mark.parametrize(("code", "refused", "edit"), REFUSED)
def test_codes_and_the_nearest_plan(code, refused, edit):
    answer = refused.check()
    assert answer.code is code
    assert not answer
    assert answer.nearest
    assert edit in ", ".join(answer.edits)


@pytest.mark.parametrize("refused", [refused for _, refused, _ in REFUSED])
def test_the_nearest_plan_is_one_kernel(refused):
    """The text of the nearest plan can be read again, and it is one kernel."""
    answer = refused.check()
    text, _, target = answer.nearest.partition(" on ")
    first, *ops = text.split(" -> ")
    spec, _, layout = first.partition(" ")
    near = parse(" -> ".join(ops), TensorSpec.parse(spec, layout))
    assert fits(near, targets.parse(target or "cpu"))


def test_every_code_has_a_plan():
    made = {code for code, _, _ in REFUSED}
    when_compiled = {
        *(Code.ONE_KERNEL, Code.SEVERAL_KERNELS, Code.NOT_COMPILED, Code.MISSING_ARGUMENT),
    }
    assert made | when_compiled == set(Code)


@needs_triton
@pytest.mark.parametrize("target", rules.TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    "text",
    [
        "conv 3x3 s2 p1 16 -> bias -> batch_norm -> relu",
        "conv 3x3 p1 16 -> bias -> leaky_relu",
        "conv 1x1 16 -> batch_norm -> elu",
        "conv 5x5 p2 16 -> tanh",
        "conv 3x3 16 -> batch_norm",
        "batch_norm -> power",
        "batch_norm per_activation -> clipped_relu",
    ],
)
def test_combinations_of_miopen(text, dtype, target):
    assert plan(text, f"2x8x16x16x{dtype}", target=target).check()


@needs_triton
@pytest.mark.parametrize(
    ("target", "text", "fits"),
    [
        ("cuda:sm_90", "1x1", (False, False)),
        ("cuda:sm_90", "3x3", (True, True)),
        ("rocm:gfx942", "1x1", (False, False)),
        ("rocm:gfx942", "3x3", (True, False)),
        ("cpu", "1x1", (True, True)),
    ],
)
def test_gathers_in_sums_that_iree_distributes(target, text, fits):
    """Transposed convolutions of 128 channels, first and last."""
    text = f"conv_transpose {text} s2 8"
    first = plan(text, "2x128x9x9xf32", target=target)
    last = plan(text, "2x9x9x128xf32", "NHWC", target=target)
    assert (bool(first.check()), bool(last.check())) == fits


@needs_triton
@pytest.mark.parametrize("target", rules.TARGETS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "text",
    [
        "conv 3x3 s2 p1 16 transpose -> bias -> relu",
        "conv_transpose 3x3 s2 p1 op1 16 -> bias -> relu",
        "conv 3x3 p1 16 g4 -> bias -> relu",
        "depthwise 3x3 p1 -> bias -> relu",
        "conv 1x1 16 g4",
        "conv 3x3 p1 1",
        "avgpool 3x3 s2 p1",
        "maxpool 11x11 p5",
    ],
)
def test_windows_of_any_form(text, layout, target):
    assert plan(text, "2x12x12x12xf32", layout, target).check()


@needs_triton
@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90", "rocm:gfx942"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCW"])
@pytest.mark.parametrize("mode", ["spatial", "per_activation"])
def test_training(mode, layout, target):
    spec = "1x8x16xf16" if layout == "NCW" else "2x8x16x16xf16"
    assert plan(f"batch_norm_training {mode} -> relu", spec, layout, target).check()
    assert plan(f"relu_backward -> batch_norm_backward {mode}", spec, layout, target).check()


def test_a_check_imports_no_compiler():
    code = (
        "import sys; from mlirfuse.plan import FusionPlan, TensorSpec\n"
        "plan = FusionPlan(input=TensorSpec((1, 8, 9, 9)), target='vulkan')\n"
        "plan.conv_forward(8); plan.bias(); assert plan.check()\n"
        "assert 'iree.compiler' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_tensors_are_derived():
    made = plan("conv 3x3 s2 p1 16 g2 -> bias -> batch_norm_training -> relu", "2x8x16x16xf16")
    conv, _bias, norm, _relu = made.ops
    assert conv.tensors["weights"].shape == (16, 4, 3, 3)
    assert norm.tensors["input"].shape == (2, 16, 8, 8)
    assert norm.tensors["saved_mean"] == TensorSpec((16,), "f32")
    assert str(made.output) == "2x16x8x8xf16"
    last = plan("conv 3x3 16", "2x16x16x8xf32", "NHWC")
    assert last.ops[0].tensors["weights"].shape == (16, 3, 3, 8)
    assert last.output.shape == (2, 14, 14, 16)


def test_descriptions_are_values():
    made = plan("conv 3x1 s2 p1x0 16 -> bias -> relu").description
    assert Description.from_dict(made.to_dict()) == made
    assert hash(Description.from_dict(made.to_dict())) == hash(made)
    with pytest.raises(UsageError, match="unknown op 'konv'"):
        Description.from_dict({"input": made.to_dict()["input"], "ops": [{"kind": "konv"}]})


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("convolve 8", "did you mean"),
        ("conv 8 -> bias x3", "'x3'"),
        ("conv", "needs a number"),
        ("conv 8 stride=fast", "no number"),
    ],
)
def test_mistakes_in_a_text_are_named(text, fragment):
    with pytest.raises(UsageError, match=fragment):
        plan(text)


@pytest.mark.parametrize(
    ("shape", "layout", "fragment"),
    [((1, 0), "", "positive"), ((1, 2, 3, 4), "NHCW", "unknown layout"), ((1, 2), "NCW", "dimens")],
)
def test_tensors_are_checked(shape, layout, fragment):
    with pytest.raises(UsageError, match=fragment):
        TensorSpec(shape, "f32", layout)


def test_directions_are_checked():
    with pytest.raises(UsageError, match="unknown direction"):
        FusionPlan(input=TensorSpec((1, 2)), direction="horizontal")
