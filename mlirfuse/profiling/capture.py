"""Launches of kernels as a profiler recorded them."""

from __future__ import annotations

import dataclasses

from mlirfuse.core import MlirfuseError

CALLS = 30
"""Default number of profiled calls."""

WARMUP = 5
"""Calls before them: the first ones fault pages in, start threads and fill caches."""


class ProfileError(MlirfuseError):
    """A program cannot be profiled on its device."""


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel.

    Attributes:
      name: name of its entry point; `copy`, `fill` or `update` for such a command.
      start_ns: nanoseconds of its start, on the clock of the device.
      end_ns: nanoseconds of its end.
      workgroups: numbers of workgroups (CTAs) along x, y, z; None for a command.
      workgroup_size: threads of a workgroup along x, y, z; None where the device has none.
      registers: 32-bit registers of a thread; None where it is not known.
      shared_memory: bytes of shared memory of a CTA; None where it is not known.
      local_memory: bytes of local memory of a thread, which hold spilled registers; None where it
        is not known.
    """

    name: str
    start_ns: int
    end_ns: int
    workgroups: tuple[int, ...] | None = None
    workgroup_size: tuple[int, ...] | None = None
    registers: int | None = None
    shared_memory: int | None = None
    local_memory: int | None = None

    @property
    def ns(self) -> int:
        """Nanoseconds from its start to its end."""
        return self.end_ns - self.start_ns


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call of a program.

    Attributes:
      wall_ns: nanoseconds of the call, for its caller.
      launches: its launches, in the order of their starts.
    """

    wall_ns: int
    launches: tuple[Launch, ...]

    @property
    def busy_ns(self) -> int:
        """Nanoseconds in which at least one kernel ran."""
        total, until = 0, 0
        for launch in self.launches:
            total += max(0, launch.end_ns - max(launch.start_ns, until))
            until = max(until, launch.end_ns)
        return total


@dataclasses.dataclass(frozen=True, slots=True)
class Capture:
    """The profiled calls of a program.

    Attributes:
      device: URI of the device.
      threads: threads of the CPU that ran it; None for another device.
      clock: the profiler and its clock, for people.
      calls: the calls, warm ones only.
    """

    device: str
    threads: int | None
    clock: str
    calls: tuple[Call, ...]


def split(launches: list[Launch], walls_ns: list[int], warmup: int) -> tuple[Call, ...]:
    """The calls after the first `warmup`, where every call has the same launches.

    Args:
      launches: those of all calls.
      walls_ns: nanoseconds of each call.
      warmup: number of calls that are left out.

    Raises:
      ProfileError: calls differ in their launches.
    """
    ordered = sorted(launches, key=lambda launch: launch.start_ns)
    count, rest = divmod(len(ordered), len(walls_ns))
    calls = [
        Call(wall, tuple(ordered[index * count : (index + 1) * count]))
        for index, wall in enumerate(walls_ns)
    ]
    names = [sorted(launch.name for launch in call.launches) for call in calls]
    if rest or any(found != names[0] for found in names):
        raise ProfileError(
            f"the profiler recorded {len(ordered)} launches in {len(walls_ns)} calls, and not the"
            " same ones in each"
        )
    return tuple(calls[warmup:])
