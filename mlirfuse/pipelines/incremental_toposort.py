"""A topological order of the units of a block, kept while units merge.

Units are integers. A merge of two units must leave no cycle: the units on a path from one to the
other stand between them in the order, so only these are searched.
Source: D. J. Pearce and P. H. J. Kelly, A dynamic topological sort algorithm for directed acyclic
graphs, 2006; merging two neighbours is inserting the edge back.
"""

from __future__ import annotations

from collections.abc import Iterable


class Order:
    """A graph without cycles, and the place of each unit in a topological order.

    Attributes:
      after: units that read a unit.
      before: units that a unit reads.
      place: position of a unit in the order.
    """

    def __init__(self) -> None:
        self.after: dict[int, set[int]] = {}
        self.before: dict[int, set[int]] = {}
        self.place: dict[int, int] = {}

    def add(self, unit: int, read: Iterable[int]) -> None:
        """Adds a unit at the end.

        Args:
          unit: an integer that is not in use.
          read: the units that it reads.
        """
        self.place[unit] = len(self.place)
        self.after[unit] = set()
        self.before[unit] = set(read)
        for other in self.before[unit]:
            self.after[other].add(unit)

    def path(self, first: int, last: int) -> int | None:
        """The first unit that depends on `first` and feeds `last`; None when there is none."""
        found = (u for u in self._following(first, last) if last in self.after[u])
        return min(found, key=self.place.__getitem__, default=None)

    def _following(self, first: int, last: int) -> set[int]:
        """The units that depend on `first` and stand before `last`."""
        end, found = self.place[last], set[int]()
        waiting = list(self.after[first])
        while waiting:
            unit = waiting.pop()
            if unit not in found and self.place[unit] < end:
                found.add(unit)
                waiting += self.after[unit]
        return found

    def _leading(self, first: int, last: int) -> set[int]:
        """The units that `last` depends on and that stand after `first`."""
        start, found = self.place[first], set[int]()
        waiting = list(self.before[last])
        while waiting:
            unit = waiting.pop()
            if unit not in found and self.place[unit] > start:
                found.add(unit)
                waiting += self.before[unit]
        return found

    def merge(self, a: int, b: int, merged: int) -> None:
        """Puts a new unit in place of two between which there is no path but their edge."""
        first, last = sorted((a, b), key=self.place.__getitem__)
        late = sorted(self._following(first, last), key=self.place.__getitem__)
        early = sorted(self._leading(first, last), key=self.place.__getitem__)
        free = sorted(self.place[u] for u in (first, last, *early, *late))
        for unit, place in zip((*early, merged, *late), free, strict=False):
            self.place[unit] = place
        self.after[merged] = (self.after[first] | self.after[last]) - {first, last}
        self.before[merged] = (self.before[first] | self.before[last]) - {first, last}
        for unit in (first, last):
            self._unlink(unit)
        for other in self.after[merged]:
            self.before[other].add(merged)
        for other in self.before[merged]:
            self.after[other].add(merged)

    def dissolve(self, unit: int) -> None:
        """Removes a unit; its users read its producers then."""
        for user in self.after[unit]:
            self.before[user] |= self.before[unit]
        for producer in self.before[unit]:
            self.after[producer] |= self.after[unit]
        self._unlink(unit)

    def _unlink(self, unit: int) -> None:
        for user in self.after.pop(unit):
            self.before[user].discard(unit)
        for producer in self.before.pop(unit):
            self.after[producer].discard(unit)
        del self.place[unit]
