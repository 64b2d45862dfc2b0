"""Register tiles of contractions, computed from the resources of a CPU."""

from __future__ import annotations

import dataclasses
import functools
import math

from mlirfuse.kernels.vector.products import Product
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

IN_FLIGHT_LOSS = 0.19
"""Share of time that is lost where the accumulators are just as many as the multiply-adds in
flight, because not each one begins in the cycle in which its operand is there. With 8, 9, 10 and 12
of them 120x1024x2880 f32 took 6.2, 5.9, 5.7 and 5.5 ms (one thread of a Zen 5 with AVX2 code, whose
ports and latency keep 8 in flight); with 16 of 512 bits and more all were alike."""

LOAD_SHARE = 0.85
"""Share of the loads of a cycle that a loop reaches, beside the lines that come from the next
cache: with tiles of 8, 10 and 12 rows of one vector 1.67, 1.76 and 1.62 vectors there, of 2."""

FLIPPED_LOADS = 2
"""Loads that take as long as a broadcast of bytes whose sign is flipped: LLVM flips it in a scalar
register, from which the broadcast takes two instructions of vectors. 128x768x3072 of i8 took 2.7 ms
with 13x1 accumulators and 1.3 with 4x3 (AVX-VNNI code, one thread of a Zen 5)."""


@dataclasses.dataclass(frozen=True, slots=True)
class RegisterTile:
    """Accumulators of a contraction.

    Attributes:
      rows: rows, each of which one element of the first operand is broadcast to.
      vectors: vectors of columns.
    """

    rows: int
    vectors: int


def cycles(
    rows: int,
    vectors: int,
    device: CpuDevice,
    *,
    panel_bytes: int,
    product: Product | None = None,
) -> float:
    """Cycles of one step of K: multiply-adds, loads, latency and the stream of the weights.

    Args:
      rows: rows of the tile.
      vectors: its vectors of columns.
      device: the CPU.
      panel_bytes: bytes of the weights that all rows of a block read.
      product: the instruction; None for a multiply-add of floats.
    """
    work = rows * vectors
    streamed = vectors * device.vector_bytes if panel_bytes > device.l1_bytes // 2 else 0
    is_flipped = product is not None and product.shift != 0
    loads = vectors + rows * (FLIPPED_LOADS if is_flipped else 1)
    in_flight = min(1.0, FMA_LATENCY * device.fma_ports / work)
    return max(
        work / device.fma_ports * (1 + IN_FLIGHT_LOSS * in_flight**4),
        FMA_LATENCY if in_flight == 1.0 else 0,
        loads / (LOAD_SHARE * device.load_ports),
        streamed / L2_BYTES_PER_CYCLE,
    )


def fits(
    rows: int,
    vectors: int,
    device: CpuDevice,
    *,
    overlap: int = 0,
    product: Product | None = None,
) -> bool:
    """Whether the registers hold the accumulators, a step's weights and the broadcast elements.

    There is one, and those that a later tap reads, too: LLVM 22 does not load them again, and
    spills accumulators. 3x3 of 1x3x112x112 to 64 channels f32 took 744 us in tiles of 6x2 with 16
    registers, PyTorch 421, and takes 340 in those of 4x2 (two threads of a Zen 4).

    Args:
      rows: rows of the tile.
      vectors: its vectors of columns.
      device: the CPU.
      overlap: rows from one to the next that reads an element of it by another tap; 0 for none.
      product: the instruction; None for a multiply-add of floats. Where it does not add, what it
        gives has a register, too: 128x768x3072 of i8 took 4.2 ms with 4x3 accumulators, which leave
        none, and 3.1 with 6x2 (`vpmaddwd`, one thread of a Zen 5).
    """
    others = 1 if product is None or product.adds else 2
    others += max(0, rows - overlap) if overlap else 0
    return rows * vectors + vectors + others <= device.num_registers


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


def max_rows(
    vectors: int,
    device: CpuDevice,
    *,
    row_bytes: int,
    overlap: int = 0,
    product: Product | None = None,
) -> int:
    """The most rows of a tile that registers and the first cache hold; 0 where none fit.

    Args:
      vectors: vectors of columns of the tile.
      device: the CPU.
      row_bytes: distance of adjacent rows in memory; 0 where it is not known.
      overlap: as for `fits`.
      product: the instruction; None for a multiply-add of floats.
    """
    fitting = (
        rows
        for rows in range(1, MAX_TILE_ROWS + 1)
        if fits(rows, vectors, device, overlap=overlap, product=product)
    )
    return min(max(fitting, default=0), max_cached_rows(row_bytes, device))


def transposition(rows: int, vectors: int, device: CpuDevice) -> int:
    """Cycles of the transposition of a tile's results, by squares of lanes that may not be full.

    Each vector of a square has an exchange for each bit of the number of lanes, a store into the
    buffer, a load, and the store of the result with its address.
    """
    squares = -(-rows // device.lanes) * vectors
    return squares * device.lanes * (device.lanes.bit_length() - 1 + 4)


@functools.cache
def choose(
    rows: int,
    vectors: int,
    depth: int,
    device: CpuDevice,
    *,
    row_bytes: int = 0,
    overlap: int = 0,
    transposes: bool = False,
    max_vectors: int = MAX_TILE_VECTORS,
    multiple: int = 1,
    product: Product | None = None,
) -> RegisterTile:
    """The tile with the fewest modelled cycles.

    Args:
      rows: rows of the result that tiles may cover.
      vectors: vectors of its columns.
      depth: steps of K.
      device: the CPU.
      row_bytes: distance of adjacent rows of the first operand in memory; 0 where it is not known.
      overlap: as for `fits`.
      transposes: whether the results are transposed before they are stored.
      max_vectors: the most vectors of columns.
      multiple: what divides their number, where that does not need too many of zeros.
      product: the instruction; None for a multiply-add of floats.
    """
    step = functools.partial(cycles, device=device, product=product)
    best, fewest = RegisterTile(1, 1), math.inf
    widths = [
        wide
        for wide in range(1, min(vectors, max_vectors) + 1)
        if -vectors % wide <= vectors * MAX_PADDING
    ]
    for wide in [wide for wide in widths if wide % multiple == 0] or widths:
        added = -vectors % wide
        panel = wide * device.vector_bytes * depth
        most = max_rows(wide, device, row_bytes=row_bytes, overlap=overlap, product=product)
        for tall in range(1, min(rows, most) + 1):
            full, rest = divmod(rows, tall)
            total = full * step(tall, wide, panel_bytes=panel)
            total += step(rest, wide, panel_bytes=panel) if rest else 0
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
