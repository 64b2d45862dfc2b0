"""Complex numbers as pairs of floats, on a CPU beside PyTorch."""

import pytest

torch = pytest.importorskip("torch")
import mlirfuse  # noqa: E402


def rotated(x, freqs):
    """A rotary embedding by complex numbers, as in the first Llama."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs[None, :, None, :]).flatten(3).type_as(x)


def rotated_by_angles(x, angles):
    return rotated(x, torch.polar(torch.ones_like(angles), angles))


def product(x, y):
    return torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y).conj())


CASES = {
    "numbers": (rotated, ((2, 8, 3, 16), (8, 8)), torch.complex64),
    "angles": (rotated_by_angles, ((2, 8, 3, 16), (8, 8)), torch.float32),
    "pairs": (product, ((5, 7, 2), (5, 7, 2)), torch.float32),
}


@pytest.mark.parametrize("name", CASES)
def test_parts(name):
    call, shapes, kind = CASES[name]
    torch.manual_seed(0)
    x, y = torch.randn(shapes[0]), torch.randn(shapes[1], dtype=kind)
    program = mlirfuse.compile(call, (x, y), target="cpu", cache=False)
    fired = {d.pass_name for d in program.report.decisions if d.taken}
    assert "complex_parts_rewrite" in fired
    torch.testing.assert_close(program(x, y), call(x, y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_one_kernel(dtype, batch):
    """A rotation by complex numbers is one by neighbors, and rounds its results."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, 64, 8, 64, generator=generator).to(dtype)
    angles = torch.randn(64, 32, generator=generator)
    program = mlirfuse.compile(rotated_by_angles, (x, angles), target="cpu", cache=False)
    assert program.report.counts()["rope_fusion"] == 1
    rotations = [k for k in program.kernels if "rope_fusion" in str(k.pass_name)]
    assert len(program.kernels) - len(rotations) <= 1, program.kernels
    limit = 1e-5 if dtype == torch.float32 else 1e-3
    right = rotated_by_angles(x, angles)
    torch.testing.assert_close(program(x, angles), right, rtol=limit, atol=limit)


def test_one_kernel_for_a_gpu():
    x, angles = torch.randn(1, 64, 8, 64).half(), torch.randn(64, 32)
    program = mlirfuse.compile(rotated_by_angles, (x, angles), target="cuda:sm_90", cache=False)
    assert program.report.counts()["rope_fusion"] == 1
    assert [kernel.code for kernel in program.kernels] == ["elementwise_triton_kernel"]
