"""Random fusion plans that are one kernel by the rules are one when they are compiled."""

import pytest

from benchmarks.fusion_plans import run
from mlirfuse.fusion_plan.rules import TARGETS
from mlirfuse.kernels import triton_compiler


@pytest.fixture(autouse=True)
def _private(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("MLIRFUSE_FIND_DB", "off")


def _needs(target):
    if target.startswith(("cuda", "rocm")) and triton_compiler.missing() is not None:
        pytest.skip("no Triton")


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_a_small_sample(target):
    assert list(run.wrong(target, 5, seed=0)) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_sample(target):
    _needs(target)
    assert list(run.wrong(target, 125, seed=0)) == []
