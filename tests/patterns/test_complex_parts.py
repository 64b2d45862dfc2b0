"""Complex numbers as pairs of floats, on a CPU beside PyTorch."""

import pytest

from mlirfuse.patterns import complex_parts_rewrite

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


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_one_kernel(target):
    """A rotation by complex numbers is one by neighbors."""
    x, angles = torch.randn(2, 64, 8, 64), torch.randn(64, 32)
    program = mlirfuse.compile(rotated_by_angles, (x, angles), target=target, cache=False)
    assert program.report.counts()["rope_fusion"] == 1
