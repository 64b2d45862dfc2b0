"""Configurations of sort kernels: computed from the device, or measured."""

from __future__ import annotations

import dataclasses
import math

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import MAX_WARPS, gpu_of
from mlirfuse.kernels.sort.analysis import block_columns, integer_bits, packed_bits
from mlirfuse.kernels.sort.problem import SortConfig, SortProblem
from mlirfuse.kernels.sort.runs import first_candidates, runs_of_chunks
from mlirfuse.targets.base import Target

ELEMENTS_PER_THREAD = 8
"""Elements that a thread exchanges with itself: the last three steps of a merge."""

COPIES = 4
"""Values in registers for each element: it, its partner, and halves of 64 bits of both."""

REGISTER_BYTES = 4

MAX_SHARED_WARPS = 8
"""Warps that sort a row or a chunk, at most."""

MERGE_WARPS = 4
"""Warps of a CTA that merges runs."""

MERGE_ELEMENTS_PER_THREAD = 16
"""Bisections of a thread that merges runs, whose loads are in flight at a time: 6 registers each
leave an SM half of its threads."""

MERGE_WIDTHS = (2, 4, 8, 16)
"""Runs that are merged at a time."""

EXCHANGE_CYCLES, SHARED_CYCLES = 2, 4
"""Cycles of an SM for a step of a network on a warp of keys of 32 bits: about 8 instructions, and
four warps issue at a time; where several warps have a row, and exchange keys by shared memory. Half
as many more for keys of 64 bits, and for threads with more than `SHARED_ELEMENTS`, of which Triton
changes the layout often: on an H200 the chunks of 80 rows of 4021 bf16 took 6.2 us of 512 elements
with one warp, and 8.0 with eight, 10.1 and 15.8 of 1024, and 41.2 of 2048 with eight; 2000 rows of
1000 f32 took 49 us with one warp each, 84 with two, 118 with four."""

ELEMENT_LATENCY, EXCHANGE_LATENCY = 12, 170
"""Cycles of a warp for a step of a network on an element of each lane, alone on its scheduler, and
those of a step of several warps: 64 rows of 1000 f32 took 7.6 us with eight warps and 25.5 with
one."""

SHARED_ELEMENTS = 2
"""Elements of a thread of several warps that sort a row, unless these would be too many."""

WIDE = 1.5
"""Times that a step takes longer in keys of 64 bits."""

MAX_WARP_COLUMNS, MIN_SHARED_COLUMNS = 1024, 256
"""Elements of a row or a chunk that one warp sorts at most, and of rows that several may sort."""

PROBE_CYCLES = 4
"""Cycles of an SM for a step of a warp's bisections in keys of 32 bits: about 8 instructions, and 2
lines of L1."""

PROBE_LATENCY = 250
"""Cycles from one step of a bisection to the next: a load from L2."""

TILE_CYCLES = 900
"""Cycles from one tile of a selection to the next: a load from memory, and a sum over the CTA."""

LAUNCH_CYCLES = 5000
"""Cycles until a dispatch that waits for the one before begins: 3 us at 1.7 GHz."""

MAX_MEASURED = 16
"""Configurations of long rows that the tuner measures."""

MIN_CHUNK_COLUMNS = 128
"""Shortest chunk of a long row: 4 elements of each lane of a warp."""

MAX_COLUMNS = 2048
"""Longest tile of a network, whose steps are unrolled: building this one takes tens of seconds (226
kB of PTX), one of twice the length minutes."""


def max_columns(key_bits: int, target: Target) -> int:
    """The elements of a row that the registers of an SM hold in a tile, at most `MAX_COLUMNS`.

    Args:
      key_bits: width of an element.
      target: the machine that is compiled for.
    """
    held = gpu_of(target).registers_per_sm * REGISTER_BYTES
    columns = 2
    while (
        columns < MAX_COLUMNS
        and columns * 2 * COPIES * packed_bits(key_bits, columns * 2) // 8 <= held
    ):
        columns *= 2
    return columns


def choose_config(problem: SortProblem, target: Target) -> SortConfig:
    """The nearest measured configuration of rows as long as these, else the computed one."""
    whole = _is_whole(problem, target)
    return lookup.choose(
        target,
        problem,
        SortConfig,
        default_config,
        lambda entry: whole == (not entry.config.chunk_columns),
    )


def _is_whole(problem: SortProblem, target: Target) -> bool:
    """Whether a row is a tile: longer ones are merged from chunks in less time."""
    longest = max_columns(problem.element_bits, target)
    return problem.columns <= min(MAX_WARP_COLUMNS, longest)


def default_config(problem: SortProblem, target: Target) -> SortConfig:
    """The configuration computed from the problem and the device.

    Short rows share a CTA, as far as each SM has one. Of long ones CTAs sort chunks.
    """
    if not _is_whole(problem, target):
        return _chunked(problem, target)[0]
    gpu = gpu_of(target)
    columns = block_columns(problem.columns)
    if columns > MIN_SHARED_COLUMNS:
        return min(
            (SortConfig(1, warps) for warps in _row_warps(columns, target)),
            key=lambda config: _network_cycles(
                Network(columns, problem.count, problem.rows, config.num_warps),
                integer_bits(problem, columns),
                target,
            ),
        )
    tile = gpu.warp_size * ELEMENTS_PER_THREAD * MAX_WARPS
    rows = min(max(1, tile // columns), power_of_two(problem.rows))
    while rows > 1 and problem.rows < rows * gpu.num_sms:
        rows //= 2
    return SortConfig(rows, _num_warps(rows * columns, target))


def _num_warps(elements: int, target: Target) -> int:
    """The warps of a tile of so many elements."""
    gpu = gpu_of(target)
    most = gpu.max_threads_per_sm // gpu.warp_size // 2
    return max(1, min(most, elements // ELEMENTS_PER_THREAD // gpu.warp_size))


def _row_warps(columns: int, target: Target) -> list[int]:
    """The numbers of warps that may sort a row, or a chunk of one."""
    if columns > MAX_WARP_COLUMNS:
        return []
    shared = columns // SHARED_ELEMENTS // gpu_of(target).warp_size
    return sorted({1, max(1, min(shared, MAX_SHARED_WARPS))})


def merged_elements(width: int, target: Target) -> int:
    """Elements of a CTA that merges so many runs at a time."""
    per_thread = max(1, MERGE_ELEMENTS_PER_THREAD // power_of_two(width))
    return MERGE_WARPS * gpu_of(target).warp_size * per_thread


def _chunked(problem: SortProblem, target: Target) -> list[SortConfig]:
    """The configurations of rows that no CTA holds, those of the fewest estimated cycles first."""
    longest = max_columns(problem.element_bits, target)
    chunks = [longest]
    while chunks[-1] > MIN_CHUNK_COLUMNS:
        chunks.append(chunks[-1] // 2)
    found = [
        SortConfig(1, warps, chunk, width)
        for chunk in chunks
        for warps in _row_warps(chunk, target)
        for width in MERGE_WIDTHS
    ]
    found += [
        SortConfig(
            1, _num_warps(tile, target), -(-problem.columns // (parts * tile)) * tile, width, tile
        )
        # Candidates of two tiles are in registers at a time.
        for tile in (chunk // 2 for chunk in chunks)
        if 2 * problem.count <= tile
        # Two runs at least are merged, of two tiles at least.
        for parts in (1 << n for n in range(1, problem.columns.bit_length()))
        if problem.columns > 2 * parts * tile
        for width in MERGE_WIDTHS
    ]
    return sorted(found, key=lambda config: _cycles(problem, config, target))


def _cycles(problem: SortProblem, config: SortConfig, target: Target) -> float:
    """An estimate of the cycles of all kernels that sort long rows."""
    gpu, chunk = gpu_of(target), config.chunk_columns
    runs = runs_of_chunks(problem.columns, chunk, problem.count)
    ctas, network, networks, total = problem.rows * runs.count, chunk, 1.0, 0.0
    bits = integer_bits(problem, chunk)
    if tile := config.tile_columns:
        passes = 1
        if few := first_candidates(runs.length, tile):
            # The least elements of all tiles, and the candidates, which another pass finds.
            network, networks, passes = few, 2.0, 2
        else:
            # The first two tiles, and in the end; in between as often as a tile of candidates is
            # new: an element in random order is one with the probability of count / (its index).
            network, kept = 2 * tile, power_of_two(runs.length)
            networks = 2 + runs.length * math.log(chunk / network) / (tile - kept + 1)
        resident = gpu.num_sms * gpu.max_threads_per_sm // gpu.warp_size // 2
        waves = -(-ctas * config.num_warps // resident)
        total += waves * passes * chunk / tile * TILE_CYCLES
    tiles = Network(network, runs.length, ctas, config.num_warps)
    total += networks * _network_cycles(tiles, bits, target)
    wide = integer_bits(problem, problem.columns) > 32
    probe = PROBE_CYCLES * (WIDE if wide else 1)
    while runs.count > 1:
        width, steps = min(config.merge_width, runs.count), runs.length.bit_length()
        warps = problem.rows * runs.total / gpu.warp_size
        busy = warps / gpu.num_sms * probe * (width - 1)
        total += LAUNCH_CYCLES + steps * max(PROBE_LATENCY, busy)
        runs = runs.merged(width, problem.count)
    return total


@dataclasses.dataclass(frozen=True, slots=True)
class Network:
    """Networks that compute the first elements of tiles.

    Attributes:
      columns: elements of a tile.
      count: elements that are computed.
      ctas: number of tiles.
      warps: warps of each.
    """

    columns: int
    count: int
    ctas: int
    warps: int


def _network_cycles(network: Network, bits: int, target: Target) -> float:
    """An estimate of the cycles of networks on keys of so many bits."""
    gpu, columns, warps = gpu_of(target), network.columns, network.warps
    held = -(-network.ctas // gpu.num_sms) * columns / gpu.warp_size
    if warps == 1:
        step = max(held * EXCHANGE_CYCLES, ELEMENT_LATENCY * columns / gpu.warp_size)
    else:
        often = columns > SHARED_ELEMENTS * warps * gpu.warp_size
        step = max(held * SHARED_CYCLES * (WIDE if often else 1), EXCHANGE_LATENCY)
    return _exchanges(columns, network.count) * step * (WIDE if bits > 32 else 1)


def _exchanges(columns: int, count: int) -> float:
    """The exchanges of each element in a network that computes the first elements of a tile."""
    levels, kept = columns.bit_length() - 1, power_of_two(count).bit_length() - 1
    sort = kept * (kept + 1) / 2
    # Each further level halves the elements, and merges those that are left.
    return sort + (kept + 1) * (1 - 0.5 ** (levels - kept))


def configs(problem: SortProblem, target: Target) -> list[SortConfig]:
    """The configurations that the tuner measures, with the default first."""
    default = default_config(problem, target)
    if default.chunk_columns:
        return _chunked(problem, target)[:MAX_MEASURED]
    found = [default]
    for rows in (1, default.block_rows, 2 * default.block_rows):
        found += [SortConfig(rows, warps) for warps in (1, 2, 4, 8, 16)]
    return list(dict.fromkeys(found))
