"""Contractions whose instructions multiply several elements of K: i8, and bf16 where CPUs have it.

      for each group of input channels, of `product.group` elements:
        a group of an image's elements, in all lanes, times vectors of groups of the filter

Groups of the packed filter are contiguous: [input channels / group][output channels][group], zeros
at the end. The last group of the image may be partial: its elements are loaded one by one, as are
those of an image whose channels are not adjacent; scalar instructions run beside those of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.vector.dense import Dense, DenseKernel, Element
from mlirfuse.kernels.vector.executable import memref
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.products import Operands, Product
from mlirfuse.kernels.vector.tiled import SUMS
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.targets.base import CpuDevice

_FLIP = f"{0x80808080 - (1 << 32)}"
"""The highest bits of four bytes, as an i32."""

_BITS = {"i8": 8, "i16": 16, "bf16": 16}
"""Bits of the elements that instructions take."""


class GroupedKernel(DenseKernel):
    """Writes one kernel."""

    def __init__(
        self, problem: Dense, device: CpuDevice, product: Product, kinds: Operands, *, flat: bool
    ) -> None:
        super().__init__(problem, device, flat=flat)
        self.product, self.kinds = product, kinds
        self.step = product.group
        self._filter_start = Linear()
        self.grouped = f"vector<{product.group * self.lanes}x{product.operand}>"
        if product.shift:
            assert problem.sums is not None
            self.sums = self.body.reserve(SUMS, problem.sums)

    def _fresh(self, positions: Sequence[Position]) -> list[str]:
        """The init, less what the shift of the image's elements adds to the accumulators."""
        found = super()._fresh(positions)
        if not self.product.shift:
            return found
        kind = self.dense.sums
        assert kind is not None
        columns = self.group_number * self.dense.columns + self.column
        loaded = [
            self.body.load(self.sums, kind, columns + vector * self.lanes, mask)
            for vector, mask in ((p.key[1], p.mask) for p in positions[: self.tile.vectors])
            if isinstance(vector, int)
        ]
        return [
            self.writer.value(f"arith.subi {init}, {loaded[n % len(loaded)]} : {self.kind}")
            for n, init in enumerate(found)
        ]

    def _write_taps(
        self, start: Linear, rows: int, at: Linear, tap: Linear, sums: list[str]
    ) -> list[str]:
        """Writes the loop over groups of input channels, and the group that is not whole."""
        dense, group = self.dense, self.product.group
        at = self._moved(at, dense.group_steps)
        self._filter_start, _ = self._weights_at(tap)
        rest = 0 if self.partial else dense.channels % group
        whole = Linear(constant=dense.channels - rest)
        stop = self.stop if self.partial else whole
        sums = self._write_groups(start, rows, at, stop, sums)
        return self._step(start, rows, at, whole, rest, sums) if rest else sums

    def _weights_at(self, tap: Linear) -> tuple[Linear, int]:
        dense, wide = self.dense, self.tile.vectors * self.lanes
        weights = self.weights * (dense.taps * dense.depth * wide)
        return weights + tap * (dense.depth * wide), wide

    def _write_groups(
        self, start: Linear, rows: int, at: Linear, stop: Linear, sums: list[str]
    ) -> list[str]:
        """Writes the loop over groups of input channels that are whole."""

        def step(channel: str, held: list[str]) -> list[str]:
            return self._step(start, rows, at, linear(channel), self.product.group, held)

        kinds = [self.kind] * len(sums)
        return self.writer.loop(self.start, stop, self.product.group, sums, kinds, step)

    def _step(
        self, start: Linear, rows: int, at: Linear, channel: Linear, count: int, held: list[str]
    ) -> list[str]:
        """Writes the products of one group, of which the image has `count` elements."""

        def image(row: int, number: int) -> str:
            place = channel * self.dense.channel_step + self._place(start, row, number)
            return self._image(at + place, count)

        return self._group(start, rows, channel, held, image)

    def _group(
        self, start: Linear, rows: int, channel: Linear, held: list[str], image: Element
    ) -> list[str]:
        """Writes the products of one group from the image's elements of each pixel and tap."""
        dense, group, sums = self.dense, self.product.group, list(held)
        wide = self.tile.vectors * self.lanes
        for number in self._class_taps():
            used = self._used(start, rows, number)
            if not used:
                continue
            place = self._filter_start + channel * wide + number * dense.depth * wide
            loaded = [
                self._filter(place + v * self.lanes * group) for v in range(self.tile.vectors)
            ]
            for row in used:
                element = image(row, number)
                for vector, weight in enumerate(loaded):
                    n = row * self.tile.vectors + vector
                    sums[n] = self._add_product(element, weight, sums[n])
        return sums

    def _image(self, at: Linear, count: int) -> str:
        """Elements of the image from a place on, in all lanes; those after `count` are zeros."""
        group = self.product.group
        if group == 1:
            return self._element(at)
        word = f"i{_BITS[self.product.operand] * group}"
        if self.dense.channel_step == 1 and count == group:
            row = f"vector<{group}x{self.product.operand}>"
            whole = self.writer.value(f"vector.bitcast {self._row(at)} : {row} to vector<1x{word}>")
            scalar = self.writer.value(f"vector.extract {whole}[0] : {word} from vector<1x{word}>")
        else:
            scalar = self._joined(at, count, word)
        held = f"vector<{self.lanes}x{word}>"
        lanes = self.writer.value(f"vector.broadcast {scalar} : {word} to {held}")
        if self.product.shift:
            flip = self.body.splat(_FLIP, word)
            lanes = self.writer.value(f"arith.xori {lanes}, {flip} : {held}")
        return self.writer.value(f"vector.bitcast {lanes} : {held} to {self.grouped}")

    def _row(self, at: Linear) -> str:
        """A group of the image, each element as the instruction takes it.

        It is widened before it is in all lanes: IREE 3.13 makes `extsi` of a `vector.bitcast` an
        `extui`.
        """
        row = f"vector<{self.product.group}x{self.kinds.image}>"
        loaded = self.writer.value(
            f"vector.load {self.image}[{self.writer.index(at)}] :"
            f" {memref(self.dense.image.type)}, {row}"
        )
        return self._operand(loaded, row, self.kinds.image_is_unsigned)

    def _joined(self, at: Linear, count: int, word: str) -> str:
        """The first elements of a group as one integer; memory after them is not read."""
        writer, operand = self.writer, self.product.operand
        bits = _BITS[operand]
        total = ""
        for number in range(count):
            place = writer.index(at + number * self.dense.channel_step)
            value = writer.value(
                f"memref.load {self.image}[{place}] : {memref(self.dense.image.type)}"
            )
            if operand == "bf16":
                value = writer.value(f"arith.bitcast {value} : bf16 to i16")
            elif operand != self.kinds.image:
                extend = "extui" if self.kinds.image_is_unsigned else "extsi"
                value = writer.value(f"arith.{extend} {value} : {self.kinds.image} to {operand}")
            value = writer.value(f"arith.extui {value} : i{bits} to {word}")
            if number:
                left = writer.constant(str(bits * number), word)
                value = writer.value(f"arith.shli {value}, {left} : {word}")
                value = writer.value(f"arith.ori {total}, {value} : {word}")
            total = value
        return total

    def _element(self, at: Linear) -> str:
        """An element of the image in all lanes, as an i32."""
        scalar = self.writer.value(
            f"memref.load {self.image}[{self.writer.index(at)}] : {memref(self.dense.image.type)}"
        )
        extend = "extui" if self.kinds.image_is_unsigned else "extsi"
        wide = self.writer.value(f"arith.{extend} {scalar} : {self.kinds.image} to i32")
        return self.writer.value(f"vector.broadcast {wide} : i32 to {self.kind}")

    def _filter(self, at: Linear) -> str:
        """Groups of the packed filter, one in each lane."""
        held = f"vector<{self.product.group * self.lanes}x{self.kinds.filter}>"
        loaded = self.writer.value(
            f"vector.load {self.packed}[{self.writer.index(at)}] :"
            f" {memref(self.dense.packed)}, {held}"
        )
        return self._operand(loaded, held, self.kinds.filter_is_unsigned)

    def _operand(self, vector: str, held: str, is_unsigned: bool) -> str:
        """A vector of elements as the instruction takes them."""
        size, element = held.removeprefix("vector<").removesuffix(">").split("x")
        operand = self.product.operand
        if element == operand:
            return vector
        extend = "extui" if is_unsigned else "extsi"
        return self.writer.value(f"arith.{extend} {vector} : {held} to vector<{size}x{operand}>")

    def _add_product(self, image: str, weight: str, total: str) -> str:
        product, kind = self.product, self.kind
        if not product.intrinsic:
            made = self.writer.value(f"arith.muli {image}, {weight} : {kind}")
        elif product.adds:
            return self.writer.value(
                f'llvm.call_intrinsic "{product.intrinsic}"({total}, {image}, {weight}) : '
                f"({kind}, {self.grouped}, {self.grouped}) -> {kind}"
            )
        else:
            made = self.writer.value(
                f'llvm.call_intrinsic "{product.intrinsic}"({image}, {weight}) : '
                f"({self.grouped}, {self.grouped}) -> {kind}"
            )
        return self.writer.value(f"arith.addi {total}, {made} : {kind}")
