"""Huge pages for the weights of a program on the CPU.

    with huge_pages.of_new_memory(wanted=True):
        context = rt.VmContext(...)             a thread moves what is mapped here

The initializers of a program write weights to memory that iree-runtime gets from malloc, in pages
of 4 KiB, unless Linux gives all memory huge ones. Each page needs an entry of the TLB, and the
prefetchers of a core stop at its end: on one core of a Zen 4 products of one row with matrices of
2816x1024 f32 in memory read 19.4 GB/s, and 28.0 with pages of 2 MiB; IREE's read 22.

A thread asks for it, from 0.2 to 4 ms for a page of 2 MiB, since memory has to be free in such
pieces. Before Linux 6.1 it has no such call, and Linux moves memory in a thread of its own. Where
the file `enabled` of `/sys/kernel/mm/transparent_hugepage` says `never`, nothing is done. What
malloc takes from memory that was mapped before, and is free, stays as it is. Two lists of what is
mapped take 8 ms beside PyTorch, so a program whose file has fewer bytes than `LEAST` is left out.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

FEATURE = "huge_pages"
"""Name of the feature that turns them off."""

THREAD = "mlirfuse-huge-pages"
"""Name of the thread that moves memory."""

SIZE, LEAST, PIECE = 2 << 20, 8 << 20, 32 << 20
"""Bytes of a huge page; of new memory in one piece, at least; and of what is moved in one call."""

_ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")

_MAPS = Path("/proc/self/maps")

_ANONYMOUS = re.compile(
    r"([0-9a-f]+)-([0-9a-f]+) rw-p 0+ 00:00 0 *(\[heap\]|\[anon.*)?$", re.MULTILINE
)
"""A line of `_MAPS` about memory of this process alone that is no stack and belongs to no file."""

_ADVICE_HUGE, _ADVICE_COLLAPSE = 14, 25
"""`MADV_HUGEPAGE` and `MADV_COLLAPSE`; Linux, `include/uapi/asm-generic/mman-common.h`."""

Ranges: TypeAlias = list[tuple[int, int]]
"""First address of memory, and the one behind it."""


@contextlib.contextmanager
def of_new_memory(*, wanted: bool) -> Iterator[None]:
    """Has memory that the block maps moved into huge pages, where the system has them.

    Args:
      wanted: whether it shall.
    """
    call = _madvise() if wanted else None
    before = _mapped() if call is not None else []
    yield
    if call is None:
        return
    whole = (
        (-(-first // SIZE) * SIZE, last // SIZE * SIZE) for first, last in _new(before, _mapped())
    )
    found = [(first, last) for first, last in whole if last - first >= LEAST]
    if found:
        threading.Thread(target=_move, args=(call, found), name=THREAD, daemon=True).start()


def _move(call: Callable[[int, int, int], int], ranges: Ranges) -> None:
    """Asks for huge pages, a piece at a time; memory that was freed since is refused."""
    for first, last in ranges:
        call(first, last - first, _ADVICE_HUGE)
        for piece in range(first, last, PIECE):
            call(piece, min(PIECE, last - piece), _ADVICE_COLLAPSE)


@functools.cache
def _madvise() -> ctypes._NamedFuncPointer | None:
    """The function of the C library; None where the system has no huge pages to give."""
    try:
        if "[never]" in _ENABLED.read_text(encoding="ascii"):
            return None
        found = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


def _mapped() -> Ranges:
    """The memory of this process that belongs to no file, in the order of addresses."""
    try:
        text = _MAPS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [(int(first, 16), int(last, 16)) for first, last, _ in _ANONYMOUS.findall(text)]


def _new(before: Ranges, after: Ranges) -> Ranges:
    """The parts of memory that was not mapped before."""
    found: Ranges = []
    for first, last in after:
        for known, end in before:
            if known < last and first < end:
                if first < known:
                    found.append((first, known))
                first = max(first, end)
        if first < last:
            found.append((first, last))
    return found
