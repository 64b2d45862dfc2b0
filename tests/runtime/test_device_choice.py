"""The devices that measurements are spread over."""

import pytest

from mlirfuse.core import MlirfuseError
from mlirfuse.runtime import device_choice
from mlirfuse.runtime.device_choice import environments

ALIKE = ["NVIDIA H200", "NVIDIA H200", "NVIDIA T4"]


@pytest.mark.parametrize(
    ("uri", "visible", "wanted"),
    [
        ("cuda", None, ["0", "1"]),
        ("cuda", "3, 5,6", ["3", "5"]),
        ("cuda", "GPU-1a,GPU-2b", ["GPU-1a", "GPU-2b"]),
        ("hip", None, ["0", "1"]),
    ],
)
def test_each_device_of_the_first_ones_name_has_an_environment(monkeypatch, uri, visible, wanted):
    variable = device_choice.VARIABLES[uri]
    monkeypatch.setattr(device_choice, "_names", lambda driver: ALIKE)
    monkeypatch.delenv(variable, raising=False)
    if visible is not None:
        monkeypatch.setenv(variable, visible)
    assert environments(uri) == tuple({variable: word} for word in wanted)


@pytest.mark.parametrize("uri", ["local-task", "vulkan", "cuda://1", "hip://0"])
def test_a_chosen_device_and_other_drivers_have_the_process_s_own(monkeypatch, uri):
    monkeypatch.setattr(device_choice, "_names", lambda driver: pytest.fail("asked"))
    assert environments(uri) == ({},)


def test_without_devices_there_is_one_environment(monkeypatch):
    monkeypatch.setattr(device_choice, "_names", lambda driver: [])
    assert environments("cuda") == ({},)


def test_a_driver_that_is_not_there_is_an_error():
    with pytest.raises(MlirfuseError, match="device 'absent' is not available"):
        device_choice._names("absent")
