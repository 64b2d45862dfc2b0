"""The kernel of a convolution by minimal filtering.

for each block of windows:
  for each window, vector of input channels:          B times the window, for each dimension
  for each tile of output channels:
    for each product, tile of windows:                sums over input channels
    for each window:                                  A times the sums; epilogue
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from mlirfuse import builders
from mlirfuse.kernels.vector.channel_kernel import ChannelKernel
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.tiled import PACKED
from mlirfuse.kernels.vector.winograd.problem import Side, Winograd
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

Places = dict[tuple[int, ...], str]
"""Values by their places in a window, along each dimension with taps."""


class VectorArithmetic:
    """Writes the arithmetic of transforms on vectors."""

    def __init__(self, math: LaneMath) -> None:
        self.math, self.writer, self.kind = math, math.writer, math.kind

    def add(self, one: str, other: str) -> str:
        """`one + other`."""
        return self.writer.value(f"arith.addf {one}, {other} : {self.kind}")

    def subtract(self, one: str, other: str) -> str:
        """`one - other`."""
        return self.writer.value(f"arith.subf {one}, {other} : {self.kind}")

    def multiply_add(self, one: str, factor: Fraction, total: str) -> str:
        """`factor * one + total`."""
        return self.math.multiply_add(one, self._factor(factor), total)

    def scale(self, one: str, factor: Fraction) -> str:
        """`factor * one`."""
        return self.writer.value(f"arith.mulf {one}, {self._factor(factor)} : {self.kind}")

    def _factor(self, factor: Fraction) -> str:
        return self.math.body.splat(repr(float(factor)), "f32")


class WinogradKernel(ChannelKernel):
    """Writes one kernel."""

    def __init__(self, problem: Winograd, device: CpuDevice) -> None:
        super().__init__(problem, problem.vectors, device)
        self.winograd = problem
        self.packed = self.body.reserve(PACKED, problem.packed)
        self.arithmetic = VectorArithmetic(self.math)
        self.base = Linear()
        self.buffer = ""

    def write(self, entry: str, grid: tuple[int, int]) -> VectorKernel:
        """Writes the whole kernel.

        Args:
          entry: name of its function.
          grid: parts of the output channels, and of the blocks of windows.
        """
        problem, writer = self.winograd, self.writer
        parts, shares = grid
        elements = parts * shares * problem.scratch
        self.buffer = f"memref<{elements}xf32>"
        part = writer.value("hal.interface.workgroup.id[0] : index")
        share = writer.value("hal.interface.workgroup.id[1] : index")
        self.base = (linear(share) * parts + linear(part)) * problem.scratch
        channels = self._bounds(part, self.tiles, parts)
        blocks = self._bounds(share, problem.num_blocks, shares)

        def block(number: str, _: list[str]) -> list[str]:
            first = linear(number) * problem.block
            self._write_windows(first)
            writer.loop(*channels, 1, [], [], lambda tile, _: self._write_channels(first, tile))
            return []

        writer.loop(*blocks, 1, [], [], block)
        scratch = builders.tensor_type([elements], "f32")
        made = self.body.kernel(entry, problem.results, grid, (scratch,))
        return dataclasses.replace(made, operations=problem.operations)

    def _bounds(self, part: str, units: int, parts: int) -> tuple[Linear | str, Linear | str]:
        """The first unit of a part, and the one after its last."""
        size = -(-units // parts)
        first = linear(part) * size
        return first, self.writer.binary("minsi", first + size, units)

    def _scratch(self, at: Linear) -> str:
        return f"%y{len(self.problem.results)}[{self.writer.index(self.base + at)}]"

    def _keep(self, vector: str, at: Linear) -> None:
        self.writer.line(f"vector.store {vector}, {self._scratch(at)} : {self.buffer}, {self.kind}")

    def _kept(self, at: Linear) -> str:
        return self.writer.value(f"vector.load {self._scratch(at)} : {self.buffer}, {self.kind}")

    def _transformed(
        self, values: Places, transform: Callable[[Side, list[str]], list[str]]
    ) -> Places:
        """Values after a transform of each dimension."""
        for axis, side in enumerate(self.winograd.sides):
            others = sorted({(*place[:axis], *place[axis + 1 :]) for place in values})
            size = 1 + max(place[axis] for place in values)
            found: Places = {}
            for other in others:
                line = [values[*other[:axis], n, *other[axis:]] for n in range(size)]
                for n, value in enumerate(transform(side, line)):
                    found[*other[:axis], n, *other[axis:]] = value
            values = found
        return values

    def _origins(self, window: Linear) -> list[Linear]:
        """The index of a window's first output along each axis of pixels."""
        steps = {s.window.axis: s.filtering.outputs for s in self.winograd.sides}
        places = self.writer.split(self.writer.index(window), self.winograd.axis_tiles)
        return [place * steps.get(axis, 1) for axis, place in enumerate(places)]

    # --- windows of the image ---------------------------------------------------------------------

    def _write_windows(self, first: Linear) -> None:
        """Writes the transforms of a block of windows."""
        problem, writer = self.winograd, self.writer

        def window(number: str, _: list[str]) -> list[str]:
            # The last block ends with the last window again, where there are no more.
            last = problem.num_windows - 1
            place = writer.binary("minsi", first + linear(number), last)
            origins = self._origins(linear(place))
            at = Linear()
            for w in problem.windows:
                if w.axis is not None and w.taps == 1:
                    at = at + origins[w.axis] * (w.stride * w.step)
            starts = [origins[s.window.axis or 0] + -s.window.low for s in problem.sides]
            inside = self._inside(starts)
            if not inside:
                self._write_window(number, at, starts, has_ends=False)
                return []
            with writer.block(f"scf.if {inside} {{", "} else {"):
                self._write_window(number, at, starts, has_ends=False)
            with writer.block("// at an end of the image", "}"):
                self._write_window(number, at, starts, has_ends=True)
            return []

        writer.loop(0, problem.block, 1, [], [], window)

    def _inside(self, starts: Sequence[Linear]) -> str:
        """Whether all elements of a window are in the image; empty where they always are."""
        found = ""
        for side, start in zip(self.winograd.sides, starts, strict=True):
            if side.is_inside:
                continue
            # As unsigned numbers negative ones are larger than any.
            room = max(0, side.window.size - side.filtering.window + 1)
            part = self._below(start, room)
            found = self.writer.value(f"arith.andi {found}, {part} : i1") if found else part
        return found

    def _below(self, index: Linear, size: int) -> str:
        index_name, bound = self.writer.index(index), self.writer.index(size)
        return self.writer.value(f"arith.cmpi ult, {index_name}, {bound} : index")

    def _write_window(
        self, number: str, at: Linear, starts: Sequence[Linear], *, has_ends: bool
    ) -> None:
        """Writes the transforms of one window, for all channels."""
        problem = self.winograd
        offsets: list[list[Linear]] = []
        exists: list[list[str]] = []
        for side, start in zip(problem.sides, starts, strict=True):
            indices = [start + n for n in range(side.filtering.window)]
            if has_ends and not side.is_inside:
                exists.append([self._below(index, side.window.size) for index in indices])
                indices = [
                    linear(self._chosen(inside, index))
                    for inside, index in zip(exists[-1], indices, strict=True)
                ]
            else:
                exists.append([""] * len(indices))
            offsets.append([index * side.window.step for index in indices])
        places = list(itertools.product(*(range(len(o)) for o in offsets)))
        conditions = {
            place: self._all([exists[axis][n] for axis, n in enumerate(place)]) for place in places
        }

        def channels(vector: str, _: list[str]) -> list[str]:
            column = linear(vector) * self.lanes
            mask = self._channel_mask(column)
            values: Places = {}
            for place in places:
                here = at + column
                for axis, n in enumerate(place):
                    here = here + offsets[axis][n]
                values[place] = self._element(here, mask, conditions[place])
            made = self._transformed(
                values, lambda side, line: side.filtering.input(line, self.arithmetic)
            )
            base = (linear(vector) * problem.block + linear(number)) * self.lanes
            for product, place in enumerate(sorted(made)):
                self._keep(made[place], base + product * problem.input_step)
            return []

        self.writer.loop(0, problem.channel_vectors, 1, [], [], channels)

    def _chosen(self, inside: str, index: Linear) -> str:
        """An index, or zero where it is outside."""
        zero = self.writer.index(0)
        return self.writer.value(
            f"arith.select {inside}, {self.writer.index(index)}, {zero} : index"
        )

    def _all(self, conditions: Sequence[str]) -> str:
        """Whether all conditions hold; an empty one always does."""
        found = ""
        for condition in filter(None, conditions):
            found = (
                self.writer.value(f"arith.andi {found}, {condition} : i1") if found else condition
            )
        return found

    def _channel_mask(self, column: Linear) -> str:
        """The channels of a vector that exist; empty where all do."""
        if self.winograd.channels % self.lanes == 0:
            return ""
        left = self.writer.binary("subi", self.winograd.channels, column)
        kind = self.body.vector_type("i1")
        return self.writer.value(f"vector.create_mask {left} : {kind}")

    def _element(self, at: Linear, mask: str, condition: str) -> str:
        """A vector of the image in f32, zeros outside of it."""
        image = self.problem.image
        loaded = self.body.load(self.image, image.type, at, mask)
        value = self.math.widened(loaded, ops.element_type(image))
        if not condition:
            return value
        zero = self.body.splat("0.0", "f32")
        return self.writer.value(f"arith.select {condition}, {value}, {zero} : {self.kind}")

    # --- sums over channels -----------------------------------------------------------------------

    def _write_channels(self, first: Linear, tile: str) -> list[str]:
        """Writes all that follows for a block of windows and a tile of output channels."""
        problem, writer = self.winograd, self.writer
        self.column = linear(tile) * (problem.vectors * self.lanes)

        def product(number: str, _: list[str]) -> list[str]:
            weights = (linear(tile) * problem.products + linear(number)) * (
                problem.channels * problem.vectors * self.lanes
            )
            rest = problem.block % problem.rows

            def rows(start: str, _: list[str]) -> list[str]:
                self._write_sums(number, weights, linear(start), problem.rows)
                return []

            writer.loop(0, problem.block - rest, problem.rows, [], [], rows)
            if rest:
                self._write_sums(number, weights, Linear(constant=problem.block - rest), rest)
            return []

        writer.loop(0, problem.products, 1, [], [], product)
        self._write_masks()
        self._write_outputs(first)
        return []

    def _write_sums(self, product: str, weights: Linear, start: Linear, rows: int) -> None:
        """Writes the sums of one product, for a tile of windows."""
        problem, lanes = self.winograd, self.lanes
        wide = problem.vectors * lanes
        kinds = [self.kind] * (rows * problem.vectors)
        sums = [self.body.splat("0.0", "f32")] * len(kinds)

        def vector(number: str, held: list[str], size: int = lanes) -> list[str]:
            windows = (linear(number) * problem.block + start) * lanes
            windows = windows + linear(product) * problem.input_step
            panel = weights + linear(number) * (lanes * wide)

            def channel(n: str, held: list[str]) -> list[str]:
                sums = list(held)
                place = panel + linear(n) * wide
                factors = [
                    self.body.load(self.packed, problem.packed, place + v * lanes)
                    for v in range(problem.vectors)
                ]
                for row in range(rows):
                    at = windows + linear(n) + row * lanes
                    held_at = self._scratch(at)
                    one = self.writer.value(f"memref.load {held_at} : {self.buffer}")
                    spread = self.writer.value(f"vector.broadcast {one} : f32 to {self.kind}")
                    for v, factor in enumerate(factors):
                        k = row * problem.vectors + v
                        sums[k] = self.math.multiply_add(spread, factor, sums[k])
                return sums

            return self.writer.loop(0, size, 1, held, kinds, channel)

        whole, rest = divmod(problem.channels, lanes)
        if whole:
            sums = self.writer.loop(0, whole, 1, sums, kinds, vector)
        if rest:
            sums = vector(self.writer.index(whole), sums, rest)
        for k, total in enumerate(sums):
            row, v = divmod(k, problem.vectors)
            self._keep(total, self._sums_at(linear(product), start + row, v))

    def _sums_at(self, product: Linear, window: Linear, vector: int) -> Linear:
        """The place of the sums of a product of a window."""
        problem = self.winograd
        at = (window * problem.vectors + vector) * self.lanes + product * problem.output_step
        return at + problem.products * problem.input_step

    # --- results ----------------------------------------------------------------------------------

    def _write_outputs(self, first: Linear) -> None:
        """Writes the outputs of a block of windows, and their epilogue."""
        problem, writer = self.winograd, self.writer
        left = writer.binary("subi", problem.num_windows, first)
        count = writer.binary("minsi", left, problem.block)

        def window(number: str, _: list[str]) -> list[str]:
            self._write_output(linear(number), self._origins(first + linear(number)))
            return []

        writer.loop(0, count, 1, [], [], window)

    def _write_output(self, window: Linear, origins: list[Linear]) -> None:
        """Writes the outputs of one window."""
        problem, lanes = self.winograd, self.lanes
        outputs = [side.filtering.outputs for side in problem.sides]
        pixels = math.prod(outputs)
        kind = f"memref<{pixels * problem.vectors * lanes}xf32>"
        stack = self.writer.stack(kind, use="outputs")
        places = list(itertools.product(*(range(side.filtering.window) for side in problem.sides)))
        for v in range(problem.vectors):
            sums = {
                place: self._kept(self._sums_at(Linear(constant=n), window, v))
                for n, place in enumerate(places)
            }
            made = self._transformed(
                sums, lambda side, line: side.filtering.output(line, self.arithmetic)
            )
            for n, place in enumerate(sorted(made)):
                at = self.writer.index((n * problem.vectors + v) * lanes)
                self.writer.line(f"vector.store {made[place]}, {stack}[{at}] : {kind}, {self.kind}")

        def nest(axis: int, index: list[Linear], pixel: Linear) -> None:
            if axis == len(problem.sides):
                self._write_pixel(stack, kind, index, pixel)
                return
            side, size = problem.sides[axis], outputs[axis]
            place = side.window.axis or 0
            end: Linear | str = Linear(constant=size)
            if side.extent % size:
                rest = Linear(constant=side.extent) + index[place] * -1
                end = self.writer.binary("minsi", rest, size)

            def step(number: str, _: list[str]) -> list[str]:
                here = list(index)
                here[place] = index[place] + linear(number)
                nest(axis + 1, here, pixel * size + linear(number))
                return []

            self.writer.loop(0, end, 1, [], [], step)

        nest(0, origins, Linear())

    def _write_pixel(self, stack: str, kind: str, index: list[Linear], pixel: Linear) -> None:
        """Writes the epilogue of one pixel."""
        problem, lanes = self.winograd, self.lanes
        self.body.forget()
        sums, positions = [], []
        for v in range(problem.vectors):
            position = Position((v,), (*index, self.column + v * lanes), self.masks[v])
            at = self.writer.index((pixel * problem.vectors + v) * lanes)
            made = self.writer.value(f"vector.load {stack}[{at}] : {kind}, {self.kind}")
            init = self.body.vector(problem.init, problem.axes[problem.value], position)
            sums.append(self.arithmetic.add(init, made))
            positions.append(position)
        self._finish(sums, positions)
        self.body.forget()
