"""Scans of the lanes of one vector: the logarithm of their number in steps.

    lanes      a      b      c      d
    step 1     a      ab     bc     cd
    step 2     a      ab     abc    abcd

Elements of several scans may alternate in a vector, `stride` of them, and several scans may follow
each other, each of them `length` lanes.
"""

from __future__ import annotations

import dataclasses

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

    def scanned(self, vector: str, length: int) -> str:
        """The inclusive scan of each run of so many lanes."""
        distance = self.stride
        while distance < length:
            moved = self.combiner.shuffled(vector, vector, self._moved(distance))
            both = self.combiner.combined(moved, vector)
            vector = self.combiner.selected(self._reached(distance, length), both, vector)
            distance *= 2
        return vector

    def shifted(self, vector: str, carry: str, length: int) -> str:
        """The lanes moved on by one element of their scan; those that become free from `carry`."""
        inside = self._reached(self.stride, length)
        order = [
            source if ok else self.lanes + lane
            for lane, (source, ok) in enumerate(zip(self._moved(self.stride), inside, strict=True))
        ]
        return self.combiner.shuffled(vector, carry, order)

    def carried(self, vector: str) -> str:
        """For each lane of the next vector, the last element of its scan in this one."""
        first = 0 if self.reversed else self.lanes - self.stride
        shift = self.lanes if self.reversed else 0
        order = [first + (lane - shift) % self.stride for lane in range(self.lanes)]
        return self.combiner.shuffled(vector, vector, order)

    def realigned(self, carry: str, distance: int) -> str:
        """What `carried` returns, for a vector at another distance than that of whole vectors."""
        order = [(lane - distance + self.lanes) % self.stride for lane in range(self.lanes)]
        if all(source == lane % self.stride for lane, source in enumerate(order)):
            return carry
        return self.combiner.shuffled(carry, carry, order)

    def _moved(self, distance: int) -> list[int]:
        """For each lane the one from which the scan comes, of those that exist."""
        step = distance if self.reversed else -distance
        return [min(max(lane + step, 0), self.lanes - 1) for lane in range(self.lanes)]

    def _reached(self, distance: int, length: int) -> list[bool]:
        """The lanes of which the one at a distance is in the same run."""
        if self.reversed:
            return [lane % length + distance < length for lane in range(self.lanes)]
        return [lane % length >= distance for lane in range(self.lanes)]
