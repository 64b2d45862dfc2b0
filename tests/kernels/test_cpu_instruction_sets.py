"""Matmuls are compiled for every instruction set, and run where the machine has it."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import mlirfuse
from helpers.assembly import compiled, instructions
from mlirfuse import targets
from mlirfuse.kernels.vector import tile_registers

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
    "sapphirerapids": "tdpbssd t",
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


@pytest.mark.parametrize(
    ("cpu", "rows", "instruction"),
    [
        ("znver4", 30, "vdpbf16ps z"),
        ("x86-64-v4", 30, "vfmadd231ps z"),
        ("sapphirerapids", 30, "tdpbf16ps t"),
        ("sapphirerapids", 15, "vdpbf16ps z"),
    ],
)
def test_products_of_bf16(cpu, rows, instruction, tmp_path):
    model = nn.Sequential(nn.Linear(49, 64), nn.GELU()).eval().bfloat16()
    compiled(model, (torch.ones(rows, 49).bfloat16(),), f"cpu:{cpu}", tmp_path)
    found = instructions(tmp_path)
    assert found[instruction] >= 4
    others = {"vdpbf16ps z", "tdpbf16ps t"} - {instruction}
    assert not any(found[other] for other in others)


@pytest.fixture
def refused(monkeypatch):
    """Linux refuses the use of tile registers."""
    needed = {"avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512bf16", "avx512fp16"}
    if missing := needed - set(targets.parse("cpu").cpu.features):
        pytest.skip(f"the code for such CPUs needs {', '.join(sorted(missing))}")
    monkeypatch.setattr(tile_registers, "REQUEST_PERMISSION", 0)


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
def test_tiles_without_tile_registers(dtype, tmp_path):
    """Where Linux refuses the use of tile registers, the same tiles are computed without them."""
    torch.manual_seed(3)
    is_float = dtype == torch.bfloat16
    x = torch.randn(50, 70).to(dtype) if is_float else torch.randint(-128, 128, (50, 70)).to(dtype)
    w = torch.randn(70, 75).to(dtype) if is_float else torch.randint(-128, 128, (70, 75)).to(dtype)

    class Product(nn.Module):
        def forward(self, a):
            return a.float() @ w.float() if is_float else torch._int_mm(a, w)

    program = compiled(Product(), (x,), "cpu:sapphirerapids", tmp_path)
    assert program.report.counts()["matmul_vector_kernel"] == 1
    code = "".join(path.read_text() for path in tmp_path.glob("*.s"))
    assert "tdpb" in code
    assert f"${0x1023}" not in code
    found, exact = torch.as_tensor(program(x)), x.double() @ w.double()
    limit = 1e-6 * exact.abs().max().item() if is_float else 0
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=limit)


class Attention(nn.Module):
    def forward(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def attended(tmp_path, target):
    """Causal attention of bf16, whose key 7 has an infinity; no query before it sees that."""
    torch.manual_seed(4)
    q, k, v = (torch.randn(2, 37, 40).bfloat16() for _ in range(3))
    k[0, 7, 39] = float("inf")
    program = compiled(Attention(), (q, k, v), target, tmp_path)
    assert program.report.counts()["attention_vector_kernel"] == 1
    found = torch.as_tensor(program(q, k, v)).double()
    scores = q.double() @ k.double().mT / 40**0.5
    scores = scores.masked_fill(torch.ones(37, 37).triu(1).bool(), -torch.inf)
    exact = scores.softmax(-1) @ v.double()
    torch.testing.assert_close(found, exact, rtol=2e-2, atol=2e-2, equal_nan=True)
    assert found[0, :7].isfinite().all()


@pytest.mark.usefixtures("refused")
def test_attention_without_tile_registers(tmp_path):
    attended(tmp_path, "cpu:sapphirerapids")
    assert instructions(tmp_path)["tdpbf16ps t"] >= 4


def test_infinities_of_attention(tmp_path):
    attended(tmp_path, "cpu")


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
