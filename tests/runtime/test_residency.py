"""Kernels whose workgroups wait for each other: only devices that run all of them load them."""

import ctypes

import numpy as np
import pytest

import mlirfuse
from helpers.kernel_runner import needs_triton
from mlirfuse.core import MlirfuseError
from mlirfuse.runtime import residency


class Driver:
    """`libcuda` of a device with so many multiprocessors."""

    def __init__(self, count, status=0):
        self.count, self.status = count, status

    def cuInit(self, flags):
        return self.status

    def cuDeviceGet(self, device, ordinal):
        return 0

    def cuDeviceGetAttribute(self, count, attribute, device):
        assert attribute == 16
        count._obj.value = self.count
        return 0


@pytest.fixture
def driver(monkeypatch):
    def installed(*args):
        monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver(*args))
        residency.multiprocessors.cache_clear()

    yield installed
    residency.multiprocessors.cache_clear()


@pytest.fixture(scope="module")
def recurrence():
    torch = pytest.importorskip("torch")
    layer = torch.nn.GRU(64, 512).eval()
    return mlirfuse.compile(layer, (torch.zeros(9, 3, 64),), target="cuda:sm_90", cache=False)


@needs_triton
def test_the_manifest_says_how_many_wait(recurrence, tmp_path):
    (kernel,) = (k for k in recurrence.report.kernels if k.name == "recurrence_kernel")
    assert 1 < recurrence._manifest.waiting_workgroups <= kernel.workgroups[0]
    recurrence.save(tmp_path / "gru.vmfb")
    loaded = mlirfuse.load(tmp_path / "gru.vmfb")
    assert loaded._manifest.waiting_workgroups == recurrence._manifest.waiting_workgroups


@needs_triton
def test_both_directions_run_beside_each_other(tmp_path):
    torch = pytest.importorskip("torch")
    layer = torch.nn.GRU(64, 32, bidirectional=True).eval()
    made = mlirfuse.compile(layer, (torch.zeros(9, 3, 64),), target="cuda:sm_90", cache=False)
    made.save(tmp_path / "gru.vmfb")
    detached = mlirfuse.load(tmp_path / "gru.vmfb").report.detached
    first, second = sorted(detached.users)
    assert second not in detached.users[first]
    assert first not in detached.predecessors()[second]


@needs_triton
def test_kernels_whose_workgroups_wait_run_alone(recurrence):
    assert recurrence.report.detached is None


def test_other_programs_wait_for_none():
    module = mlirfuse.compile(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }",
        target="cpu",
    )
    assert module._manifest.waiting_workgroups == 0
    assert module.report.detached is None
    assert module(np.ones(4, np.float32)).tolist() == [1, 1, 1, 1]


def test_a_device_with_fewer_multiprocessors_is_refused(driver):
    driver(16)
    residency.check_resident("cuda", 16, "gru.mlir")
    residency.check_resident("hip", 17, "gru.mlir")
    residency.check_resident("cuda", 0, "gru.mlir")
    with pytest.raises(MlirfuseError, match=r"17 workgroups .* it has 16 multi.*--disable-pass"):
        residency.check_resident("cuda://0", 17, "gru.mlir")


def test_a_driver_that_does_not_tell(driver, monkeypatch):
    driver(16, 100)
    assert residency.multiprocessors(0) is None
    residency.check_resident("cuda", 17, "gru.mlir")

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    residency.multiprocessors.cache_clear()
    assert residency.multiprocessors(0) is None
