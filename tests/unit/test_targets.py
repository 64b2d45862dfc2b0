import importlib
import re

import numpy as np
import pytest

import mlirfuse
from helpers import gpus
from helpers.pages import ROOT
from mlirfuse import targets
from mlirfuse.core import TARGET_NAMES, CompileFailedError, UsageError
from mlirfuse.patterns import PASSES

PROGRAM = """
func.func @main(%x: tensor<16x32xf32>, %w: tensor<32x24xf32>) -> tensor<16x24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x24xf32>) -> tensor<16x24xf32>
  %m = linalg.matmul ins(%x, %w : tensor<16x32xf32>, tensor<32x24xf32>)
                     outs(%f : tensor<16x24xf32>) -> tensor<16x24xf32>
  %t = math.tanh %m : tensor<16x24xf32>
  return %t : tensor<16x24xf32>
}
"""

MULTIPLY_ADD = """
func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>, %z: tensor<64xf32>) -> tensor<64xf32> {
  %p = arith.mulf %x, %y : tensor<64xf32>
  %s = arith.addf %p, %z : tensor<64xf32>
  return %s : tensor<64xf32>
}
"""

ATTENTION = """
#q = affine_map<(b, m, n, k1, k2) -> (b, m, k1)>
#k = affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>
#v = affine_map<(b, m, n, k1, k2) -> (b, k2, n)>
#s = affine_map<(b, m, n, k1, k2) -> ()>
#o = affine_map<(b, m, n, k1, k2) -> (b, m, n)>
!t = tensor<2x32x16xf32>
util.func public @main(%q: !t, %k: !t, %v: !t) -> !t {
  %e = tensor.empty() : !t
  %scale = arith.constant 0.25 : f32
  %r = iree_linalg_ext.attention {indexing_maps = [#q, #k, #v, #s, #o]}
         ins(%q, %k, %v, %scale : !t, !t, !t, f32) outs(%e : !t) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  } -> !t
  util.return %r : !t
}
""".replace("{indexing_maps = [#q, #k, #v, #s, #o]}", "<indexing_maps = [#q, #k, #v, #s, #o]>")

NAMES = ", ".join(sorted(TARGET_NAMES))

RATES = {
    name: getattr(importlib.import_module(f"mlirfuse.targets.{name}"), "RATES", {})
    for name in TARGET_NAMES
}

ARCHITECTURES = [f"{name}:{arch}" for name, table in RATES.items() for arch in table]
"""Every architecture of the targets that have a table of them."""


def known(name):
    return f"known: {', '.join(sorted(RATES[name]))}"


def inputs():
    rng = np.random.default_rng(0)
    return rng.standard_normal((16, 32), np.float32), rng.standard_normal((32, 24), np.float32)


def image(program, tmp_path):
    program.save(tmp_path / "program.vmfb")
    return (tmp_path / "program.vmfb").read_bytes()


@pytest.mark.parametrize(
    ("spec", "spelling", "arch"),
    [
        ("cpu", "cpu", "host"),
        ("cpu:host", "cpu", "host"),
        ("cpu:znver4", "cpu:znver4", "znver4"),
        ("cuda", "cuda:sm_80", "sm_80"),
        ("CUDA:SM_90", "cuda:sm_90", "sm_90"),
        ("rocm", "rocm:gfx942", "gfx942"),
        ("vulkan", "vulkan:ampere", "ampere"),
        (" vulkan : rdna3 ", "vulkan:rdna3", "rdna3"),
    ],
)
def test_parses(spec, spelling, arch):
    target = targets.parse(spec)
    assert str(target) == spelling
    assert target.arch == arch
    assert targets.parse(target) is target
    assert str(targets.parse(str(target))) == spelling


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cup", f"unknown target 'cup'; did you mean 'cpu'? (known: {NAMES})"),
        ("", f"unknown target '' (known: {NAMES})"),
        ("cuda:sm_91", f"unknown target 'cuda:sm_91'; did you mean 'sm_90'? ({known('cuda')})"),
        ("rocm:gfx941", f"unknown target 'rocm:gfx941'; did you mean 'gfx942'? ({known('rocm')})"),
        (
            "vulkan:amper",
            f"unknown target 'vulkan:amper'; did you mean 'ampere'? ({known('vulkan')})",
        ),
        ("cpu:", "target 'cpu:' has nothing after the colon"),
    ],
)
def test_refuses(spec, message):
    with pytest.raises(UsageError) as caught:
        targets.parse(spec)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_says_where_its_rates_come_from(name):
    target = targets.parse(name)
    assert target.source
    assert target.bandwidth > 1e9
    assert target.launch_us > 0
    assert target.matmul_rate["f16"] >= target.matmul_rate["f32"] >= target.vector_rate / 60
    on_cpu = "--iree-hal-local-target-device-backends=llvm-cpu" in target.flags
    assert (target.stack_limit is not None) == on_cpu
    assert (target.shared_memory is None) == on_cpu


def test_a_pass_is_on_by_default_for_every_target_unless_it_names_some():
    assert PASSES["elementwise_fusion"].targets == targets.TARGETS.keys()


@pytest.mark.parametrize("spec", ARCHITECTURES)
def test_the_page_names_every_architecture(spec):
    name, _, arch = spec.partition(":")
    page = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}[:")]
    assert f"`{arch}`" in row


@pytest.mark.parametrize("spec", ["cpu:generic", *gpus.PARAMETERS])
def test_compiles(spec):
    program = mlirfuse.compile(PROGRAM, target=spec, cache=False)
    assert program.report.target == spec
    assert program.report.dispatches["fused"] >= 1


@pytest.mark.sweep
@pytest.mark.parametrize("spec", ARCHITECTURES)
def test_compiles_every_known_architecture(spec):
    mlirfuse.compile(PROGRAM, target=spec, cache=False)


def test_runs_on_the_cpu():
    x, w = inputs()
    program = mlirfuse.compile(PROGRAM, target="cpu", cache=False)
    np.testing.assert_allclose(program(x, w), np.tanh(x @ w), rtol=1e-5, atol=1e-5)


def test_runs_on_vulkan(vulkan):
    x, w = inputs()
    program = mlirfuse.compile(PROGRAM, target=vulkan, cache=False)
    np.testing.assert_allclose(program(x, w), np.tanh(x @ w), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stock", [False, True])
def test_h100_gets_code_for_h100(tmp_path, stock):
    program = mlirfuse.compile(PROGRAM, target="cuda:sm_90", stock=stock, cache=False)
    ptx = image(program, tmp_path)
    assert re.findall(rb"\.target (sm_\d+)", ptx) == [b"sm_90"]
    assert re.findall(rb"\.version ([\d.]+)", ptx) == [b"8.0"]


def test_sm_86_is_not_given_the_shared_memory_of_sm_80():
    (flag,) = targets.parse("cuda:sm_86").flags
    assert "max_workgroup_memory_bytes = 101376" in flag
    assert targets.parse("cuda:sm_86").shared_memory == 101376


def test_fma_off_keeps_the_product_rounded(tmp_path):
    on = image(mlirfuse.compile(MULTIPLY_ADD, target="cuda", cache=False), tmp_path)
    off = image(
        mlirfuse.compile(MULTIPLY_ADD, target="cuda", cache=False, disable_feature="fma"), tmp_path
    )
    operations = rb"\b(?:fma|mul|add)\.[a-z.]*f32"
    assert set(re.findall(operations, on)) == {b"fma.rn.f32"}
    assert set(re.findall(operations, off)) == {b"mul.rn.f32", b"add.rn.f32"}


@pytest.mark.parametrize("spec", ["cpu", "rocm", "vulkan"])
def test_fma_off_is_refused_where_it_cannot_be(spec):
    with pytest.raises(UsageError, match=rf"--disable-feature=fma .* target {spec}.*data_tiling"):
        mlirfuse.compile(PROGRAM, target=spec, disable_feature="fma")


def test_vulkan_says_that_it_has_no_attention():
    assert "online_attention" in targets.parse("vulkan").unsupported["attention"]
    assert "attention" not in targets.parse("cuda").unsupported


def test_vulkan_runs_a_model_with_attention(vulkan):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 32, 16), np.float32) for _ in range(3))
    program = mlirfuse.compile(ATTENTION, target=vulkan, stock=True, cache=False)
    weights = np.exp(0.25 * q.astype(np.float64) @ k.transpose(0, 2, 1))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(program(q, k, v), expected, rtol=1e-4, atol=1e-5)


def test_vulkan_needs_attention_decomposed():
    """IREE 3.13's own limit; when this fails, `unsupported` and the flag can go."""
    import dataclasses

    whole = targets.parse("vulkan:ampere")
    whole = dataclasses.replace(whole, flags=whole.flags[:2])
    with pytest.raises(CompileFailedError, match="online_attention"):
        mlirfuse.compile(ATTENTION, target=whole, stock=True, cache=False)
