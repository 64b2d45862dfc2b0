from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def interpreter():
    """Triton's interpreter, which conftest.py chooses."""
    torch = pytest.importorskip("torch")
    from mlirfuse.kernels import triton_worker

    return SimpleNamespace(load=triton_worker.load, torch=torch)
