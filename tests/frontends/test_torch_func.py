"""Functions of `torch.func` in a model, of which the exporter cannot decompose all."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import mlirfuse
from helpers.torch_programs import check
from mlirfuse.core import ImportFailedError, Reason

torch.manual_seed(0)


class Step(nn.Module):
    """A step of gradient descent, whose parameters stay constants of the program."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, target):
        def loss(weight, bias):
            return F.cross_entropy(F.linear(x, weight, bias), target)

        given = self.layer.weight, self.layer.bias
        (weight, bias), value = torch.func.grad_and_value(loss, argnums=(0, 1))(*given)
        return {"loss": value, "weights": [given[0] - 0.1 * weight, given[1] - 0.1 * bias], "n": 3}


def derivatives(x):
    return (
        torch.func.jacfwd(lambda a: a.softmax(0))(x),
        torch.func.jacrev(lambda a: torch.tanh(a).cumsum(0))(x),
        torch.func.hessian(lambda a: (a**3).sum())(x),
        torch.func.vmap(torch.func.grad(lambda a: a.sin() * a))(x),
    )


def test_a_step_of_training():
    check(Step(), torch.randn(5, 4), torch.randint(0, 3, (5,)))


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # of jvp itself
def test_derivatives():
    check(derivatives, torch.randn(5))


def quantized(x, scale, zero, offset):
    return (
        torch.fake_quantize_per_channel_affine(x, scale, zero, 0, -8, 7),
        torch.fake_quantize_per_channel_affine(x, scale, offset, 0, -8, 7),
        torch.fake_quantize_per_tensor_affine(x, scale[0], zero[0], -8, 7),
    )


def test_fake_quantization():
    scale, zero = torch.rand(3) + 0.1, torch.tensor([0, 2, -1], dtype=torch.int32)
    check(quantized, torch.randn(3, 4) * 3, scale, zero, torch.tensor([0.5, 0.2, 0.0]))


def test_quotients_of_sizes():
    def model(x):
        return x[: torch.div(x.shape[0], 2, rounding_mode="floor")] + 1

    program = check(model, torch.randn(6))
    assert not any(d.reason is Reason.FELL_BACK for d in program.report.decisions)


class Averaged(nn.Module):
    """The export asks for a number that each call changes."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4, momentum=None)

    def forward(self, x):
        return self.norm(x)


def test_a_trace_of_a_model_that_updates_its_state_is_refused():
    model = Averaged().train()
    with pytest.raises(ImportFailedError, match="cannot export it"):
        mlirfuse.compile(model, (torch.randn(8, 4),))
    assert model.norm.num_batches_tracked == 0
