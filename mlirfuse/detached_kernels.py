"""Kernels that run beside the commands after them: recurrences, which take long and few SMs.

On an H200 both directions of an RNN of 64x104 f32 took 46 us so, and 80 one after the other; of
64x79 bf16 84 and 155. Only those whose CTAs do not wait for each other are detached.

    x W, h of x, y W, h of y, concat                    commands of a call, in order
    x W -> y W -> concat                                each of the others waits for the one before
    x W -> h of x -> concat, y W -> h of y -> concat    a recurrence does, too; its users for it

IREE issues commands one after the other; a CUDA graph need not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

MAX_DETACHED = 2
"""Such kernels at a time, as of the two directions of a layer."""


@dataclasses.dataclass(frozen=True, slots=True)
class DetachedKernels:
    """The recurrences among the commands of a call.

    Attributes:
      commands: number of commands.
      users: index of a recurrence -> indices of the later commands that may not run beside it:
        they read what it writes, or write what it reads or writes.
    """

    commands: int
    users: Mapping[int, tuple[int, ...]]

    def predecessors(self) -> list[tuple[int, ...]]:
        """For each command the earlier ones that it waits for.

        All commands but the recurrences form a chain.
        """
        found: list[tuple[int, ...]] = []
        users = {index: set(later) for index, later in self.users.items()}
        last: int | None = None
        running: list[int] = []
        for index in range(self.commands):
            needed = [one for one in running if index in users[one]]
            left = [one for one in running if one not in needed]
            if index in users and len(left) == MAX_DETACHED:
                needed.append(left.pop(0))
            if index in users:
                # Who waits for this one waits for those that it waits for, and for no others.
                users[index] = users[index].union(*(users[one] for one in needed))
            found.append(tuple(sorted({*needed, *([] if last is None else [last])})))
            running = left
            if index in users:
                running.append(index)
            else:
                last = index
        return found

    def to_dict(self) -> dict[str, Any]:
        """The entry of a report."""
        users = {str(index): list(later) for index, later in self.users.items()}
        return {"commands": self.commands, "users": users}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> DetachedKernels:
        """The kernels that `to_dict` wrote."""
        users = {int(index): tuple(later) for index, later in entry["users"].items()}
        return cls(int(entry["commands"]), users)
