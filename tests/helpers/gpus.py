"""The GPUs that tests compile for."""

import pytest

from benchmarks.machines import GPUS

EVERY_RUN = ("cuda:sm_90", "rocm:gfx942", "vulkan:ampere")
"""One of each backend; the others, older or of another maker, are compiled for in the sweep."""

PARAMETERS = [
    *EVERY_RUN,
    *(pytest.param(name, marks=pytest.mark.sweep) for name in GPUS if name not in EVERY_RUN),
]
