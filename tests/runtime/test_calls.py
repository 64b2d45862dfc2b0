"""The calls that a program takes: the same for a fresh one and for one from a file."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import mlirfuse
from mlirfuse.core import CallError


class Nested(torch.nn.Module):
    def forward(self, x, parts, *, scale=None, mask=None):
        y = x - parts["a"] * parts["b"][0]
        return (y if mask is None else y * mask, None)


X, A, B, M = (np.arange(3, dtype=np.float32) + i for i in range(4))
EXPECTED = (X - A * B) * M


def tensors():
    x, a, b, m = (torch.from_numpy(v) for v in (X, A, B, M))
    return (x, {"a": a, "b": [b]}), {"mask": m}


@pytest.fixture(scope="module")
def torch_program():
    args, kwargs = tensors()
    return mlirfuse.compile(torch.export.export(Nested(), args, kwargs))


@pytest.fixture(scope="module")
def jax_program():
    def call(x, parts, mask):
        return x - parts["a"] * parts["b"][0] * 1.0 + 0 * mask, None

    return mlirfuse.compile(call, (X, {"a": A, "b": [B]}, M))


PARTS = {"a": A, "b": [B]}
CALLS = {
    "as exported": ((X, PARTS), {"mask": M}),
    "keywords": ((), {"mask": M, "parts": PARTS, "x": X}),
    "positions": ((X, PARTS, M), {}),
    "the flat list": ((X, A, B, M), {}),
    "a tuple for a list": ((X, {"b": (B,), "a": A}, M), {}),
    "lists for arrays": ((X.tolist(), PARTS), {"mask": M.tolist()}),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("frontend", ["torch", "jax"])
def test_fresh_and_loaded_programs_take_the_same_calls(request, tmp_path, frontend, call):
    program = request.getfixturevalue(f"{frontend}_program")
    program.save(tmp_path / "program.vmfb")
    args, kwargs = CALLS[call]
    expected = EXPECTED if frontend == "torch" else X - A * B
    for one in (program, mlirfuse.load(tmp_path / "program.vmfb")):
        result, nothing = one(*args, **kwargs)
        np.testing.assert_array_equal(result, expected)
        assert nothing is None


def test_names_of_the_inputs_are_names_too(torch_program, tmp_path):
    torch_program.save(tmp_path / "program.vmfb")
    given = dict(zip([spec.name for spec in torch_program.inputs], (X, A, B, M), strict=True))
    for one in (torch_program, mlirfuse.load(tmp_path / "program.vmfb")):
        np.testing.assert_array_equal(one(**given)[0], EXPECTED)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X,), {"mask": M}, "argument 'parts' is missing"),
        ((X, PARTS), {"mask": M, "msak": M}, "no argument is called 'msak'; did you mean 'mask'?"),
        ((X, PARTS), {"mask": M, "x": X}, "argument 'x' is given twice"),
        ((X, {"a": A}), {"mask": M}, "argument 'parts' is no mapping of a, b"),
        ((X, {"a": A, "b": [B, B]}), {"mask": M}, r"argument 'parts'\['b'\] is no list of 1"),
        ((X, PARTS, M, M, M), {}, "called with 5 positional arguments; it has 3"),
    ],
)
def test_a_call_that_fits_no_form(torch_program, tmp_path, args, kwargs, message):
    torch_program.save(tmp_path / "program.vmfb")
    with pytest.raises(CallError, match=message):
        mlirfuse.load(tmp_path / "program.vmfb")(*args, **kwargs)
    with pytest.raises(CallError, match="it was exported for 2 positional"):
        torch_program(*args, **kwargs)


def test_a_constant_of_the_model_is_checked(tmp_path):
    program = mlirfuse.compile(lambda x, *, n: x * 2, {"x": jnp.ones(3), "n": jnp.ones(())})
    program.save(tmp_path / "program.vmfb")
    loaded = mlirfuse.load(tmp_path / "program.vmfb")
    np.testing.assert_array_equal(loaded(n=np.float32(1), x=X), X * 2)

    class Scaled(torch.nn.Module):
        def forward(self, x, by):
            return x * by

    exported = torch.export.export(Scaled(), (torch.from_numpy(X), 3.0))
    mlirfuse.compile(exported).save(tmp_path / "scaled.vmfb")
    loaded = mlirfuse.load(tmp_path / "scaled.vmfb")
    np.testing.assert_array_equal(loaded(X, by=3.0), X * 3)
    with pytest.raises(CallError, match=r"argument 'by' is 2\.0; the model was imported for 3\.0"):
        loaded(X, 2.0)


def test_containers_of_a_class_of_its_own_stay_with_the_fresh_program(tmp_path):
    @jax.tree_util.register_dataclass
    @__import__("dataclasses").dataclass
    class State:
        h: object

    program = mlirfuse.compile(lambda s: s.h + 1, (State(jnp.asarray(X)),))
    np.testing.assert_array_equal(program(State(X)), X + 1)
    program.save(tmp_path / "program.vmfb")
    np.testing.assert_array_equal(mlirfuse.load(tmp_path / "program.vmfb")(X), X + 1)
