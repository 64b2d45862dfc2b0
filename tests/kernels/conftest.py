from types import SimpleNamespace

import pytest

from helpers import device_functions


@pytest.fixture(scope="module")
def interpreter():
    """Triton's interpreter, which conftest.py chooses."""
    torch = pytest.importorskip("torch")
    from mlirfuse.kernels import triton_worker

    with pytest.MonkeyPatch.context() as patch:
        device_functions.install(patch)
        yield SimpleNamespace(load=triton_worker.load, torch=torch)
