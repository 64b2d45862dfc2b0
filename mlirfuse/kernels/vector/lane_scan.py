"""Scans of the lanes of one vector: the logarithm of their number in steps.

    lanes      a      b      c      d
    step 1     a      ab     bc     cd
    step 2     a      ab     abc    abcd

Elements of several scans may alternate in a vector, `stride` of them, and several scans may follow
each other, each of them `length` lanes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlirfuse.kernels.vector.scan_combiner import ScanCombiner


@dataclasses.dataclass(frozen=True, slots=True)
class LaneScan:
    """Scans the lanes of vectors.

    Attributes:
      combiner: combines vectors.
      lanes: lanes of a vector.
      stride: lanes from an element to the next one of the same scan.
      reversed: whether scans run from the last lane to the first one.
    """

    combiner: ScanCombiner
    lanes: int
    stride: int
    reversed: bool

    def scanned(self, vectors: Sequence[str], length: int) -> list[str]:
        """The inclusive scan of each run of so many lanes of each of some vectors."""
        found, distance = list(vectors), self.stride
        while distance < length:
            order, reached = self._moved(distance), self._reached(distance, length)
            for number, vector in enumerate(found):
                moved = self.combiner.shuffled(vector, vector, order)
                both = self.combiner.combined(moved, vector)
                found[number] = self.combiner.selected(reached, both, vector)
            distance *= 2
        return found

    def joined(self, vectors: Sequence[str]) -> list[str]:
        """Scans of adjacent vectors as one scan; all of their lanes are elements."""
        found, distance = list(vectors), 1
        while distance < len(found):
            for number in range(len(found)):
                before = number // distance * distance - 1
                if number // distance % 2:
                    carry = self.carried(found[before], (number - before) * self.lanes)
                    found[number] = self.combiner.combined(carry, found[number])
            distance *= 2
        return found

    def shifted(self, vector: str, carry: str, length: int) -> str:
        """The lanes moved on by one element of their scan; those that become free from `carry`."""
        inside = self._reached(self.stride, length)
        order = [
            source if ok else self.lanes + lane
            for lane, (source, ok) in enumerate(zip(self._moved(self.stride), inside, strict=True))
        ]
        return self.combiner.shuffled(vector, carry, order)

    def carried(self, vector: str, distance: int) -> str:
        """For each lane of a later vector, the last element of its scan in this one.

        Args:
          vector: a vector whose lanes are all elements.
          distance: lanes from this vector to the later one.
        """
        return self.combiner.shuffled(vector, vector, self._last(distance))

    def realigned(self, carry: str, distance: int) -> str:
        """What `carried` returns, from what it returns for the next vector."""
        beyond = (distance - self.lanes) * (-1 if self.reversed else 1)
        if beyond % self.stride == 0:
            return carry
        order = [(lane + beyond) % self.stride for lane in range(self.lanes)]
        return self.combiner.shuffled(carry, carry, order)

    def _last(self, distance: int) -> list[int]:
        """The lanes with the last elements of scans, for each lane of a vector at a distance."""
        if self.reversed:
            return [(lane - distance) % self.stride for lane in range(self.lanes)]
        first = self.lanes - self.stride
        return [first + (lane + distance - self.lanes) % self.stride for lane in range(self.lanes)]

    def _moved(self, distance: int) -> list[int]:
        """For each lane the one from which the scan comes, of those that exist."""
        step = distance if self.reversed else -distance
        return [min(max(lane + step, 0), self.lanes - 1) for lane in range(self.lanes)]

    def _reached(self, distance: int, length: int) -> list[bool]:
        """The lanes of which the one at a distance is in the same run."""
        if self.reversed:
            return [lane % length + distance < length for lane in range(self.lanes)]
        return [lane % length >= distance for lane in range(self.lanes)]
