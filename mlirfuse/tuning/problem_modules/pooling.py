"""Regions of max poolings in f16, with channels last or, of one channel, rows of pixels."""

from __future__ import annotations

from mlirfuse.kernels.pooling.problem import PoolingProblem
from mlirfuse.tuning.problem_modules.region_text import RegionText


def module_text(problem: PoolingProblem) -> str:
    """A module whose region has the problem: images of one row of pixels, strides of one.

    Raises:
      ValueError: the window has other than two dimensions.
    """
    window = tuple(int(size) for size in problem.window.split("x"))
    if len(window) != 2:
        raise ValueError(f"a pooling over {problem.window}")
    region, (height, width) = RegionText(), window
    if problem.strided_columns:
        return _of_rows(region, problem, height, width)
    shape = 1, problem.pixels, problem.columns
    x = region.argument((height, problem.pixels + width - 1, problem.columns), "f16")
    sizes = region.empty(window, "f16")
    (out,) = region.generic(
        "hwcij",
        [(x, "h + i, w + j, c"), (sizes, "ij")],
        [(region.filled(shape, "f16", "0xFC00"), "hwc")],
        ["%z = arith.maximumf %a0, %o0 : f16"],
        reduced="ij",
    )
    return region.module(out)


def _of_rows(region: RegionText, problem: PoolingProblem, height: int, width: int) -> str:
    """The module of a window that moves along the last dimension."""
    shape = problem.pixels, problem.columns
    x = region.argument((problem.pixels + height - 1, problem.columns + width - 1), "f16")
    sizes = region.empty((height, width), "f16")
    (out,) = region.generic(
        "hwij",
        [(x, "h + i, w + j"), (sizes, "ij")],
        [(region.filled(shape, "f16", "0xFC00"), "hw")],
        ["%z = arith.maximumf %a0, %o0 : f16"],
        reduced="ij",
    )
    return region.module(out)
