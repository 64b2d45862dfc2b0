"""The machines that a program can be compiled for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from mlirfuse.core import TARGET_NAMES, UsageError, nearest
from mlirfuse.targets import kernel_configs, rates
from mlirfuse.targets.base import Target

TARGETS: Mapping[str, Callable[[str], Target]] = {
    name: importlib.import_module(f"{__name__}.{name}").create for name in TARGET_NAMES
}
"""Name of a target -> its constructor from the part after the colon, which may be empty."""


def parse(spec: str | Target) -> Target:
    """The target that `--target=SPEC` names: `cpu`, `cuda:sm_90`, `rocm:gfx942`, `vulkan:rdna3`.

    It has the rates that `mlirfuse-tune --calibrate` measured for it, and the configurations of
    `mlirfuse-tune --kernels`, if they did. A `Target` is returned unchanged.

    Raises:
      UsageError: there is no such target, the target has no such architecture, or a file of
        measurements is damaged.
    """
    if isinstance(spec, Target):
        return spec
    name, colon, arch = (part.strip() for part in str(spec).partition(":"))
    create = TARGETS.get(name.lower())
    if create is None:
        raise UsageError(f"unknown target '{spec}'{nearest(name.lower(), TARGETS)}")
    if colon and not arch:
        raise UsageError(f"target '{spec}' has nothing after the colon; write '{name}' or name one")
    found = create(arch if name.lower() == "cpu" else arch.lower())
    return kernel_configs.with_measured(rates.calibrated(found))
