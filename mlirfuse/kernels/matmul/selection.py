"""Chooses the configuration of a matmul: measured for a near problem, or computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.configs.lookup import Entry
from mlirfuse.kernels.matmul import (
    aligned_copies,
    heuristics,
    parallel_split_k,
    persistent_sm90,
    weight_only,
)
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, problem_of
from mlirfuse.kernels.matmul.cost_model import num_ctas, time
from mlirfuse.kernels.matmul.epilogue_registers import has_wide_epilogue, instructions
from mlirfuse.kernels.matmul.problem import MAX_BUCKETED_M, MIN_DOT_M, MatmulConfig, MatmulProblem
from mlirfuse.targets.base import Target

MAX_TILES_M = 4
"""Tiles along M up to which a tile that was measured with a small M serves a larger one."""

MODELLED_SHARE, PERSISTENT_SHARE = 1.15, 1.5
"""Modelled time of a configuration measured for another problem, of that of the computed one, up to
which it is taken. On an H200 the nearest ones of 768x3072x768 and 1000x8192x1000 took 17.5 and 47
us, the computed ones 12.5 and 37: 1.2 by the model. Of persistent ones the model has 1.44 where
4096x1024x1024 took 17.8 and 14.9 us."""

_Entry = Entry[MatmulProblem, MatmulConfig]


def select_config(
    analysis: MatmulAnalysis, target: Target, config: MatmulConfig | None = None
) -> MatmulConfig:
    """The configuration of a region's kernel.

    Args:
      analysis: the region.
      target: the target.
      config: a given configuration, which is replaced where no kernel can have it.
    """

    def can_run(config: MatmulConfig) -> bool:
        if analysis.whole_rows and not _has_whole_rows(config, analysis.n):
            return False
        if config.weight_streaming:
            return weight_only.can_run(analysis, config, target)
        if config.aligned_copies and not aligned_copies.can_copy(analysis):
            return False
        if config.row_classes > 1 and not parallel_split_k.can_run(analysis, config, target):
            return False
        return not config.consumer_warpgroups or persistent_sm90.can_run(analysis, config, target)

    problem = problem_of(analysis)
    m = analysis.m if analysis.m and problem.m > MIN_DOT_M else problem.m
    exact = problem
    if not problem.streamed_bits:
        exact = dataclasses.replace(
            problem,
            m=m,
            wide_epilogue=has_wide_epilogue(analysis),
            epilogue=instructions(analysis),
        )
    chosen = config or choose_config(problem, target, can_run, exact)
    if chosen.weight_streaming and not can_run(chosen):
        chosen = choose_config(problem, target, can_run, exact)
    return chosen if can_run(chosen) else heuristics.dot_config(exact, target)


def choose_config(
    problem: MatmulProblem,
    target: Target,
    can_run: Callable[[MatmulConfig], bool] = lambda config: True,
    exact: MatmulProblem | None = None,
) -> MatmulConfig:
    """The configuration for a problem.

    The nearest measured one that keeps the device busy, else the computed one; a problem too small
    to fill the device with any tiles has the nearest measured one.

    Args:
      problem: the problem.
      target: the target.
      can_run: whether a kernel of the region can have a configuration.
      exact: the problem that a configuration is computed from, with the M of the region; the
        problem itself when left out.
    """

    def fits(entry: _Entry) -> bool:
        config = entry.config
        return (
            max(16, entry.problem.operand_bits) == max(16, problem.operand_bits)
            and _serves_m(config.block_m, problem.m)
            and _informs(entry, problem)
            and (problem.accumulators == 1 or heuristics.has_room(config, problem, target))
            and heuristics.leaves_registers(config, exact or problem, target)
            and can_run(config)
        )

    computed = heuristics.default_config(exact or problem, target)
    aligns = computed.aligned_copies or computed.row_classes > 1
    if aligns and can_run(computed):
        return computed  # Measured problems have aligned rows.
    measured = lookup.nearest(
        target,
        problem,
        MatmulConfig,
        lambda entry: _keeps_busy(entry, problem, target) and fits(entry),
    )
    if measured is None and not heuristics.fills_with_small_tiles(problem, target):
        measured = lookup.nearest(target, problem, MatmulConfig, fits)
    if measured is not None and (
        measured.problem == problem or _is_cheap(measured, computed, exact or problem, target)
    ):
        return measured.config
    return computed if can_run(computed) else heuristics.dot_config(exact or problem, target)


def _is_cheap(
    entry: _Entry, computed: MatmulConfig, problem: MatmulProblem, target: Target
) -> bool:
    """Whether a configuration that was measured for another problem suits this one by the model.

    It does not know the persistent kernels, which store a tile while they compute the next one.
    """
    modelled = problem.m > MIN_DOT_M or not problem.b_k_contiguous
    if not modelled or entry.config.weight_streaming:
        return True
    share = PERSISTENT_SHARE if entry.config.consumer_warpgroups else MODELLED_SHARE
    return time(entry.config, problem, target) <= share * time(computed, problem, target)


def _has_whole_rows(config: MatmulConfig, n: int) -> bool:
    """Whether a warp's accumulators are of whole sums, and a tile has all columns."""
    plain = not config.consumer_warpgroups and not config.weight_streaming and config.block_m > 1
    return plain and config.k_splits == config.split_k == 1 and config.block_n >= n


def _serves_m(block_m: int, m: int) -> bool:
    """Whether a measured tile with this `block_m` suits M."""
    return block_m > MIN_DOT_M or m == 1 or (block_m > 1 and m <= block_m * MAX_TILES_M)


def _informs(entry: _Entry, problem: MatmulProblem) -> bool:
    """Whether a measurement informs about weights that are dequantized in the loop, if there are.

    Of medium M these need tiles of their own: larger ones, or weight streaming.
    """
    other_traits = problem.streamed_bits and entry.problem.traits != problem.traits
    return not other_traits or not MIN_DOT_M < entry.problem.m < MAX_BUCKETED_M


def _keeps_busy(entry: _Entry, problem: MatmulProblem, target: Target) -> bool:
    """Whether a measured configuration occupies over half of the SMs, or of those it did occupy.

    With a small M or streamed weights, occupancy decides less.
    """
    config = entry.config
    if problem.m <= MIN_DOT_M or config.weight_streaming:
        return True
    occupied = min(gpu_of(target).num_sms, num_ctas(entry.problem, config))
    return 2 * num_ctas(problem, config) > occupied
