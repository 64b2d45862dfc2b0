"""Targets of compilations that need no such device."""

GPUS = (
    *("cuda:sm_80", "cuda:sm_90"),
    *("rocm:gfx942", "rocm:gfx1100"),
    *("vulkan:ampere", "vulkan:rdna3"),
)
"""Two GPU generations or vendors for each target."""
