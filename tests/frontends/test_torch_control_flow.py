"""`torch.cond`, `while_loop`, `scan` and `map`, which IREE's importer lacks or takes in part."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops import map as mapped
from torch._higher_order_ops import scan, while_loop
from torch.export import Dim

import mlirfuse

torch.manual_seed(0)
X = torch.randn(6, 4)


def compared(model, *argument_lists, **options):
    program = mlirfuse.compile(model, argument_lists[0], **options)
    for arguments in argument_lists:
        with torch.no_grad():
            torch.testing.assert_close(program(*arguments), model(*arguments))
    return program


class Branches(nn.Module):
    """A layer for each sign of the mean."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        y, z = torch.cond(
            x.mean() > 0,
            lambda x: (self.up(x).relu(), x.sum()),
            lambda x: (self.down(x), x.sum() * 2),
            (x,),
        )
        return y * z


@pytest.mark.parametrize("dynamic", [False, True])
def test_cond(dynamic):
    shapes = {"dynamic_shapes": ({0: Dim("rows", min=2)},)} if dynamic else {}
    compared(Branches().eval(), (X,), (-X,), (X - X.mean() + 1,), **shapes)


def divided(x, n):
    """Dividing by zero ends a process on CPUs: the branch that is not taken is not computed."""
    return torch.cond(n > 0, lambda x, n: x // n, lambda x, n: x + n, (x, n))


def test_the_other_branch_is_not_computed():
    x = torch.arange(4)
    compared(divided, (x, torch.tensor(3)), (x, torch.tensor(0)))


class Repeated(nn.Module):
    """A layer with parameters in the body of a loop."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        def more(k, x):
            return k < 3

        def step(k, x):
            return k + 1, torch.tanh(self.layer(x))

        return while_loop(more, step, (torch.zeros((), dtype=torch.int64), x))[1]


def halved(x):
    """The number of iterations depends on the values; one tensor is carried."""
    return while_loop(lambda x: x.abs().max() > 0.1, lambda x: (x / 2,), (x,))


def test_while_loop_with_parameters():
    compared(Repeated().eval(), (X,))


def test_while_loop_that_values_end():
    compared(halved, (X,), (X * 100,), (X * 0,))


def summed(xs, weight):
    def step(carried, x):
        new = torch.tanh(carried @ weight + x)
        return new, (new * 2, new.sum())

    return scan(step, torch.zeros(4), xs, dim=0)


@pytest.mark.parametrize("steps", [3, 12], ids=["written out", "loop"])
def test_scan(steps):
    compared(summed, (torch.randn(steps, 4), torch.randn(4, 4)))


def decayed(xs):
    return scan(lambda c, x: (c * 0.9 + x, c * x), torch.zeros(4), xs, dim=0, reverse=True)


def test_scan_of_an_open_number_of_steps():
    steps = Dim("steps", min=2)
    compared(decayed, (X,), (torch.randn(11, 4),), dynamic_shapes=({0: steps},))


def test_map_of_an_open_number_of_rows():
    def model(xs, y):
        return mapped(lambda x, y: (x @ y).relu(), xs, y)

    rows = Dim("rows", min=2)
    arguments = [(torch.randn(n, 3, 4), torch.randn(4, 2)) for n in (5, 9)]
    compared(model, *arguments, dynamic_shapes=({0: rows}, None))


def test_torch_compile_takes_them():
    from mlirfuse import torch_compile  # noqa: F401  the backend

    torch._dynamo.reset()
    model = Repeated().eval()
    with torch.inference_mode():
        fused = torch.compile(model, backend="mlirfuse", options={"fallback": False})
        torch.testing.assert_close(fused(X), model(X))
