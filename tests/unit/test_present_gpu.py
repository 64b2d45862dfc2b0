"""`cuda` means the GPU of this machine."""

import logging
import stat

import pytest

from mlirfuse.targets import parse, present


@pytest.fixture(autouse=True)
def _fresh():
    present.cuda_arch.cache_clear()
    yield
    present.cuda_arch.cache_clear()


def tool(tmp_path, monkeypatch, text):
    """Puts an `nvidia-smi` that prints this text first in the path, and nothing else."""
    path = tmp_path / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(
    ("printed", "arch"), [("9.0", "sm_90"), ("8.6\n8.0", "sm_86"), ("12.0", "sm_90")]
)
def test_the_gpu_that_is_present(printed, arch, tmp_path, monkeypatch, caplog):
    tool(tmp_path, monkeypatch, f"echo '{printed}'")
    assert str(parse("cuda")) == f"cuda:{arch}"
    assert not caplog.records


@pytest.mark.parametrize("text", ["exit 9", "echo 'No devices were found'", "echo 5.2"])
def test_no_gpu_that_there_is_code_for(text, tmp_path, monkeypatch, caplog):
    tool(tmp_path, monkeypatch, text)
    with caplog.at_level(logging.WARNING, "mlirfuse"):
        assert str(parse("cuda")) == str(parse("cuda")) == "cuda:sm_80"
    (record,) = caplog.records
    assert "sm_80" in record.getMessage()


def test_a_named_architecture_asks_for_no_gpu(monkeypatch):
    monkeypatch.setattr(present, "_capability", lambda: pytest.fail("it was asked"))
    assert str(parse("cuda:sm_86")) == "cuda:sm_86"
