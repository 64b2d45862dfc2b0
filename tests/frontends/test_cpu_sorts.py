"""Sorts of PyTorch, JAX and ONNX by a kernel for CPUs, bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import torch
from onnx import helper

import mlirfuse

FIRED = {"sort_vector_kernel": 1}


def numbers():
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, (19, 45)).astype(np.float32) / 4
    x[2, 5], x[3, :4] = np.nan, [-0.0, 0.0, -np.inf, np.inf]
    return x


TORCH = {
    "values": lambda x: x.sort(dim=-1, stable=True).values,
    "both": lambda x: x.sort(dim=0, descending=True, stable=True),
    "argsort": lambda x: x.argsort(dim=-1, stable=True),
}


@pytest.mark.parametrize("name", TORCH)
def test_torch(name):
    x = torch.from_numpy(numbers())
    program = mlirfuse.compile(TORCH[name], (x,))
    assert program.report.counts() == FIRED
    found, expected = program(x), TORCH[name](x)
    if name != "both":
        found, expected = (found,), (expected,)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.numpy().view(np.int32), other.numpy().view(np.int32))


JAX = {
    "sort": lambda x: jnp.sort(x, 0),
    "argsort": lambda x: jnp.argsort(x, -1, descending=True),
    "two": lambda x: jax.lax.sort((x, x + 1), num_keys=1)[1],
    "top_k": lambda x: jax.lax.top_k(x, 3)[1],
}


@pytest.mark.parametrize("name", JAX)
def test_jax(name):
    x, function = numbers(), jax.jit(JAX[name])
    program = mlirfuse.compile(function, (x,))
    assert program.report.counts()["sort_vector_kernel"] == 1
    found, expected = (np.asarray(y).view(np.int32) for y in (program(x), function(x)))
    np.testing.assert_array_equal(found, expected)


def test_a_count_of_elements_that_are_no_nan_is_no_kernel():
    """It is a sum of truth values, as a rank is, and has a constant that is no integer."""
    model = lambda x: jnp.nanstd(jnp.where(x > 1, jnp.nan, x))  # noqa: E731
    x = numbers()[5]
    program = mlirfuse.compile(model, (x,), disable_feature=["fallback"])
    np.testing.assert_allclose(program(x), model(x), rtol=1e-5)


def test_jax_order_by_two_keys_is_no_kernel():
    x = numbers()
    program = mlirfuse.compile(
        jax.jit(lambda x: jax.lax.sort((jnp.round(x), x), num_keys=2)[1]), (x,)
    )
    assert "sort_vector_kernel" not in program.report.counts()


def test_onnx(tmp_path):
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=-1)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, [19, 45])],
        [
            helper.make_tensor_value_info("v", 1, [19, 4]),
            helper.make_tensor_value_info("i", 7, [19, 4]),
        ],
        [helper.make_tensor("k", 7, [1], [4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "topk.onnx"
    onnx.save(model, path)
    x = np.where(np.isnan(numbers()), 0, numbers()).astype(np.float32)
    program = mlirfuse.compile(path)
    assert program.report.counts() == FIRED
    found = program(x)
    values, indices = found.values() if isinstance(found, dict) else found
    order = np.argsort(-x, -1, kind="stable")[:, :4]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))
