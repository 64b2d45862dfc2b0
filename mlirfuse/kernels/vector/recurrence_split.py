"""How workgroups divide the rows and the columns of the states of a recurrence.

split = choose(Steps(rows, columns, blocks), device)
split.groups, split.parts          groups of workgroups have rows, those of a group have columns
split.seconds                      modelled seconds of an iteration
seconds_of_commands(steps, device) the same where the host starts each iteration
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.vector import register_tiles
from mlirfuse.kernels.vector.register_tiles import L2_BYTES_PER_CYCLE, RegisterTile
from mlirfuse.targets.base import CpuDevice
from mlirfuse.targets.cpu_rates import (
    BANDWIDTH_PER_CORE,
    CLOCK,
    FMA_LATENCY,
    LAUNCH_US,
    MEETING_US,
)

STEP_LAUNCHES = 3 + 3 / 8
"""Launches of an iteration that the host starts: its contraction, its cell, the copy of a state
into a result, and its share of a submission, as long as three (`loop_unrolling_rewrite`)."""

MARGIN = 1 / 8
"""Share of its time by which a division of the columns has to be faster than none: a workgroup that
waits for others waits for threads that the system has stopped, too."""


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """The iterations of a recurrence.

    Attributes:
      rows: rows of its states.
      columns: their columns.
      blocks: blocks of columns of each contraction.
    """

    rows: int
    columns: int
    blocks: tuple[int, ...]

    def weight_bytes(self) -> int:
        """Bytes of the weights of all contractions, as f32."""
        return 4 * sum(self.blocks) * self.columns**2


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A division among workgroups.

    Attributes:
      groups: groups of workgroups, which share the rows.
      parts: workgroups of a group, which share the columns and meet in each iteration.
      tile: the tile of a workgroup.
      seconds: modelled seconds of an iteration.
    """

    groups: int
    parts: int
    tile: RegisterTile
    seconds: float


def choose(steps: Steps, device: CpuDevice) -> Split:
    """The division with the fewest modelled seconds of an iteration."""
    vectors = -(-steps.columns // device.lanes)
    splits = [_split(steps, parts, device) for parts in range(1, min(device.cores, vectors) + 1)]
    alone, fastest = splits[0], min(splits, key=lambda split: split.seconds)
    return fastest if fastest.seconds * (1 + MARGIN) < alone.seconds else alone


def seconds_of_commands(steps: Steps, device: CpuDevice) -> float:
    """Modelled seconds of an iteration that the host starts as kernels, which all cores share."""
    read = steps.weight_bytes() / _weight_rate(steps.weight_bytes(), device)
    multiply_adds = steps.rows * sum(steps.blocks) * steps.columns**2
    computed = multiply_adds / (device.lanes * device.fma_ports) / CLOCK
    return max(read, computed) / device.cores + STEP_LAUNCHES * LAUNCH_US * 1e-6


def _split(steps: Steps, parts: int, device: CpuDevice) -> Split:
    """The division into so many parts of the columns."""
    groups = max(1, min(device.cores // parts, steps.rows))
    share = -(-steps.rows // groups)
    tile = _tile(steps, share, parts, device)
    tiles = -(-steps.columns // (tile.vectors * device.lanes))
    own = -(-tiles // parts)  # tiles of columns of the largest part
    held = steps.weight_bytes() * own // tiles
    cycles = 0.0
    for blocks in steps.blocks:
        wide = tile.vectors * blocks
        step = register_tiles.cycles(tile.rows, wide, device, panel_bytes=held)
        read = wide * device.vector_bytes / (_weight_rate(held, device) / CLOCK)
        in_first_cache = held <= device.l1_bytes // 2
        cycles += max(-(-share // tile.rows) * step, 0 if in_first_cache else read)
    seconds = own * steps.columns * cycles / CLOCK + (parts - 1) * MEETING_US * 1e-6
    return Split(groups, parts, tile, seconds)


def _weight_rate(held: int, device: CpuDevice) -> float:
    """Bytes per second of weights that one core reads in each iteration."""
    cached = held <= device.l3_bytes // device.cores or held <= device.l2_bytes
    return L2_BYTES_PER_CYCLE * CLOCK if cached else BANDWIDTH_PER_CORE


def _tile(steps: Steps, share: int, parts: int, device: CpuDevice) -> RegisterTile:
    """The tile with as many rows as registers hold, and accumulators that hide the latency."""
    blocks = max(steps.blocks)
    most = max(
        (r for r in range(1, share + 1) if register_tiles.fits(r, blocks, device)), default=1
    )
    rows = -(-share // -(-share // most))
    wanted = -(-FMA_LATENCY * device.fma_ports // (rows * blocks))
    whole = -(-steps.columns // device.lanes)
    vectors = -(-whole // parts)
    fit = [v for v in range(1, wanted + 1) if register_tiles.fits(rows, v * blocks, device)]
    tiles = -(-vectors // max(fit, default=1))
    return RegisterTile(rows, -(-vectors // tiles))
