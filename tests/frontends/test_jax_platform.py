"""JAX programs are lowered for one platform, on machines with a GPU too."""

import jax
import numpy as np
import pytest

import mlirfuse


@pytest.fixture
def platforms(monkeypatch):
    """The platforms that JAX lowers for."""
    found = []
    lower = jax.stages.Traced.lower

    def recorded(traced, *args, lowering_platforms=None, **kwargs):
        found.append(lowering_platforms)
        return lower(traced, *args, lowering_platforms=lowering_platforms, **kwargs)

    monkeypatch.setattr(jax.stages.Traced, "lower", recorded)
    return found


def test_functions_and_repairs_are_lowered_for_the_cpu(platforms):
    def values(x):
        return jax.numpy.linalg.eigvalsh(x)

    matrix = np.diag(np.arange(1.0, 5.0, dtype=np.float32))
    program = mlirfuse.compile(values, (matrix,), target="cpu")
    assert np.allclose(program(matrix), np.arange(1.0, 5.0))
    assert len(platforms) > 1
    assert set(platforms) == {("cpu",)}


def test_on_a_gpu_jax_calls_its_vendors_libraries():
    """The reason for the platform: another lowering has calls that IREE lacks."""
    traced = jax.jit(jax.numpy.linalg.eigvalsh).trace(np.eye(4, dtype=np.float32))
    assert "cusolver" in traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "cusolver" not in traced.lower(lowering_platforms=("cpu",)).as_text()
