"""The copy rate of a CPU's memory, measured on the spot."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

BYTES = 1 << 27
"""Bytes of the copied array: 128 MiB, larger than caches."""

ROUNDS = 5
"""Copies; the fastest counts, since other processes slow down the rest."""


def measure(threads: int) -> float:
    """Bytes per second that threads copy, read and written bytes counted."""
    source, target = np.zeros(BYTES, np.uint8), np.zeros(BYTES, np.uint8)
    source[:], target[:] = 1, 2  # a page of zeros is one page for all
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    fastest = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            list(pool.map(lambda part: np.copyto(*part), parts))
            fastest = min(fastest, time.perf_counter() - began)
    return 2 * BYTES / fastest
