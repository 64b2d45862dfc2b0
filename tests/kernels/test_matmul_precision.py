"""Matmuls of f32 and f64: every main loop, the input precision, and object code."""

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from helpers import kernel_runner
from helpers.conv_text import Conv, conv_text
from helpers.kernel_runner import draw, needs_triton, run
from helpers.linalg_text import Function
from mlirfuse import targets
from mlirfuse.core import CompileFailedError, UsageError
from mlirfuse.frontends import matmul_precision
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.codegen.dot_precision import dot_precision
from mlirfuse.kernels.matmul import cost_model, heuristics, selection
from mlirfuse.kernels.matmul.family import MATMUL
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.tuning import kernel_search

SM_90 = targets.parse("cuda:sm_90")
BOUND = {"f32": 1e-6, "f64": 1e-14}
"""Error of an element of the product over the norms of its row of A and column of B."""

CONFIGS = {
    "default": None,
    "tile": MatmulConfig(16, 32, 32, 4, 2),
    "split_k": MatmulConfig(16, 32, 64, 4, 3, split_k=4),
    "gemv": MatmulConfig(1, 16, 32, 4, 1),
}


def product_text(sizes, left, right, out, dtype):
    """A contraction with a bias and a magnitude."""
    f = Function("main", sizes)
    a, b = f.argument(left, dtype), f.argument(right, dtype)
    biased = f.apply("arith.addf", f.contract(a, b, out, dtype), f.argument((2,), dtype))
    return f.finish(f.apply("math.absf", biased))


def check_error(found, a, b, bias, spelled, dtype):
    a, b, bias = (x.astype(np.float64) for x in (a, b, bias))
    # Of normal numbers the norms of a row and a column are about the root of K.
    scale = np.sqrt(np.einsum(spelled, a * a, b * b).max() * a.shape[-1]) + np.abs(bias).max()
    error = np.abs(found - np.abs(np.einsum(spelled, a, b) + bias)).max()
    assert error <= BOUND[dtype] * scale


def check(interpreter, sizes, left, right, dtype):
    out = tuple(n for n in range(3) if n in (*left, *right))
    text = product_text(sizes, left, right, out, dtype)
    arrays = [draw([sizes[a] for a in axes], dtype, n) for n, axes in enumerate((left, right))]
    arrays.append(draw((sizes[2],), dtype, 3))
    (found,) = run(interpreter, text, "matmul", arrays, [tuple(sizes[a] for a in out)])
    spelled = ",".join("".join("bmnk"[n] for n in axes) for axes in (left, right))
    check_error(found, *arrays, spelled + "->" + "".join("bmnk"[n] for n in out), dtype)


@needs_triton
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("sizes", "left", "right"),
    [
        ((1, 37, 53, 71), (1, 3), (3, 2)),
        ((1, 16, 64, 128), (1, 3), (2, 3)),
        ((3, 17, 21, 65), (0, 3, 1), (0, 2, 3)),
        ((1, 1, 45, 70), (3,), (2, 3)),
    ],
)
def test_product(interpreter, monkeypatch, config, dtype, sizes, left, right):
    if config != "default":
        monkeypatch.setattr(selection, "choose_config", lambda *_: CONFIGS[config])
    if config == "gemv" and sizes[1] > 1:
        pytest.skip("a GEMV has one row")
    if config == "split_k" and dtype == "f64":
        pytest.skip("accumulators of f32 alone")
    check(interpreter, sizes, left, right, dtype)


PROLOGUE = """
#id = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
func.func @main(%x: tensor<37x65xOTHER>, %w: tensor<65x21xTYPE>, %b: tensor<21xTYPE>)
    -> tensor<37x21xTYPE> {
  %zero = arith.constant 0.0 : TYPE
  %r = flow.dispatch.region -> (tensor<37x21xTYPE>) {
    %e = tensor.empty() : tensor<65x21xTYPE>
    %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
        ins(%w : tensor<65x21xTYPE>) outs(%e : tensor<65x21xTYPE>) {
    ^bb0(%i: TYPE, %o: TYPE):
      %v = math.sin %i : TYPE
      linalg.yield %v : TYPE
    } -> tensor<65x21xTYPE>
    %c = tensor.empty() : tensor<37x21xTYPE>
    %f = linalg.fill ins(%zero : TYPE) outs(%c : tensor<37x21xTYPE>) -> tensor<37x21xTYPE>
    %p = linalg.matmul ins(%x, %s : tensor<37x65xOTHER>, tensor<65x21xTYPE>)
        outs(%f : tensor<37x21xTYPE>) -> tensor<37x21xTYPE>
    %y = linalg.generic {indexing_maps = [#id, #n, #id], iterator_types = ["parallel", "parallel"]}
        ins(%p, %b : tensor<37x21xTYPE>, tensor<21xTYPE>) outs(%c : tensor<37x21xTYPE>) {
    ^bb0(%i: TYPE, %j: TYPE, %o: TYPE):
      %v = arith.addf %i, %j : TYPE
      %u = math.absf %v : TYPE
      linalg.yield %u : TYPE
    } -> tensor<37x21xTYPE>
    flow.return %y : tensor<37x21xTYPE>
  }
  return %r : tensor<37x21xTYPE>
}
"""


@needs_triton
@pytest.mark.parametrize(("dtype", "other"), [("f32", "f32"), ("f64", "f64"), ("f32", "f16")])
def test_prologue(interpreter, dtype, other):
    """B is the sine of an operand; A may be narrower than the product."""
    arrays = [draw((37, 65), other, 1), draw((65, 21), dtype, 2), draw((21,), dtype, 3)]
    text = PROLOGUE.replace("TYPE", dtype).replace("OTHER", other)
    (found,) = run(interpreter, text, "matmul", arrays, [(37, 21)])
    a, b, bias = arrays
    check_error(found, a, np.sin(b.astype(np.float64)), bias, "mk,kn->mn", dtype)


def plan_of(text, target, config=None):
    options = FusionOptions(
        enable_feature=("kernels",),
        disable_pass=kernel_runner.KERNEL_PASSES,
        single_op_groups=True,
    )
    grouped, _ = engine.run(ir.Module.parse(text), target=target, options=options)
    (region,) = kernel_search.regions(grouped)
    return MATMUL.plan(region, target, config)


WARPGROUP_BF16 = r"wgmma\.mma_async\S*\.bf16\.bf16"
WARPGROUP_TF32 = r"wgmma\.mma_async\S*\.tf32"
WARP_TF32 = r"mma\.sync\S*m16n8k8\S*tf32"

ALONG_N, ALONG_K = (3, 2), (2, 3)
"""Loops of B, the contiguous one last."""


@needs_triton
@pytest.mark.parametrize(
    ("arch", "precision", "right", "block_m", "mode", "products", "instruction"),
    [
        ("sm_90", "highest", ALONG_N, 64, "bf16x6", 6, WARPGROUP_BF16),
        ("sm_90", "highest", ALONG_K, 64, "tf32x3", 3, WARPGROUP_TF32),
        ("sm_90", "highest", ALONG_N, 32, "tf32x3", 3, WARP_TF32),
        ("sm_90", "high", ALONG_K, 64, "tf32", 1, WARPGROUP_TF32),
        ("sm_80", "highest", ALONG_N, 64, "tf32x3", 3, WARP_TF32),
        ("sm_89", "medium", ALONG_N, 64, "tf32", 1, WARP_TF32),
    ],
)
def test_object_code(arch, precision, right, block_m, mode, products, instruction):
    """The highest precision has several products, and no thread's values are in memory."""
    target = dataclasses.replace(targets.parse(f"cuda:{arch}"), float32_matmul_precision=precision)
    text = product_text((1, 1000, 1100, 1024), (1, 3), right, (1, 2), "f32")
    with ir.Context():
        plan = plan_of(text, target, MatmulConfig(block_m, 64, 32, 4, 4))
        code = triton_compiler.build(plan.program, arch).code.decode()
        block = plan.program.source
    assert f'input_precision="{mode}"' in block
    found = len(re.findall(instruction, code))
    assert found
    assert found % products == 0
    assert ".local" not in code


def test_precision_of_amd():
    """Its matrix instructions take f32."""
    assert dot_precision("f32", targets.parse("rocm:gfx942")) == "ieee"
    assert not dot_precision("f16", targets.parse("rocm:gfx942"))


def built(text, options):
    """The programs of the kernels of a module, of which none is built."""
    seen = []

    def build(program, arch):
        seen.append(program)
        raise CompileFailedError("not here", stage="kernel")

    with ir.Context(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_compiler, "build", build)
        engine.run(ir.Module.parse(text), target=SM_90, options=options)
    return seen


@pytest.mark.parametrize(("word", "mode"), [("auto", "tf32x3"), ("HIGH", "tf32")])
def test_the_switch_reaches_the_kernel(word, mode):
    text = product_text((1, 64, 64, 64), (1, 3), (3, 2), (1, 2), "f32")
    options = FusionOptions(float32_matmul_precision=word, enable_feature=("kernels",))
    seen = built(text, options)
    assert seen
    assert f'input_precision="{mode}"' in seen[0].source


def test_unknown_precision():
    with pytest.raises(UsageError, match="unknown precision 'fast'"):
        FusionOptions(float32_matmul_precision="fast")


def refused():
    raise RuntimeError


@pytest.mark.parametrize(
    ("answer", "newer", "expected"),
    [
        (lambda: "highest", "none", "highest"),
        (lambda: "high", "tf32", "high"),
        (lambda: "medium", "tf32", "medium"),
        (refused, "tf32", "high"),
        (refused, "ieee", "highest"),
    ],
)
def test_precision_of_torch(monkeypatch, answer, newer, expected):
    matmul = SimpleNamespace(fp32_precision=newer)
    backends = SimpleNamespace(cuda=SimpleNamespace(matmul=matmul))
    torch = SimpleNamespace(get_float32_matmul_precision=answer, backends=backends)
    monkeypatch.setitem(matmul_precision.sys.modules, "torch", torch)
    assert matmul_precision.of_framework("torch") == expected
    assert matmul_precision.of_framework("onnx") == "highest"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "highest"), ("float32", "highest"), ("tensorfloat32", "high"), ("bfloat16", "medium")],
)
def test_precision_of_jax(monkeypatch, value, expected):
    jax = SimpleNamespace(config=SimpleNamespace(jax_default_matmul_precision=value))
    monkeypatch.setitem(matmul_precision.sys.modules, "jax", jax)
    assert matmul_precision.of_framework("jax") == expected


@needs_triton
@pytest.mark.parametrize(
    ("sizes", "left", "right", "splits"),
    [
        ((1, 37, 53, 300), (1, 3), (3, 2), 4),
        ((3, 17, 21, 256), (0, 3, 1), (0, 2, 3), 2),
        ((1, 16, 32, 130), (1, 3), (2, 3), 8),
    ],
)
def test_ctas_split_k(interpreter, monkeypatch, sizes, left, right, splits):
    """The last part is shorter, and of eight parts only five have elements."""
    config = MatmulConfig(16, 32, 32, 4, 2, k_splits=splits)
    monkeypatch.setattr(selection, "choose_config", lambda *_: config)
    check(interpreter, sizes, left, right, "f32")


def test_long_k_is_split():
    """By default, where few tiles leave multiprocessors idle."""
    found = {
        (m, k): heuristics.default_config(MatmulProblem(m, m, k, 1, operand_bits=32), SM_90)
        for m, k in ((512, 65536), (512, 512), (8192, 65536))
    }
    assert [config.k_splits > 1 for config in found.values()] == [True, False, False]
    assert cost_model.num_ctas(MatmulProblem(512, 512, 65536, 1), found[512, 65536]) < 132


@needs_triton
def test_object_code_of_split_k():
    text = product_text((1, 512, 512, 32768), (1, 3), (2, 3), (1, 2), "f32")
    with ir.Context():
        plan = plan_of(text, SM_90)
        assert plan.before is not None
        for step in plan.kernels():
            assert ".local" not in triton_compiler.build(step.program, "sm_90").code.decode()


@pytest.mark.parametrize(
    ("newer", "allows", "expected"),
    [
        ("tf32", False, "high"),
        ("ieee", True, "highest"),
        ("none", True, "highest"),
        (None, True, "high"),
        (None, False, "highest"),
    ],
)
def test_precision_of_convolutions_of_torch(monkeypatch, newer, allows, expected):
    """PyTorch before 2.9 has no setting of convolutions apart from that of cuDNN."""
    conv = {} if newer is None else {"conv": SimpleNamespace(fp32_precision=newer)}
    cudnn = SimpleNamespace(allow_tf32=allows, **conv)
    torch = SimpleNamespace(backends=SimpleNamespace(cudnn=cudnn))
    monkeypatch.setitem(matmul_precision.sys.modules, "torch", torch)
    assert matmul_precision.of_torch_convolutions() == expected


@pytest.mark.parametrize(
    ("matmul", "conv", "mode"),
    [
        ("auto", "auto", "tf32x3"),
        ("high", "auto", "tf32"),
        ("auto", "high", "tf32"),
        ("high", "highest", "tf32x3"),
    ],
)
def test_precision_of_a_convolution(matmul, conv, mode):
    text = conv_text(Conv(400, 9, 9, 32, 32), "f32")
    options = FusionOptions(
        float32_matmul_precision=matmul,
        float32_conv_precision=conv,
        enable_feature=("kernels",),
    )
    seen = built(text, options)
    assert f'input_precision="{mode}"' in seen[0].source


def test_small_convolutions_have_the_accuracy_of_f32():
    text = conv_text(Conv(2, 9, 9, 32, 32), "f32")
    seen = built(text, FusionOptions(float32_conv_precision="high", enable_feature=("kernels",)))
    assert 'input_precision="tf32x3"' in seen[0].source


def test_a_contraction_has_the_precision_of_matmuls():
    """One of 1x1, too, whose kernel is that of convolutions."""
    text = conv_text(Conv(2000, 9, 9, 32, 32, taps=(1, 1), filter="fc"), "f32")
    seen = built(text, FusionOptions(float32_conv_precision="high", enable_feature=("kernels",)))
    assert all('input_precision="tf32x3"' in program.source for program in seen)


CONVOLUTION_OF_1X1 = """
func.func @main(%x: tensor<256x64x16x16xf32>, %w: tensor<32x64x1x1xf32>)
    -> tensor<256x32x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256x32x16x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<256x32x16x16xf32>) -> tensor<256x32x16x16xf32>
  %y = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<256x64x16x16xf32>, tensor<32x64x1x1xf32>)
      outs(%z : tensor<256x32x16x16xf32>) -> tensor<256x32x16x16xf32>
  return %y : tensor<256x32x16x16xf32>
}
"""


@needs_triton
@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({"float32_conv_precision": "high"}, "tf32"),
        ({"float32_conv_precision": "highest", "float32_matmul_precision": "high"}, "tf32x3"),
        ({}, "tf32x3"),
    ],
)
def test_a_1x1_convolution_of_a_model(monkeypatch, options, mode):
    """IREE makes it a contraction; it has the precision of convolutions all the same."""
    seen = []

    def build(program, arch):
        seen.append(program.source)
        raise CompileFailedError("not here", stage="kernel")

    monkeypatch.setattr(triton_compiler, "build", build)
    compiled = mlirfuse.compile(CONVOLUTION_OF_1X1, target="cuda:sm_90", cache=False, **options)
    assert compiled.kernels
    (source,) = dict.fromkeys(text for text in seen if "tl.dot" in text or "precision" in text)
    assert f'input_precision="{mode}"' in source
    assert ("nearest_tf32" in source) == (mode == "tf32")
