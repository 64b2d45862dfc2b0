"""Workgroups that share the columns of a recurrence, in any order and on any number of threads."""

import concurrent.futures
import dataclasses

import numpy as np
import pytest

import mlirfuse
from mlirfuse import targets
from mlirfuse.kernels.vector import recurrence_split
from mlirfuse.kernels.vector.recurrence_split import Steps

CPU = targets.parse("cpu:x86-64-v4").cpu


def test_one_row_is_divided_by_columns():
    split = recurrence_split.choose(Steps(rows=1, columns=256, blocks=(4,)), CPU)
    assert split.groups == 1 < split.parts <= CPU.cores
    assert split.seconds < recurrence_split.seconds_of_commands(Steps(1, 256, (4,)), CPU)


def test_states_that_fit_in_the_first_cache_are_not_divided():
    assert recurrence_split.choose(Steps(rows=1, columns=32, blocks=(4,)), CPU).parts == 1
    one_core = dataclasses.replace(CPU, cores=1)
    assert recurrence_split.choose(Steps(rows=1, columns=256, blocks=(4,)), one_core).parts == 1


def test_many_rows_are_divided_first():
    split = recurrence_split.choose(Steps(rows=64, columns=256, blocks=(4,)), CPU)
    assert (split.groups, split.parts) == (CPU.cores, 1)


def test_the_host_starts_iterations_that_many_cores_compute_faster():
    many = dataclasses.replace(CPU, cores=512)
    steps = Steps(rows=1, columns=4096, blocks=(4,))
    split = recurrence_split.choose(steps, many)
    assert split.seconds > recurrence_split.seconds_of_commands(steps, many)


@pytest.fixture(scope="module")
def layer():
    """A layer that the eight cores of a named CPU share, whatever this machine has."""
    torch = pytest.importorskip("torch")
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model, x = torch.nn.LSTM(160, 160).eval(), torch.randn(300, 1, 160)
        with torch.no_grad():
            program = mlirfuse.compile(model, (x,), target="cpu:x86-64-v3", cache=False)
            expected = model.double()(x.double())[0].numpy()
    assert "recurrence_vector_kernel" in [kernel.code for kernel in program.report.kernels]
    return program, x, expected


@pytest.mark.parametrize("device", ["local-task", "local-sync"])
def test_any_order_of_workgroups(layer, device):
    program, x, expected = layer
    call = program.on(device)
    for _ in range(100):
        np.testing.assert_allclose(np.asarray(call(x)[0]), expected, rtol=0, atol=2e-6)


def test_calls_of_several_threads(layer):
    program, x, expected = layer
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: np.asarray(program(x)[0]), range(60)):
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
