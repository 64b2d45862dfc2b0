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


def gradients_of(function):
    """A function of a gradient and of arguments: the result, and the gradients of these."""

    def gradients(cotangent, *arguments):
        result, vjp = torch.func.vjp(function, *arguments)
        return result, *vjp(cotangent)

    return gradients


def resized(mode, size):
    return lambda x: F.interpolate(x, size=size, mode=mode)


GRADIENTS = {
    "transposed convolution of groups": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, groups=2),
        [(3, 4, 5, 5), (4, 3, 3, 3), (6,)],
    ),
    "average": (lambda x: F.avg_pool2d(x, 3, 2, 1), [(2, 3, 8, 9)]),
    "average of what is inside": (
        lambda x: F.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True, count_include_pad=False),
        [(2, 3, 8, 9)],
    ),
    "average by a number": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), [(2, 3, 7, 8)]),
    "average of volumes": (lambda x: F.avg_pool3d(x, 2, 2, 1), [(2, 3, 4, 5, 6)]),
    "adaptive average": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), [(2, 3, 8, 7)]),
    "adaptive average of volumes": (
        lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)),
        [(2, 3, 5, 7, 4)],
    ),
    "adaptive average of one volume": (
        lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)),
        [(3, 5, 7, 4)],
    ),
    "linear": (resized("linear", 9), [(2, 3, 4)]),
    "bilinear": (resized("bilinear", (9, 3)), [(2, 3, 4, 7)]),
    "trilinear": (resized("trilinear", (3, 5, 4)), [(2, 3, 4, 4, 2)]),
    "bicubic": (resized("bicubic", (9, 3)), [(2, 3, 4, 7)]),
    "nearest": (resized("nearest", (8, 21)), [(2, 3, 4, 7)]),
    "nearest of some": (resized("nearest", (9, 5)), [(2, 3, 4, 7)]),
    "nearest exact": (resized("nearest-exact", (9, 14)), [(2, 3, 4, 7)]),
    "circular padding": (lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), [(2, 3, 5, 6)]),
    "activations": (lambda x: F.silu(x) + F.mish(x) + F.softshrink(x, 0.3), [(4, 9)]),
    "weight norm": (torch._weight_norm, [(4, 3), (4, 1)]),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 2, 7, 8)] * 3,
    ),
    "determinant": (lambda x: torch.linalg.det(x + 4 * torch.eye(4)), [(2, 4, 4)]),
    "logarithm of a determinant": (
        lambda x: torch.linalg.slogdet((x + 4 * torch.eye(4)).mT)[1],
        [(4, 4)],
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    function, shapes = GRADIENTS[name]
    arguments = [torch.randn(shape) for shape in shapes]
    cotangent = torch.randn_like(function(*arguments))
    check(gradients_of(function), cotangent, *arguments)


def test_arguments_that_the_exporter_takes_for_constants():
    """The exporter of PyTorch 2.13 computes such a convolution at once, and hangs."""
    gradients = gradients_of(lambda x, w: F.conv_transpose2d(x, w, stride=2))
    check(gradients, torch.randn(3, 4, 6, 6), torch.randn(3, 2, 3, 3), torch.randn(2, 4, 2, 2))
