"""The devices of a driver that a process can be started for, each alone."""

from __future__ import annotations

import os

from mlirfuse.core import MlirfuseError
from mlirfuse.runtime.devices import first_line

VARIABLES = {"cuda": "CUDA_VISIBLE_DEVICES", "hip": "HIP_VISIBLE_DEVICES"}
"""Driver -> the environment variable with the devices that a process sees."""


def environments(uri: str) -> tuple[dict[str, str], ...]:
    """For each device, the variables with which a process sees that one alone.

    Devices of another name than the first one's are left out: times on them say other things. A URI
    with a path names one device, and drivers without such a variable have one: those have no
    variables.

    Args:
      uri: of iree-runtime's device, `cuda` or `cuda://1`.

    Raises:
      MlirfuseError: the driver is not available.
    """
    driver, _, path = uri.partition("://")
    if driver not in VARIABLES or path:
        return ({},)
    names = _names(driver)
    given = os.environ.get(VARIABLES[driver])
    chosen = given.split(",") if given else [str(index) for index in range(len(names))]
    same = [word for word, name in zip(chosen, names, strict=False) if name == names[0]]
    return tuple({VARIABLES[driver]: word.strip()} for word in same) or ({},)


def _names(driver: str) -> list[str]:
    """The names of a driver's devices, in its order."""
    import iree.runtime as rt

    try:
        return [str(found["name"]) for found in rt.get_driver(driver).query_available_devices()]
    except (ValueError, RuntimeError) as error:
        raise MlirfuseError(f"device '{driver}' is not available: {first_line(error)}") from error
