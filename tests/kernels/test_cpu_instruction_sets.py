"""Matmuls are compiled for every instruction set, and run where the machine has it."""

import pytest
import torch
from torch import nn

import mlirfuse
from helpers.assembly import compiled, instructions
from mlirfuse import targets

FORMS = {
    "x86-64-v2": "mulps x",
    "x86-64-v3": "vfmadd231ps y",
    "x86-64-v4": "vfmadd231ps z",
    "neoverse-n1": "fmla v",
    "neoverse-v1": "fmla v",
}
"""CPU -> the instruction of its f32 matmuls."""

TOLERANCES = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 3e-2}


@pytest.mark.parametrize(
    ("dtype", "switch"),
    [*((dtype, "kernel") for dtype in TOLERANCES), (torch.float32, "packed")],
    ids=str,
)
@pytest.mark.parametrize("cpu", list(FORMS))
def test_matmul(cpu, dtype, switch, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(48, 64), nn.GELU()).eval().to(dtype)
    x = torch.randn(30, 48).to(dtype)
    off = {"disable_feature": ("kernels",)} if switch == "packed" else {}
    program = compiled(model, (x,), f"cpu:{cpu}", tmp_path, **off)
    names = program.report.counts()
    if switch == "kernel":
        assert names["matmul_vector_kernel"] == 1
    packs = dtype == torch.float32 and cpu != "x86-64-v2"
    assert names.get("weight_packing_rewrite", 0) == (packs and switch == "packed")
    if switch == "kernel" or packs:
        assert instructions(tmp_path)[FORMS[cpu]] >= 4
    device, host = targets.parse(f"cpu:{cpu}").cpu, targets.parse("cpu").cpu
    if device.architecture != host.architecture or set(device.features) - set(host.features):
        return
    exact = model.double()(x.double()).detach()
    error = (torch.as_tensor(program(x)).double() - exact).abs().max() / exact.abs().max()
    assert error < TOLERANCES[dtype]


BYTES = """
func.func @main(%x: tensor<40x50xi8>, %w: tensor<50x64xi8>) -> tensor<40x64xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<40x64xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<40x64xi32>) -> tensor<40x64xi32>
  %y = linalg.matmul ins(%x, %w : tensor<40x50xi8>, tensor<50x64xi8>)
      outs(%f : tensor<40x64xi32>) -> tensor<40x64xi32>
  return %y : tensor<40x64xi32>
}
"""

PRODUCTS = {
    "x86-64-v2": "pmaddwd x",
    "x86-64-v3": "vpmaddwd y",
    "x86-64-v4": "vpmaddwd z",
    "alderlake": "vpdpbusd y",
    "cascadelake": "vpdpbusd z",
    "znver4": "vpdpbusd z",
    "neoverse-n1": "sdot v",
}
"""CPU -> the instruction of its products of i8."""


@pytest.mark.parametrize("cpu", list(PRODUCTS))
def test_products_of_bytes(cpu, tmp_path):
    program = compiled(BYTES, None, f"cpu:{cpu}", tmp_path)
    assert program.report.counts()["matmul_vector_kernel"] == 1
    assert instructions(tmp_path)[PRODUCTS[cpu]] >= 4


def test_matrix_instructions_of_bytes_are_left_to_iree(tmp_path):
    program = compiled(BYTES, None, "cpu:neoverse-v1", tmp_path)
    assert "matmul_vector_kernel" not in program.report.counts()
    assert instructions(tmp_path)["smmla v"] >= 4


@pytest.mark.parametrize(("cpu", "wanted"), [("znver4", True), ("x86-64-v4", False)])
def test_products_of_bf16(cpu, wanted, tmp_path):
    model = nn.Sequential(nn.Linear(49, 64), nn.GELU()).eval().bfloat16()
    compiled(model, (torch.ones(30, 49).bfloat16(),), f"cpu:{cpu}", tmp_path)
    assert (instructions(tmp_path)["vdpbf16ps z"] >= 4) == wanted


def test_the_last_group_of_a_row_ends_with_it():
    """An infinity that begins the next row does not meet the zeros behind the filter."""
    x = torch.ones(2, 49).bfloat16()
    x[1, 0] = float("inf")
    model = nn.Linear(49, 64).eval().bfloat16()
    found = torch.as_tensor(mlirfuse.compile(model, (x,), target="cpu", cache=False)(x))
    assert found[0].isfinite().all()


def test_f16_that_no_number_is_widened():
    """Infinities, NaN and subnormal numbers of f16 pass through the kernel's conversion."""
    x = torch.tensor([[float("inf"), 6e-8, float("nan"), -6e-5, 65504.0, -0.0, 1.0, 2.0]]).half().T
    w = torch.ones(1, 16).half()

    class Product(nn.Module):
        def forward(self, a):
            return a @ w

    program = mlirfuse.compile(Product(), (x,), target="cpu", cache=False)
    torch.testing.assert_close(torch.as_tensor(program(x)), x @ w, equal_nan=True, rtol=0, atol=0)
