"""One kernel reads through paddings and gathers in front of a gather, in Triton's interpreter."""

import numpy as np
import pytest

import mlirfuse
from helpers.kernel_runner import needs_triton, run
from helpers.torch_program import Program

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = needs_triton

PASS = "nested_gather_rewrite"


def patches(x):
    """The patches of an image, in the order of a merged layer."""
    return x.unfold(2, 2, 2).unfold(3, 2, 2).permute(0, 2, 3, 1, 4, 5)


def windows(x, padding, dilation):
    """The indices of 3x3 windows of an image with a border, as `F.unfold` computes them."""
    steps = dilation * torch.arange(3)[:, None]
    sizes = [size + 2 * padding - 2 * dilation for size in x.shape[2:]]
    rows, columns = (steps + torch.arange(size) for size in sizes)
    return rows[:, :, None, None], columns


def columns_of(padding, dilation, before=lambda x: x):
    """An image and the indices of its windows."""
    image = torch.randint(-9, 10, (2, 3, 6, 7), generator=torch.manual_seed(4)).float()
    border = (padding,) * 4
    return (
        lambda x, rows, columns: F.pad(before(x), border)[:, :, rows, columns],
        image,
        *windows(image, padding, dilation),
    )


def integers(*shape):
    return torch.randint(-9, 10, shape, generator=torch.manual_seed(4)).float()


PROGRAMS = {
    "unfold": columns_of(1, 1, torch.abs),
    "dilated": columns_of(2, 2),
    "of_a_value": (
        lambda x, n: F.pad(x, (2, 1), value=5.0)[:, n] * 2,
        integers(4, 8),
        torch.tensor([0, 9, 2, 2, 10, -1]),
    ),
    "patches": (lambda x: patches(x) * 3, integers(2, 3, 6, 8)),
    "reversed_windows": (lambda x: x.unfold(1, 4, 2).flip(2) + 1, integers(3, 12)),
}
"""Functions with their arguments, small integers, which nothing rounds."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(interpreter, name, tmp_path):
    function, *arguments = PROGRAMS[name]
    program, exact = Program(function), function(*arguments)
    compiled = mlirfuse.compile(
        program, arguments, target="cuda:sm_90", cache=False, dump_ir_dir=tmp_path
    )
    assert any(d.taken and d.pass_name == PASS for d in compiled.report.decisions)
    assert len(compiled.kernels) == 1
    text = min(tmp_path.glob("*_before.mlir")).read_text()
    given = [x.numpy() for x in arguments]
    (found,) = run(interpreter, text, "elementwise", given, [list(exact.shape)])
    np.testing.assert_array_equal(found.reshape(exact.shape), exact.numpy())


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_kernels_without_the_pass(name):
    function, *arguments = PROGRAMS[name]
    found = mlirfuse.compile(Program(function), arguments, target="cuda:sm_90", disable_pass=[PASS])
    assert len(found.kernels) == 2


def test_a_tensor_that_is_read_very_often_is_padded_once():
    program = Program(lambda x, n: F.pad(x, (3, 3))[n])
    arguments = torch.randn(64), torch.zeros(8_000_000, dtype=torch.int64)
    found = mlirfuse.compile(program, arguments, target="cuda:sm_90")
    assert not any(d.taken and d.pass_name == PASS for d in found.report.decisions)
    assert len(found.kernels) == 2


def test_a_tensor_with_other_users_is_kept():
    program = Program(lambda x, n: (lambda y: (y[:, n], y * 2))(F.pad(x, (2, 1))))
    arguments = integers(4, 8), torch.tensor([0, 9])
    found = mlirfuse.compile(program, arguments, target="cuda:sm_90")
    assert not any(d.taken and d.pass_name == PASS for d in found.report.decisions)
