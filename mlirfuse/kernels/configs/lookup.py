"""Which tiles a kernel has: those that were measured for the kernel nearest in size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.configs.measured import BESIDE, MEASURED, Beside
from mlirfuse.kernels.plan import Key
from mlirfuse.targets.base import Target, Tuned

NEAR = 4.0
"""Doublings of sizes, added up, over which a measurement still tells something."""

AS_FAST = 1.02
"""IREE's time over a kernel's up to which IREE's code stays: the noise of a run."""

OTHER_FORM = 2.0
"""What another form counts, in doublings."""


Allowed = Callable[[Tuned], bool]
"""Whether a kernel can have the tiling of a measurement."""


def _any(entry: Tuned) -> bool:
    return True


def tiling(target: Target, key: Key, allowed: Allowed = _any) -> tuple[int, ...] | None:
    """The numbers of the tiling that was measured for the nearest kernel; None where none is near.

    What `mlirfuse-tune --kernels` measured on this machine comes before the built-in table.

    Args:
      target: what is compiled for.
      key: of the kernel.
      allowed: which measurements say something of the kernel.
    """
    for table in (target.tuned, MEASURED.get(str(target), ())):
        found = _nearest(table, key, allowed)
        if found is not None:
            return found.tiling
    return None


def beside(target: Target, key: Key, elsewhere: str = "") -> Beside | None:
    """The measurement of IREE's code beside the kernel nearest in size, of the same form.

    Args:
      target: what is compiled for.
      key: of the kernel.
      elsewhere: a target whose measurements count where there are none for this one.
    """
    table = BESIDE.get(str(target)) or BESIDE.get(elsewhere, ())
    same = [entry for entry in table if entry.form == key.form]
    near = [(_doublings(entry.sizes, key.sizes), entry) for entry in same]
    near = [pair for pair in near if pair[0] <= NEAR]
    return min(near, key=lambda pair: pair[0])[1] if near else None


def refusal(found: Beside) -> NoMatch | None:
    """Why a region stays with IREE, whose code was measured; None where the kernel was faster."""
    if found.iree_us > found.kernel_us * AS_FAST:
        return None
    return NoMatch(
        Reason.NOT_PROFITABLE,
        f"IREE's code took {found.iree_us:g} us where a kernel took {found.kernel_us:g}"
        f" ({'x'.join(map(str, found.sizes))}, measured)",
    )


def _nearest(table: Iterable[Tuned], key: Key, allowed: Allowed) -> Tuned | None:
    same = (entry for entry in table if entry.kind == key.kind and allowed(entry))
    near = [(_distance(entry, key), entry) for entry in same]
    near = [pair for pair in near if pair[0] <= NEAR]
    return min(near, key=lambda pair: pair[0])[1] if near else None


def _distance(entry: Tuned, key: Key) -> float:
    return _doublings(entry.sizes, key.sizes) + (0.0 if entry.form == key.form else OTHER_FORM)


def _doublings(sizes: tuple[int, ...], others: tuple[int, ...]) -> float:
    return sum(
        abs(math.log2(max(1, one) / max(1, other)))
        for one, other in zip(sizes, others, strict=True)
    )
