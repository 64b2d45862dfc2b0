"""Programs for ARM are vector code, and compute the right numbers under an emulator.

The emulator runs `iree-run-module` of IREE's wheel for aarch64; docs/targets.md says how.
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from helpers.assembly import compiled, instructions

EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
RUNTIME = os.environ.get("MLIRFUSE_TEST_AARCH64_RUNTIME", "")
"""The folder `iree/_runtime_libs` of the unpacked wheel `iree-base-runtime` for aarch64."""
LIBRARIES = os.environ.get("MLIRFUSE_TEST_AARCH64_LIBRARIES", "/usr/aarch64-linux-gnu")

SVE = ("ptrue", "whilelo", "ld1w", "st1w")

BYTES = """
func.func @main(%x: tensor<24x64xi8>, %w: tensor<64x32xi8>) -> tensor<24x32xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<24x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<24x32xi32>) -> tensor<24x32xi32>
  %y = linalg.matmul ins(%x, %w : tensor<24x64xi8>, tensor<64x32xi8>)
      outs(%f : tensor<24x32xi32>) -> tensor<24x32xi32>
  return %y : tensor<24x32xi32>
}
"""


class Layers(nn.Module):
    """Linear layers with a GELU between, and a softmax."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(64, 96), nn.Linear(96, 40)

    def forward(self, x):
        return torch.softmax(self.down(nn.functional.gelu(self.up(x))), -1)


class Convolution(nn.Module):
    """A convolution with batch norm and ReLU, and a depthwise one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.dense = nn.Conv2d(8, 24, 3, padding=1)
        self.norm = nn.BatchNorm2d(24)
        self.depthwise = nn.Conv2d(24, 24, 3, padding=1, groups=24)

    def forward(self, x):
        return torch.relu(self.depthwise(torch.relu(self.norm(self.dense(x)))))


def cases():
    torch.manual_seed(1)
    return {
        "layers": (Layers().eval(), (torch.randn(23, 64),)),
        "layers_bf16": (Layers().eval().bfloat16(), (torch.randn(24, 64).bfloat16(),)),
        "layers_f16": (Layers().eval().half(), (torch.randn(24, 64).half(),)),
        "convolution": (Convolution().eval(), (torch.randn(1, 8, 14, 14),)),
    }


def run(program, inputs, folder, cpu):
    """The first result of the program on an emulated CPU."""
    path = folder / "program.vmfb"
    program.save(path)
    arguments = []
    for number, value in enumerate(inputs):
        raw = value.contiguous().view(torch.int16) if value.dtype == torch.bfloat16 else value
        kind = {torch.bfloat16: "bf16", torch.float16: "f16"}
        file = folder / f"x{number}.bin"
        raw.numpy().tofile(file)
        sizes = "x".join(map(str, value.shape))
        arguments.append(f"--input={sizes}x{kind.get(value.dtype, 'f32')}=@{file}")
    command = [EMULATOR, "-cpu", cpu, "-L", LIBRARIES, str(Path(RUNTIME, "iree-run-module"))]
    command += ["--device=local-sync", f"--module={path}", "--function=main"]
    subprocess.run(
        [*command, *arguments, f"--output=@{folder / 'y.bin'}"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return (folder / "y.bin").read_bytes()


@pytest.mark.parametrize("cpu", ["neoverse-n1", "neoverse-v1", "aarch64"])
@pytest.mark.parametrize("name", ["layers", "convolution"])
def test_vector_code(name, cpu, tmp_path):
    model, inputs = cases()[name]
    program = compiled(model, inputs, f"cpu:{cpu}", tmp_path)
    found = instructions(tmp_path)
    assert found["fmla v"] > 40
    if cpu != "neoverse-v1":
        assert not any(instruction.split()[0] in SVE for instruction in found)
    kernels = {"layers": "matmul_vector_kernel", "convolution": "conv_vector_kernel"}
    assert program.report.counts()[kernels[name]] >= 1


@pytest.mark.parametrize(
    ("cpu", "wanted"),
    [("neoverse-n1", "sdot v"), ("neoverse-v1", "smmla v"), ("cortex-a72", "smlal")],
)
def test_products_of_bytes(cpu, wanted, tmp_path):
    compiled(BYTES, None, f"cpu:{cpu}", tmp_path)
    assert any(found.startswith(wanted) for found in instructions(tmp_path))


@pytest.mark.skipif(
    EMULATOR is None or not RUNTIME, reason="no qemu-aarch64, or no runtime of IREE for aarch64"
)
@pytest.mark.parametrize("cpu", ["neoverse-n1", "neoverse-v1"])
@pytest.mark.parametrize("name", list(cases()))
def test_numbers_on_an_emulated_cpu(name, cpu, tmp_path):
    model, inputs = cases()[name]
    program = compiled(model, inputs, f"cpu:{cpu}", tmp_path)
    raw = run(program, inputs, tmp_path, "max")
    exact = model.double()(*(x.double() for x in inputs)).detach()
    kind = inputs[0].dtype
    dtype = {torch.bfloat16: np.int16, torch.float16: np.float16}.get(kind, np.float32)
    got = torch.from_numpy(np.frombuffer(raw, dtype).copy())
    got = (got.view(torch.bfloat16) if kind == torch.bfloat16 else got).double()
    tolerance = {torch.bfloat16: 3e-2, torch.float16: 3e-3}.get(kind, 1e-5)
    error = (got.reshape(exact.shape) - exact).abs().max() / exact.abs().max()
    assert error < tolerance
