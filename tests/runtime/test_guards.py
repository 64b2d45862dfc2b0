"""A call with other arguments than a program was compiled for is never answered wrongly."""

import threading

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import mlirfuse
from mlirfuse import api
from mlirfuse.core import CallError, MlirfuseError, UsageError
from mlirfuse.runtime.guards import Guard, describe
from mlirfuse.tools.run import main as run_main

THREADS = 16


class Softmax(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, scale=1.0):
        if not torch.compiler.is_compiling():
            self.calls += 1
        return torch.softmax(x * scale, -1)


@pytest.fixture
def compiles(monkeypatch):
    """The shapes of the example inputs of every import."""
    seen = []
    opened = api.open_model

    def record(model, example_inputs=None, **rest):
        seen.append(tuple(example_inputs[0].shape))
        return opened(model, example_inputs, **rest)

    monkeypatch.setattr(api, "open_model", record)
    return seen


def softmax(x):
    return torch.softmax(x.to(torch.float64), -1).to(x.dtype)


def test_other_shapes_are_compiled_once(compiles):
    program = mlirfuse.compile(Softmax(), (torch.randn(4, 8),), guard="recompile")
    for rows in (4, 2, 4, 2):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(program(x), softmax(x))
    assert compiles == [(4, 8), (2, 8)]
    x = torch.randn(2, 8)
    torch.testing.assert_close(program(x, 2.0), softmax(x * 2.0))
    with pytest.raises(CallError):
        program(x, scale=2.0)  # positional and keyword arguments cannot both be examples


def test_a_jax_function_is_compiled_again():
    program = mlirfuse.compile(jax.nn.softmax, (jnp.ones((4, 8)),), guard="recompile")
    x = jnp.arange(24.0).reshape(3, 8)
    np.testing.assert_allclose(program(x), jax.nn.softmax(x), rtol=1e-5)


def test_the_model_itself_answers(compiles):
    model = Softmax()
    program = mlirfuse.compile(model, (torch.randn(4, 8),), guard="fallback")
    x = torch.randn(4, 8)
    torch.testing.assert_close(program(x), softmax(x))
    assert model.calls == 0
    x = torch.randn(3, 5)
    torch.testing.assert_close(program(x), softmax(x))
    assert model.calls == 1
    assert len(compiles) == 1


@pytest.mark.parametrize("guard", ["recompile", "fallback"])
def test_a_module_of_pytorch_answers_arrays_of_numpy(guard):
    program = mlirfuse.compile(Softmax(), (torch.randn(4, 8),), guard=guard)
    for x in (np.ones((4, 8), np.float32), np.ones((2, 8), np.float32)):
        y = program(x)
        assert isinstance(y, np.ndarray)
        np.testing.assert_allclose(y, np.full(x.shape, 0.125), rtol=1e-5)


def test_sixteen_threads_get_their_own_answers():
    program = mlirfuse.compile(Softmax(), (torch.randn(4, 8),), guard="recompile")
    wrong = []

    def call(seed):
        generator = torch.Generator().manual_seed(seed)
        for number in range(20):
            x = torch.randn(4 - (seed + number) % 2, 8, generator=generator)
            if not torch.allclose(program(x), softmax(x), atol=1e-6):
                wrong.append((seed, number))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- dynamic sizes -------------------------------------------------------------------------------


class Sum(torch.nn.Module):
    def forward(self, x, y):
        return torch.softmax(x + y, -1)


@pytest.fixture(scope="module")
def batched():
    rows, columns = torch.export.Dim("rows"), torch.export.Dim("columns", min=3, max=9)
    shapes = {"x": {0: rows, 1: columns}, "y": {0: rows, 1: columns}}
    example = (torch.randn(4, 8), torch.randn(4, 8))
    return mlirfuse.compile(Sum(), example, dynamic_shapes=shapes)


@pytest.mark.parametrize("size", [(4, 8), (1, 3), (7, 9)])
def test_sizes_within_their_ranges_are_taken(batched, size):
    x, y = torch.randn(size), torch.randn(size)
    torch.testing.assert_close(batched(x, y), softmax(x + y))


@pytest.mark.parametrize(
    ("shapes", "fragment"),
    [
        (((4, 8), (5, 8)), "axis 0 of argument 'y' is 5; expected 4, as axis 0 of argument 'x'"),
        (((4, 2), (4, 2)), "axis 1 of argument 'x' is 2; expected 3 to 9"),
        (((4, 10), (4, 10)), "axis 1 of argument 'x' is 10; expected 3 to 9"),
    ],
)
def test_other_sizes_are_refused_also_after_a_file(batched, shapes, fragment, tmp_path):
    arguments = [torch.zeros(shape) for shape in shapes]
    with pytest.raises(CallError, match=fragment):
        batched(*arguments)
    batched.save(tmp_path / "sum.vmfb")
    with pytest.raises(CallError, match=fragment):
        mlirfuse.load(tmp_path / "sum.vmfb")(*arguments)


def test_sizes_of_a_jax_export_that_are_equal_have_to_be():
    (rows,) = jax.export.symbolic_shape("rows")
    spec = jax.ShapeDtypeStruct((rows, 4), jnp.float32)
    program = mlirfuse.compile(jax.export.export(jax.jit(lambda x, y: x + y))(spec, spec))
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(program(x, x), x + x)
    with pytest.raises(CallError, match="axis 0 of argument '1' is 3; expected 2"):
        program(x[:2], x)


# --- policies ------------------------------------------------------------------------------------

TEXT = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = math.exp %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""


def test_without_a_guard_iree_itself_refuses(tmp_path):
    program = mlirfuse.compile(TEXT, guard="off")
    assert program(np.zeros((4, 8), np.float32)).sum() == 32
    with pytest.raises(MlirfuseError, match="the call failed") as caught:
        program(np.zeros((4, 9), np.float32))
    assert not isinstance(caught.value, CallError)
    program.save(tmp_path / "exp.vmfb")
    with pytest.raises(CallError):
        mlirfuse.load(tmp_path / "exp.vmfb")(np.zeros((4, 9), np.float32))


@pytest.mark.parametrize(
    ("guard", "fragment"),
    [
        ("recompiled", "unknown guard 'recompiled'; did you mean 'recompile'?"),
        ("recompile", "guard=recompile takes a model that can be called .* not str"),
        ("fallback", "guard=fallback takes a model that can be called .* not str"),
    ],
)
def test_a_guard_that_cannot_be_is_refused(guard, fragment):
    with pytest.raises(UsageError, match=fragment):
        mlirfuse.compile(TEXT, guard=guard)


def test_the_feature_chooses_the_guard_of_a_program_and_its_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    program = mlirfuse.compile(TEXT, disable_feature="guard")
    program.save("off.vmfb")
    mlirfuse.compile(TEXT).save("on.vmfb")
    wrong = np.zeros((4, 9), np.float32)
    for unguarded in (program, mlirfuse.load("off.vmfb"), mlirfuse.load("on.vmfb", guard="off")):
        with pytest.raises(MlirfuseError, match="the call failed") as caught:
            unguarded(wrong)
        assert not isinstance(caught.value, CallError)
    for guarded in (mlirfuse.load("on.vmfb"), mlirfuse.load("off.vmfb", guard="error")):
        with pytest.raises(CallError):
            guarded(wrong)
    for switch, fragment in (("error", "argument '0' is"), ("off", "the call failed")):
        assert run_main(["on.vmfb", "--input=4x9xf32=0", f"--guard={switch}"]) == 1
        assert fragment in capsys.readouterr().err
    with pytest.raises(UsageError, match="guard=recompile needs the feature 'guard'"):
        mlirfuse.compile(np.exp, guard="recompile", disable_feature="guard")


def test_a_file_has_no_model_to_compile(tmp_path):
    with pytest.raises(UsageError, match="guard=recompile needs the model"):
        mlirfuse.load(tmp_path / "absent.vmfb", guard="recompile")


def test_programs_for_other_shapes_are_limited(monkeypatch):
    monkeypatch.setattr("mlirfuse.runtime.guards.MAX_PROGRAMS", 2)
    compiled = []

    def compile_for(given):
        compiled.append(given)
        return lambda *args: args

    guard = Guard("recompile", None, compile_for)
    for number in (1, 2, 1, 3, 1, 2):
        assert guard.handle(CallError("no"), (number,), {}) == (number,)
    assert compiled == [(1,), (2,), (3,), (2,)]


def test_keys_of_programs():
    x = np.zeros((2, 3), np.float32)
    assert describe((x, {"a": [1]})) == "tuple(ndarray([2, 3], float32), dict('a': list(1)))"
    assert describe((x,)) != describe((x.astype(np.float64),))
