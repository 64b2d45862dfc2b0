"""Matmuls of f16 for which IREE generates no cooperative matrices on NVIDIA's GPUs with Vulkan."""

import pytest
from iree.compiler import ir

import mlirfuse
from mlirfuse.builders import codegen_repairs
from mlirfuse.targets import parse


def matmul(m, n, k, dtype="f16"):
    return f"""
func.func @main(%a: tensor<{m}x{k}x{dtype}>, %b: tensor<{k}x{n}x{dtype}>) -> tensor<{m}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{m}x{n}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %c = linalg.matmul ins(%a, %b : tensor<{m}x{k}x{dtype}>, tensor<{k}x{n}x{dtype}>)
    outs(%init : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %c : tensor<{m}x{n}xf32>
}}
"""


@pytest.mark.parametrize(
    ("target", "sizes", "rewritten"),
    [
        ("vulkan:ampere", (16, 1000, 64), True),
        ("vulkan:turing", (32, 8, 16), True),
        ("vulkan:ada", (16, 24, 64), True),
        ("vulkan:rdna3", (16, 1000, 64), False),
        ("vulkan:ampere", (16, 992, 64), False),
        ("vulkan:ampere", (16, 1001, 64), False),
        ("vulkan:ampere", (17, 1000, 64), False),
        ("vulkan:ampere", (16, 1000, 65), False),
        ("cpu", (16, 1000, 64), False),
    ],
)
def test_which_are_rewritten(target, sizes, rewritten):
    with ir.Context():
        module = ir.Module.parse(matmul(*sizes))
        codegen_repairs.repair_grouped(module, parse(target), exact=False)
        module.operation.verify()
        assert ("math.fma" in str(module)) == rewritten
        assert ("linalg.matmul" in str(module)) != rewritten


def test_f32_stays():
    with ir.Context():
        module = ir.Module.parse(matmul(16, 1000, 64, "f32"))
        assert not codegen_repairs.repair_grouped(module, parse("vulkan:ampere"), exact=False)


@pytest.mark.parametrize("target", ["vulkan:ampere", "vulkan:rdna3"])
def test_they_compile(target):
    (kernel,) = mlirfuse.compile(matmul(16, 1000, 64), target=target, cache=False).kernels
    assert kernel.flops == 2 * 16 * 1000 * 64
