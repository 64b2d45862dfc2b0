"""One kernel computes stacked and concatenated tensors with the elementwise ops behind them.

It runs in Triton's interpreter, beside PyTorch.
"""

import ml_dtypes
import numpy as np
import pytest

import mlirfuse
from helpers.kernel_runner import needs_triton, run
from helpers.torch_program import Program

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = needs_triton

PASSES = ("elementwise_reshape_rewrite", "concat_reshape_rewrite")
DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "i8": torch.int8,
}


def interleaved(*parts):
    return torch.stack(parts, -1).flatten(-2)


def heads(x, y):
    """Two parts of two heads each, and one of three."""
    return torch.cat((x, y), -1).unflatten(-1, (-1, 8))


ROWS, OTHERS = (9, 24), (9, 16)

PROGRAMS = {
    "stack": (lambda x, y: torch.stack((x, y), -1).relu(), ROWS, ROWS),
    "interleaved": (lambda x, y: interleaved(x, y).relu(), ROWS, ROWS),
    "three": (lambda x, y, z: interleaved(x, y, z).relu(), ROWS, ROWS, ROWS),
    "another_operand": (lambda x, y, z: interleaved(x, y) + z, ROWS, ROWS, (9, 48)),
    "scaled_columns": (lambda x, y, z: interleaved(x, y) * z, ROWS, ROWS, (48,)),
    "scaled_rows": (lambda x, y, z: (interleaved(x, y) * z).abs(), ROWS, ROWS, (9, 1)),
    "before_and_behind": (lambda x, y: interleaved(x.abs(), y * y).relu(), ROWS, ROWS),
    "joined_users": (lambda x, y: (lambda c: c * c.relu())(interleaved(x, y)), ROWS, ROWS),
    "merged_rows": (lambda x, y, z: torch.cat((x, y), 1).flatten(0, 1) * z, *[(5, 3, 7)] * 2, (7,)),
    "odd_parts": (lambda x, y: torch.cat((x, y), -1).relu(), (9, 5), (9, 13)),
    "stack_rows": (lambda x, y, z: torch.stack((x, y), 1) * z, ROWS, ROWS, (2, 1)),
    "stack_columns": (lambda x, y, z: (torch.stack((x, y), 1) + z).relu(), ROWS, ROWS, (24,)),
    "heads": (lambda x, y, z: heads(x, y) * z, ROWS, OTHERS, (5, 1)),
    "split_rows": (
        lambda x, y, z: torch.cat((x, y), -1).unflatten(0, (3, 3)) * z,
        *(ROWS, OTHERS, (3, 1, 1)),
    ),
    "stack_of_split_rows": (
        lambda x, y, z: torch.stack((x, y), -1).unflatten(0, (3, 3)) * z,
        *(ROWS, ROWS, (3, 1, 2)),
    ),
    "padded": (lambda x: F.pad(x, (1, 2)).flatten(1).abs(), (5, 3, 7)),
    "strided": (lambda x: x[:, :, ::2].flatten(1).abs(), (5, 3, 8)),
    "two_users": (lambda x, y: (lambda c: (c.relu(), c.abs()))(interleaved(x, y)), ROWS, ROWS),
    "result_and_user": (lambda x, y: (lambda c: (c, c * c))(torch.cat((x, y), 1)), ROWS, OTHERS),
}
"""Functions with the shapes of their arguments."""

KINDS = {
    **{f"{name}-f16": (name, "f16") for name in PROGRAMS},
    **{f"{name}-{kind}": (name, kind) for name in ("interleaved", "heads") for kind in DTYPES},
}


def example(name, kind="f16"):
    """A program and arguments: small integers, which products of two do not round."""
    function, *shapes = PROGRAMS[name]
    generator = torch.manual_seed(3)
    arguments = [torch.randint(-9, 10, s, generator=generator).to(DTYPES[kind]) for s in shapes]
    return Program(function), tuple(arguments)


@pytest.mark.parametrize("case", KINDS)
def test_values(interpreter, case, tmp_path):
    name, kind = KINDS[case]
    program, arguments = example(name, kind)
    exact = program(*arguments)
    exact = exact if isinstance(exact, tuple) else (exact,)
    compiled = mlirfuse.compile(
        program, arguments, target="cuda:sm_90", cache=False, dump_ir_dir=tmp_path
    )
    assert len(compiled.kernels) == 1
    text = min(tmp_path.glob("*_before.mlir")).read_text()
    if kind == "bf16":
        arrays = [x.view(torch.int16).numpy().view(ml_dtypes.bfloat16) for x in arguments]
    else:
        arrays = [x.numpy() for x in arguments]
    found = run(interpreter, text, "elementwise", arrays, [list(x.shape) for x in exact])
    for got, expected in zip(found, exact, strict=True):
        np.testing.assert_array_equal(got.reshape(expected.shape), expected.double().numpy())


@pytest.mark.parametrize(
    ("name", "passes"),
    [("interleaved", PASSES[:1]), ("stack_rows", PASSES[1:]), ("split_rows", PASSES[1:])],
)
def test_two_kernels_without_the_pass(name, passes):
    program, arguments = example(name)
    found = mlirfuse.compile(program, arguments, target="cuda:sm_90", disable_pass=passes)
    assert [kernel.name for kernel in found.kernels] == ["concat_kernel", "elementwise_kernel"]


MORE = {
    "norm": (lambda x, y: F.layer_norm(interleaved(x, y).relu(), (48,)), 2),
    "sum": (lambda x, y: interleaved(x, y).relu().sum(-1), 2),
    "softmax": (lambda x, y: torch.cat((x * 2, y), -1).softmax(-1), 2),
    "product": (lambda x, y: interleaved(x, y).relu() @ y.new_ones(48, 32), 2),
    "users_of_several_spaces": (
        lambda x, y: (lambda c: (c.relu(), c[:, None] * y[:, :3, None]))(torch.cat((x, y), -1)),
        2,
    ),
}
"""Functions of two tensors of one shape, with other ops behind, and the number of their kernels."""


@pytest.mark.parametrize("name", MORE)
def test_other_ops_behind_take_no_further_kernel(name):
    function, count = MORE[name]
    arguments = tuple(torch.randn(ROWS).half() for _ in range(2))
    program = mlirfuse.compile(Program(function), arguments, target="cuda:sm_90")
    assert len(program.kernels) <= count


@pytest.mark.parametrize("name", ["two_users", "result_and_user"])
def test_users_of_one_concatenation_on_the_cpu(name):
    program, arguments = example(name, "f32")
    compiled = mlirfuse.compile(program, arguments)
    for got, expected in zip(compiled(*arguments), program(*arguments), strict=True):
        assert torch.equal(torch.as_tensor(got), expected)
