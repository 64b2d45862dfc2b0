"""The machines that everything is compiled for, here or not."""

GPUS = (
    *("cuda:sm_80", "cuda:sm_90"),
    *("rocm:gfx942", "rocm:gfx1100"),
    *("vulkan:ampere", "vulkan:rdna3"),
)
"""Two generations or makers of each target's."""
