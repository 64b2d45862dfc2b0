"""How work is divided among the workgroups of a kernel."""

from __future__ import annotations

import math

from mlirfuse.targets.base import CpuDevice
from mlirfuse.targets.cpu_rates import BANDWIDTH_PER_CORE

MIN_BLOCK_OPERATIONS = 400_000
"""Operations on elements of a workgroup: 5 to 20 us, where its start costs about one."""

MIN_BLOCK_BYTES = int(5e-6 * BANDWIDTH_PER_CORE)
"""Bytes that a workgroup reads from memory in 5 us: as many make one, too, with little work on
each of them."""

BLOCKS_PER_CORE = 4
"""Workgroups for each core, where there is work for them: the last ones end together."""

RESERVED = 8
"""Workgroups that a thread of IREE takes at once, where there are so many for each."""

MANY_RESERVATIONS = 4
"""Times as many after which the thread that is awake first does not compute them all."""

MAX_UNEVEN = 1.01
"""Work of the thread with the most of it, of many workgroups over that of fewer larger ones, up to
which they stay as they are: small ones divide it better where a thread is interrupted."""

MERGED_RANGE = 4
"""Times the smallest number that is merged up to which numbers are tried."""


def block_size(units: int, work: float, num_bytes: float, device: CpuDevice) -> int:
    """Rows, or other units of the same work, of a workgroup that computes nothing else.

    Args:
      units: all of them.
      work: operations on elements of one.
      num_bytes: bytes that one reads.
      device: the CPU.
    """
    least = min(MIN_BLOCK_OPERATIONS / work, MIN_BLOCK_BYTES / max(1.0, num_bytes))
    return min(units, max(-(-units // (BLOCKS_PER_CORE * device.cores)), math.ceil(least)))


def are_enough(units: int, device: CpuDevice) -> bool:
    """Whether there are so many rows, or other units, that `num_parts` divides none of any work."""
    return units >= BLOCKS_PER_CORE * device.cores


def num_parts(units: int, work: float, num_bytes: float, launches: int, device: CpuDevice) -> int:
    """Parts of each row, or other unit, for workgroups that share it; 1 where none is divided.

    Args:
      units: all of them.
      work: operations on elements of one.
      num_bytes: bytes that one reads.
      launches: kernels that the division costs, each of which is worth a smallest workgroup.
      device: the CPU.
    """
    smallest = units * max(work / MIN_BLOCK_OPERATIONS, num_bytes / MIN_BLOCK_BYTES)
    parts = -(-min(BLOCKS_PER_CORE * device.cores, int(smallest)) // units)
    if parts < 2:
        return 1
    blocks = math.ceil(units / block_size(units, work, num_bytes, device))
    # Shares of all work that the core with the most of it computes.
    whole = math.ceil(blocks / device.cores) / blocks
    divided = math.ceil(units * parts / device.cores) / (units * parts)
    return parts if (whole - divided) * smallest > launches else 1


def merged(count: int, device: CpuDevice) -> int:
    """Workgroups that one takes the work of, so that the threads end together; 1 for none.

    IREE 3.13 gives a thread eight workgroups at once where there are eight for each thread: of 16
    one thread may compute all before the other one is awake, of 22 it computes 14, and of 118 it
    computes 64. Of fewer, with the work of several each, a thread takes one at a time.

    Args:
      count: all of them.
      device: the CPU.
    """
    cores = device.cores
    if count < cores * RESERVED:
        return 1

    def longest(taken: int) -> int:
        """The work of the thread that has the most of it."""
        workgroups = -(-count // taken)
        at_once = RESERVED if workgroups >= cores * RESERVED else 1
        return -(-workgroups // (at_once * cores)) * at_once * taken

    least = -(-count // (cores * (RESERVED - 1)))
    best = min(range(least, MERGED_RANGE * least + 1), key=longest)
    is_even = longest(1) <= MAX_UNEVEN * longest(best)
    return 1 if is_even and count >= cores * RESERVED * MANY_RESERVATIONS else best
