"""Images of bf16 are widened once, and the numbers stay those of bf16."""

import pytest

import mlirfuse

torch = pytest.importorskip("torch")

PASS = "image_widening_rewrite"


class Block(torch.nn.Module):
    """Layers that share an image, one behind an activation, and a residual."""

    def __init__(self, width):
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.LayerNorm(width)
        self.left, self.right = torch.nn.Linear(width, 2 * width), torch.nn.Linear(width, 2 * width)
        self.back = torch.nn.Linear(2 * width, width)

    def forward(self, x):
        """`(rows, width)` to the same."""
        y = self.norm(x)
        return x + self.back(torch.nn.functional.silu(self.left(y)) * self.right(y))


@pytest.mark.parametrize(("rows", "width", "widened"), [(64, 96, 2), (37, 130, 3), (16, 130, 0)])
def test_values(rows, width, widened):
    model, x = Block(width).to(torch.bfloat16), torch.randn(rows, width).to(torch.bfloat16)
    found = mlirfuse.compile(model, (x,), target="cpu:x86-64-v3", cache=False)
    taken = [d.pass_name for d in found.report.decisions if d.reason is None]
    assert taken.count(PASS) == widened
    expected = model.double()(x.double())
    error = torch.as_tensor(found(x)).double() - expected
    assert error.abs().max() < 0.05 * expected.abs().max()


class Residual(torch.nn.Module):
    """A convolution of 1x1 behind the residual of another one."""

    def __init__(self):
        super().__init__()
        self.wide, self.norm = torch.nn.Conv2d(32, 256, 1), torch.nn.BatchNorm2d(256)
        self.narrow = torch.nn.Conv2d(256, 128, 1)

    def forward(self, x):
        """`(1, 32, 9, 7)` to `(1, 128, 9, 7)`."""
        y = torch.relu(self.norm(self.wide(x)) + x.repeat(1, 8, 1, 1))
        return self.narrow(y * 1.1 + 0.3)


CHAIN = torch.nn.Linear(1030, 192), torch.nn.SiLU(), torch.nn.Linear(192, 160)


@pytest.mark.parametrize(
    ("model", "shape"),
    [(torch.nn.Sequential(*CHAIN), (37, 1030)), (Residual(), (1, 32, 9, 7))],
    ids=["layers", "residual"],
)
def test_results_are_the_same_bits(model, shape):
    """No op in front of the contraction keeps more than bf16 has."""
    torch.manual_seed(0)
    model, x = model.eval().to(torch.bfloat16), torch.randn(*shape).to(torch.bfloat16)
    on, off = (
        mlirfuse.compile(model, (x,), target="cpu:x86-64-v3", cache=False, disable_pass=names)
        for names in ([], [PASS])
    )
    assert PASS in [d.pass_name for d in on.report.decisions]
    assert torch.equal(torch.as_tensor(on(x)), torch.as_tensor(off(x)))


def test_a_cpu_that_multiplies_bf16_widens_nothing():
    model, x = Block(96).to(torch.bfloat16), torch.randn(64, 96).to(torch.bfloat16)
    found = mlirfuse.compile(model, (x,), target="cpu:sapphirerapids", cache=False)
    assert PASS not in [d.pass_name for d in found.report.decisions]
