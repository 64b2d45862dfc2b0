"""Fusion plans: one kernel, for all values of the arguments, against the ops one by one."""

import concurrent.futures
import dataclasses

import numpy as np
import pytest

from helpers import plan_reference, software_vulkan
from mlirfuse.core import CallError, UsageError
from mlirfuse.fusion_plan import (
    ACTIVATIONS,
    Code,
    FusionPlan,
    FusionPlanError,
    TensorSpec,
    compiled,
)
from mlirfuse.fusion_plan.ops import (
    ActivationBackward,
    ActivationForward,
    Attention,
    BatchNormBackward,
    BatchNormForwardTraining,
    BatchNormInference,
    Bias,
    ConvForward,
    Matmul,
    Norm,
    Pool,
    Quantize,
    Reduce,
    Residual,
    Softmax,
)
from mlirfuse.runtime.arrays import numpy_dtype
from mlirfuse.support.subprocess import run_tool

TOLERANCE = {"f32": 2e-5, "f16": 2e-3, "bf16": 1.6e-2}
"""Largest error over the largest result: a rounding of the output, and f32 sums."""

OFTEN = ["f32", *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("f16", "bf16"))]


@pytest.fixture(autouse=True)
def _private(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MLIRFUSE_FIND_DB", str(tmp_path / "find.json"))


def image(layout="NCHW", dtype="f32", channels=8, size=9):
    sizes = {"N": 2, "C": channels, "H": size, "W": size, "D": size}
    return TensorSpec(tuple(sizes[letter] for letter in layout), dtype, layout)


def planned(spec, *ops, target="cpu"):
    plan = FusionPlan(input=spec, target=target)
    for op in ops:
        plan.add(op)
    return plan


def check_numerics(plan, **scalars):
    """Compiles and compares all results with float64."""
    plan.compile(timeout=300)
    x, values = plan_reference.random_values(plan.description)
    for index, derived in enumerate(plan.derived()):
        for name in scalars.keys() & derived.arguments.keys():
            values.setdefault((index, name), scalars[name])
    args = plan.args()
    for (index, name), value in values.items():
        args.set(index, **{name: value})
    made = plan.execute(x, args=args)
    made = made if isinstance(made, tuple) else (made,)
    for got, want in zip(made, plan_reference.run(plan.description, x, values), strict=True):
        error = np.abs(got.astype(np.float64) - want).max()
        limit = 1 if plan.output.dtype == "i8" else TOLERANCE[plan.input.dtype]
        scale = 1 if plan.output.dtype == "i8" else max(1.0, np.abs(want).max())
        assert error <= limit * scale
    return plan


CONVS = {
    "3x3": ConvForward(16, 3, padding=1),
    "1x1": ConvForward(16, 1),
    "stride": ConvForward(16, 3, stride=2, padding=1),
    "dilated": ConvForward(16, 3, dilation=2, padding=2),
    "oblong": ConvForward(16, (1, 3), stride=(2, 1), padding=(0, 1)),
    "grouped": ConvForward(16, 3, groups=2),
    "grouped, padded": ConvForward(16, 3, padding=1, groups=2),
    "grouped 1x1": ConvForward(16, 1, groups=2),
    "depthwise": ConvForward(8, 3, groups=8),
    "depthwise, padded": ConvForward(8, 3, padding=1, groups=8),
    "one filter": ConvForward(1, 3, padding=1),
    "one window": ConvForward(16, 3, stride=20, padding=1),
    "transposed": ConvForward(16, 3, stride=2, padding=1, mode="transpose"),
    "transposed, padded output": ConvForward(6, 3, 2, 1, mode="transpose", output_padding=(1, 0)),
    "transposed, grouped": ConvForward(16, (3, 2), dilation=(2, 1), groups=2, mode="transpose"),
}

TAILS = {
    "C": (),
    "CA": (ActivationForward("relu"),),
    "CN": (BatchNormInference(),),
    "CBA": (Bias(), ActivationForward("leaky_relu")),
    "CNA": (BatchNormInference(), ActivationForward("tanh")),
    "CBNA": (Bias(), BatchNormInference(), ActivationForward("elu")),
    "CBNRA": (Bias(), BatchNormInference(), Residual(), ActivationForward("clipped_relu")),
}


@pytest.mark.parametrize("layout", ["NCHW", pytest.param("NHWC", marks=pytest.mark.slow)])
@pytest.mark.parametrize("conv", CONVS)
def test_convolutions(conv, layout):
    check_numerics(planned(image(layout), CONVS[conv], *TAILS["CBA"]), alpha=0.25)


@pytest.mark.parametrize("dtype", OFTEN)
@pytest.mark.parametrize("tail", TAILS)
def test_combinations_of_convolutions(tail, dtype):
    check_numerics(planned(image("NCHW", dtype), CONVS["3x3"], *TAILS[tail]), alpha=0.5)


@pytest.mark.parametrize("mode", ["spatial", "per_activation"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_batch_norms(layout, mode):
    check_numerics(planned(image(layout), BatchNormInference(mode), ActivationForward("silu")))
    check_numerics(
        planned(image(layout), BatchNormForwardTraining(mode), ActivationForward("relu")),
        momentum=0.3,
    )


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("mode", ["spatial", "per_activation"])
def test_gradients_of_batch_norms(mode, layout):
    relu = ActivationBackward("relu")
    check_numerics(planned(image(layout), relu, BatchNormBackward(mode)))
    check_numerics(planned(image(layout, "f16"), relu, BatchNormBackward(mode), Bias()))


def test_on_vulkan(vulkan):
    """Windows at computed positions, and the reductions of a batch norm in one group."""
    try:
        for conv in (CONVS["grouped, padded"], CONVS["transposed"]):
            check_numerics(planned(image(), conv, Bias(), target=vulkan))
        check_numerics(planned(image(), BatchNormForwardTraining(), target=vulkan))
        check_numerics(planned(image(), BatchNormBackward(), Bias(), target=vulkan))
    finally:
        compiled.forget()
        software_vulkan.free()


def test_the_batch_norm_of_one_image():
    """The sides of the image are 1 and are dropped behind barriers of IREE."""
    spec = TensorSpec((1, 12, 2, 13), "bf16", "NCHW")
    check_numerics(planned(spec, BatchNormForwardTraining(), Residual()))


@pytest.mark.parametrize("mode", [mode for mode in ACTIVATIONS if mode != "pasthru"])
def test_activations_and_their_gradients(mode):
    scalars = {"alpha": 0.5, "beta": 1.25, "gamma": 1.5}
    check_numerics(planned(TensorSpec((7, 33)), ActivationForward(mode)), **scalars)
    check_numerics(planned(TensorSpec((7, 33)), ActivationBackward(mode)), **scalars)


ROWS = {
    "linear": (Matmul(40, transposed=True), Bias(), ActivationForward("gelu")),
    "matmul, residual": (Matmul(48), Bias(), Residual()),
    "matmul, quantize": (Matmul(40), Bias(), Quantize()),
    "layer norm": (Norm("layer"), ActivationForward("silu")),
    "residual, RMS norm, quantize": (Residual(), Norm("rms"), Quantize()),
    "softmax": (Bias(), Softmax()),
    "mean": (ActivationForward("abs"), Reduce("mean"), ActivationForward("tanh")),
}


@pytest.mark.parametrize("dtype", OFTEN)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, dtype):
    check_numerics(planned(TensorSpec((24, 48), dtype), *ROWS[name]), scale=0.05)


@pytest.mark.parametrize("mode", ["max", "average", "average_inclusive"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_poolings(layout, mode):
    pool = Pool(mode, 3, stride=2, padding=1)
    check_numerics(planned(image(layout), pool, ActivationForward("leaky_relu")), alpha=0.1)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves(dtype):
    check_numerics(planned(image("NHWC", dtype), CONVS["3x3"], *TAILS["CBNA"]), alpha=0.5)
    check_numerics(planned(TensorSpec((24, 48), dtype), *ROWS["linear"]))


def test_attention():
    check_numerics(planned(TensorSpec((2, 3, 32, 16)), Attention(40), ActivationForward("relu")))


def test_images_of_three_dimensions():
    check_numerics(planned(image("NCDHW", size=5), ConvForward(4, 3), Bias()))


def cba(**changes):
    plan = planned(image(), CONVS["3x3"], Bias(), ActivationForward("leaky_relu"), **changes)
    x, values = plan_reference.random_values(plan.description)
    args = plan.args()
    args.set_conv(0, weights=values[0, "weights"])
    args.set_bias(1, values[1, "bias"])
    return plan, x, args


def test_a_plan_runs_when_it_is_compiled_and_unchanged():
    plan, x, args = cba()
    with pytest.raises(FusionPlanError) as raised:
        plan.execute(x, args=args)
    assert raised.value.code is Code.NOT_COMPILED
    assert plan.compile().is_compiled
    plan.execute(x, args=args)
    plan.activation("relu")
    with pytest.raises(FusionPlanError) as raised:
        plan.execute(x, args=args)
    assert raised.value.code is Code.NOT_COMPILED


def test_one_kernel_serves_all_values():
    plan, x, args = cba()
    plan.compile()
    module = plan._program().module
    for alpha in (0.0, 0.3, -2.0):
        args.set_activation(2, alpha=alpha)
        got = plan.execute(x, args=args)
        args.set_activation(2, alpha=1.0)
        linear = plan.execute(x, args=args)
        np.testing.assert_allclose(got, np.where(linear > 0, linear, alpha * linear), rtol=1e-6)
    assert plan._program().module is module
    assert len(module.kernels) == 1


def test_arguments_are_checked():
    plan, x, args = cba()
    plan.compile()
    with pytest.raises(FusionPlanError) as raised:
        plan.execute(x)
    assert raised.value.code is Code.MISSING_ARGUMENT
    with pytest.raises(UsageError, match="no argument 'weight'"):
        args.set(0, weight=x)
    with pytest.raises(UsageError, match="beta"):
        args.set_conv(0, beta=1.0, weights=x)
    args.set_bias(1, np.zeros(3, np.float32))
    with pytest.raises(CallError):
        plan.execute(x, args=args)


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
def test_a_number_is_the_argument_of_a_tensor_without_dimensions(kind):
    plan = planned(TensorSpec((4, 32), "bf16"), Reduce("sum", (0, 1)), Residual()).compile()
    args = plan.args()
    args.set_residual(1, 0.5)
    x = np.ones((4, 32), numpy_dtype("bf16"))
    if kind == "torch":
        x = pytest.importorskip("torch").ones(4, 32).bfloat16()
    if kind == "jax":
        x = pytest.importorskip("jax.numpy").asarray(x)
    assert float(plan.execute(x, args=args)) == 128.0


def test_arguments_belong_to_the_ops_of_a_plan():
    plan, x, args = cba()
    before = plan.args()
    conv, _bias, activation = plan.ops
    other = planned(TensorSpec((4, 8)), ActivationForward("leaky_relu"))
    with pytest.raises(UsageError, match="no activation"):
        args.set_activation(conv, alpha=0.5)
    for op in (other.ops[0], 3, -1):
        with pytest.raises(UsageError, match="not of the plan"):
            args.set_activation(op, alpha=0.5)
    with pytest.raises(UsageError, match="'alpha' of activation is f32"):
        args.set_activation(activation, alpha="half")
    added = plan.activation("tanh")
    with pytest.raises(UsageError, match="not of the plan"):
        before.set_activation(added, alpha=0.5)
    plan.compile()
    with pytest.raises(UsageError, match="before an op was added"):
        plan.execute(x, args=before)
    with pytest.raises(UsageError, match="another plan"):
        plan.execute(x, args=other.args())


@pytest.mark.parametrize("number", [1, np.float64(1.0), np.int32(1), np.array(1.0)])
def test_scalars_are_numbers_of_any_type(number):
    plan, x, args = cba()
    plan.compile()
    want = plan.execute(x, args=args)
    args.set_activation(2, alpha=number)
    np.testing.assert_array_equal(plan.execute(x, args=args), want)


def test_output_into_an_array_and_torch_tensors():
    torch = pytest.importorskip("torch")
    plan, x, args = cba()
    plan.compile()
    want = plan.execute(x, args=args)
    out = np.empty(plan.output.shape, np.float32)
    assert plan.execute(x, out, args) is out
    np.testing.assert_array_equal(out, want)
    tensors = plan.args()
    tensors.set_conv(0, weights=torch.tensor(args._values[0, "weights"]))
    tensors.set_bias(1, torch.tensor(args._values[1, "bias"]))
    got = plan.execute(torch.tensor(x), args=tensors)
    assert isinstance(got, torch.Tensor)
    np.testing.assert_array_equal(got.numpy(), want)


def test_equal_descriptions_are_compiled_once():
    first, _, _ = cba()
    second, _, _ = cba()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda plan: plan.compile(), (first, second)))
    assert first._program() is second._program()
    compiled.forget()
    assert first.compile()._program() is not second._program()


def test_calls_from_threads():
    plan, x, args = cba()
    plan.compile()
    want = plan.execute(x, args=args)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: plan.execute(x, args=args), range(16)))
    for result in results:
        np.testing.assert_array_equal(result, want)


def test_a_saved_plan_is_loaded_and_runs_without_python(tmp_path):
    plan, x, args = cba()
    plan.compile().save(tmp_path / "plan.vmfb")
    loaded = FusionPlan.load(tmp_path / "plan.vmfb")
    assert loaded.description == plan.description
    want = plan.execute(x, args=args)
    np.testing.assert_array_equal(loaded.execute(x, args=args), want)
    flags = []
    for index, value in enumerate([x, *args.flat(plan._program().arguments, x)]):
        np.save(tmp_path / f"{index}.npy", value)
        flags.append(f"--input=@{tmp_path / f'{index}.npy'}")
    run_tool(
        "iree-run-module",
        [
            f"--module={tmp_path / 'plan.vmfb'}",
            "--device=local-task",
            "--function=main",
            *flags,
            f"--output=@{tmp_path / 'out.npy'}",
        ],
        stage="run",
    )
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), want)
    plan._program().module.save(tmp_path / "module.vmfb")
    with pytest.raises(UsageError, match="no fusion plan"):
        FusionPlan.load(tmp_path / "module.vmfb")


def test_find_stores_the_winner():
    plan, _, _ = cba()
    plan.compile(find=True)
    found = plan._program()
    assert found.times[found.strategy] == min(found.times.values())
    compiled.forget()
    assert plan.compile().strategy == found.strategy


def test_several_kernels_are_an_error(monkeypatch):
    """A rule that promises too much does not make a plan of two kernels."""
    from mlirfuse.fusion_plan import rules

    softmax = planned(image(), CONVS["3x3"], Softmax())
    assert softmax.check().code is Code.ORDER
    rule = next(r for r in rules.TABLE["cpu"] if "conv_forward" in r.roots)
    wrong = dataclasses.replace(rule, strategies=(rules.KERNELS,))
    monkeypatch.setattr(rules, "find", lambda plan, target: wrong)
    with pytest.raises(FusionPlanError) as raised:
        softmax.compile()
    assert raised.value.code is Code.SEVERAL_KERNELS
