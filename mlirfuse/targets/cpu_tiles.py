"""Tile sizes of the loops that passes write for a CPU, computed from its vectors and registers."""

from __future__ import annotations

from mlirfuse.targets import cpu_rates
from mlirfuse.targets.base import CpuDevice, CpuTiles, Tile

STACK_SHARE = 16 * 1024
"""Bytes of a dispatch's stack, of which IREE allows 32 KiB, for exponentials of rows in flight.
Fewer rows in flight are better than exponentials computed twice, down to two rows: 768x1024 takes
190 us with 4 rows kept, 280 computed twice."""

WORKGROUP_US = 1.0
"""Microseconds of the smallest workgroup whose start does not count: softmax of 6144x128 takes 208
us with 0.25, 196 with 1, 195 with 2."""

MAX_WORKGROUP_TILES = 8
"""Upper limit of the tiles of rows of a workgroup of short rows."""

MAX_DATA_TILED_N = 8
"""N from which data tiling pays whatever the vectors are."""

MAX_PACKED_M = 32
MAX_PACKED_N_TILES = 4
"""Blocks of a matmul with a packed weight, along M and in register tiles along N: M 128, N and K
384 to 2816 run at 470 to 515 of 512 GFLOP/s."""

MAX_TILE_M = 12
"""Upper limit of the rows of a register tile: more were not faster."""


def tiles(device: CpuDevice) -> CpuTiles:
    """The tile sizes of a CPU.

    The softmax has one accumulator for each lane, in as many rows as hide the latency of two ports.
    With IREE 3.13.0 on one thread of an AMD EPYC (Zen 5, AVX-512), 6144x128 f32 takes 376 us with 8
    lanes, 200 with 16, which are a vector, and 240 with 32; with 1, 2, 4, 8 and 16 rows in flight
    397, 300, 212, 196 and 229. Rows that are no multiple of a vector have two vectors in half as
    many rows: 98304 elements in rows of 100 columns take 73 us, in tiles of 8x32 and 8x16 a tenth
    more, as two dispatches of IREE 111.
    """
    lanes = device.lanes
    rows = 2 * cpu_rates.FMA_LATENCY
    elements = WORKGROUP_US * 1e-6 * cpu_rates.special_rate(device) / device.cores
    return CpuTiles(
        softmax_lanes=lanes,
        softmax_rows=rows,
        softmax_stack_bytes=STACK_SHARE,
        softmax_workgroup_elements=1 << round(elements).bit_length(),
        max_softmax_workgroup_rows=MAX_WORKGROUP_TILES * rows,
        softmax_uneven_rows=rows // 2,
        softmax_uneven_columns=2 * lanes,
        max_packed_m=MAX_PACKED_M,
        max_packed_n_tiles=MAX_PACKED_N_TILES,
        min_data_tiled_n=min(lanes, MAX_DATA_TILED_N),
    )


def packed_matmul_tiles(device: CpuDevice) -> tuple[Tile, ...]:
    """Register tiles of f32 matmuls with packed weights, the best first.

    Registers hold the accumulators, the weights of one step of K and one broadcast element. There
    are a quarter more accumulators than multiply-adds in flight, since a latency may be a cycle
    longer (Zen 2), and no more loads in a step than multiply-adds. Tiles are two vectors wide, and
    four for the few rows that two leave without that slack. The more rows, the fewer loads.

    Measured with IREE 3.13.0, two cores, AVX2 code, M 120, N and K 1024: 6x16 67 GFLOP/s, 5x16 55,
    4x16 51, data tiling 45, IREE's default 34; for M 128, 4x16 is as fast as data tiling. 3x32,
    without a register for the element, has 32. With AVX-512 on Zen 5 each tile is within 5 % of the
    best. Tiles of three vectors take ten times as long: IREE's code for them is scalar.
    """
    in_flight = cpu_rates.FMA_LATENCY * device.fma_ports
    found = [
        Tile(m, vectors * device.lanes)
        for vectors in (2, 4)
        for m in range(MAX_TILE_M, vectors - 1, -1)
        if 4 * m * vectors >= 5 * in_flight and _runs_at_peak(m, vectors, device)
    ]
    return tuple(found) if device.has_fma else ()


def _runs_at_peak(m: int, vectors: int, device: CpuDevice) -> bool:
    """Whether registers hold a tile, and its loads take no longer than its multiply-adds."""
    fits = m * vectors + vectors + 1 <= device.num_registers
    return fits and (m + vectors) * device.fma_ports <= m * vectors * device.load_ports
