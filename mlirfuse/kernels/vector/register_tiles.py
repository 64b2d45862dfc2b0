"""Register tiles of contractions, computed from the resources of a CPU."""

from __future__ import annotations

import dataclasses
import math

from mlirfuse.targets.base import CpuDevice
from mlirfuse.targets.cpu_rates import FMA_LATENCY

MAX_TILE_VECTORS = 8
"""Vectors of output channels of a register tile."""

MAX_TILE_ROWS = 30
"""Pixels of a register tile."""

MAX_PADDING = 1 / 8
"""Share of vectors of zeros behind the last column, which fill up the last tile: they are
multiplied, and they take memory."""

CACHE_LINE = 64
"""Bytes of a line of the cache, on x86 and on most ARM."""

CACHE_WAY_BYTES = 4096
"""Bytes of one way of the first data cache: a page on x86, whose caches are indexed by the offset
in a page. Where a way is larger, as on ARM, there are fewer of them for a stride of this size."""

L2_BYTES_PER_CYCLE = 32
"""Bytes that one core reads from its second cache in a cycle: Zen 2 to 4 and Intel since Haswell,
by Agner Fog's microarchitecture manual, sustained."""


@dataclasses.dataclass(frozen=True, slots=True)
class RegisterTile:
    """Accumulators of a contraction.

    Attributes:
      rows: rows, each of which one element of the first operand is broadcast to.
      vectors: vectors of columns.
    """

    rows: int
    vectors: int


def cycles(rows: int, vectors: int, device: CpuDevice, *, panel_bytes: int) -> float:
    """Cycles of one step of K: multiply-adds, loads, latency and the stream of the weights.

    Args:
      rows: rows of the tile.
      vectors: its vectors of columns.
      device: the CPU.
      panel_bytes: bytes of the weights that all rows of a block read.
    """
    work = rows * vectors
    streamed = vectors * device.vector_bytes if panel_bytes > device.l1_bytes // 2 else 0
    return max(
        work / device.fma_ports,
        (rows + vectors) / device.load_ports,
        FMA_LATENCY if work < FMA_LATENCY * device.fma_ports else 0,
        streamed / L2_BYTES_PER_CYCLE,
    )


def fits(rows: int, vectors: int, device: CpuDevice) -> bool:
    """Whether the registers hold the accumulators, a step's weights and one broadcast element."""
    return rows * vectors + vectors + 1 <= device.num_registers


def max_cached_rows(row_bytes: int, device: CpuDevice) -> int:
    """Rows whose current lines the first data cache holds together, by its associativity.

    Each step of K reads an element of each row of a tile, and a line of it serves many steps. Rows
    at a distance of 4096 bytes have their lines in one set: 128x1024x2816 f32 takes 4.86 ms with 14
    of them, 3.82 with 8 (two threads of a Zen 4, whose first cache has 8 ways).

    Args:
      row_bytes: distance of adjacent rows in memory; 0 where it is not known.
      device: the CPU.
    """
    if not row_bytes:
        return MAX_TILE_ROWS
    ways = device.l1_bytes // CACHE_WAY_BYTES
    return max(1, ways * (CACHE_WAY_BYTES // math.gcd(CACHE_WAY_BYTES, row_bytes)))


def max_rows(vectors: int, device: CpuDevice, *, row_bytes: int) -> int:
    """The most rows of a tile that registers and the first cache hold; 0 where none fit.

    Args:
      vectors: vectors of columns of the tile.
      device: the CPU.
      row_bytes: distance of adjacent rows in memory; 0 where it is not known.
    """
    most = max((r for r in range(1, MAX_TILE_ROWS + 1) if fits(r, vectors, device)), default=0)
    return min(most, max_cached_rows(row_bytes, device))


def transposition(rows: int, vectors: int, device: CpuDevice) -> int:
    """Cycles of the transposition of a tile's results, by squares of lanes that may not be full.

    Each vector of a square has an exchange for each bit of the number of lanes, a store into the
    buffer, a load, and the store of the result with its address.
    """
    squares = -(-rows // device.lanes) * vectors
    return squares * device.lanes * (device.lanes.bit_length() - 1 + 4)


def choose(
    rows: int,
    vectors: int,
    depth: int,
    device: CpuDevice,
    *,
    row_bytes: int = 0,
    transposes: bool = False,
    max_vectors: int = MAX_TILE_VECTORS,
) -> RegisterTile:
    """The tile with the fewest modelled cycles.

    Args:
      rows: rows of the result that tiles may cover.
      vectors: vectors of its columns.
      depth: steps of K.
      device: the CPU.
      row_bytes: distance of adjacent rows of the first operand in memory; 0 where it is not known.
      transposes: whether the results are transposed before they are stored.
      max_vectors: the most vectors of columns.
    """
    best, fewest = RegisterTile(1, 1), math.inf
    for wide in range(1, min(vectors, max_vectors) + 1):
        added = -vectors % wide
        if added > vectors * MAX_PADDING:
            continue
        panel = wide * device.vector_bytes * depth
        most = max_rows(wide, device, row_bytes=row_bytes)
        for tall in range(1, min(rows, most) + 1):
            full, rest = divmod(rows, tall)
            total = full * cycles(tall, wide, device, panel_bytes=panel)
            total += cycles(rest, wide, device, panel_bytes=panel) if rest else 0
            if transposes:
                total += -(-rows // tall) * transposition(tall, wide, device) / depth
            # Between equals the tile with less padding, then the larger one: it has fewer ends.
            # Where one tile has all rows, the narrower one: the stream of its weights from memory
            # is a workgroup's, and with many of these no core waits for the other.
            equals = 0.0001 * wide if tall == rows else 0.001 + 0.002 / (tall * wide)
            total = total * ((vectors + added) // wide) * (1 + equals)
            total *= 1 + added / vectors
            if total < fewest:
                best, fewest = RegisterTile(tall, wide), total
    return best


def choose_windowed(rows: int, vectors: int, device: CpuDevice) -> RegisterTile:
    """The tile of a computation on one vector of the image and one of weights at a time.

    Its channels are at most a line of the cache, and divide all evenly: a mask of the last vector
    of the last tile is enough. Its pixels fill the registers, evenly along a row.

    Args:
      rows: pixels of a row.
      vectors: vectors of channels.
      device: the CPU.
    """
    line = max(1, CACHE_LINE // device.vector_bytes)
    wide = max(n for n in range(1, min(vectors, line) + 1) if vectors % n == 0)
    most = max(1, (device.num_registers - 2 - wide) // (2 * wide))
    tiles = -(-rows // most)
    return RegisterTile(-(-rows // tiles), wide)
