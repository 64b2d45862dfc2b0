"""Runs of many like layers, made on a few of them and told of all.

A module of layers 0 1 2 3 .. n that are alike is cut to 0 1 2. When a run has done with layer 1
just what it has done with layer 0, it would do so with all that follow but the last: its result is
repeated, with each layer's own weights and locations. What is not just the same, or not understood,
makes the run be made on all of them.

Every location of the short module says which op of the whole one it is from, and what passes make
keeps the locations of what it replaces: so the ops of the result and the decisions say of which
layer they are.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from iree.compiler import ir

from mlirfuse.core import Decision
from mlirfuse.pipelines.repeated_layers import detect
from mlirfuse.pipelines.repeated_layers.detect import Layers
from mlirfuse.structured.ir import ops

KEPT = 3
"""Layers of the short module: two that are compared, and one beside what stands behind them."""

FEWEST = 2 * KEPT
"""Layers from which on cutting pays."""

Part: TypeAlias = ir.Operation | ir.BlockArgument

Item = TypeVar("Item")


_AT = re.compile(r" at (\S+)")


class Uneven(Exception):
    """The layers of a result are not alike, or something about it is not understood."""


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """A decision on the short module.

    Attributes:
      pass_run: number of the pass in the pipeline.
      decision: what was decided.
      places: locations of the decision's ops.
      root: location of the op at which the pass looked.
      ordered: whether the decisions of the pass are in the order of what messages call the ops.
    """

    pass_run: int
    decision: Decision
    places: tuple[ir.Location, ...]
    root: ir.Location
    ordered: bool


def parts(op: ir.Operation) -> list[Part]:
    """The op, the arguments of its blocks and its nested ops: all that has a location."""
    found: list[Part] = [op]
    for region in op.regions:
        for block in region.blocks:
            found += block.arguments
            for view in block.operations:
                found += parts(view.operation)
    return found


def relocate(part: Part, location: ir.Location) -> None:
    """Gives a part another location."""
    if isinstance(part, ir.BlockArgument):
        part.set_location(location)
    else:
        part.location = location


class Folding:
    """A module whose like layers are cut to a few.

    Attributes:
      whole: the module as it was.
      module: the short one.
      layers: where the layers stand in the whole one.
      extra: how many were cut off.
    """

    def __init__(self, whole: ir.Module, short: ir.Module, symbol: str, found: Layers) -> None:
        """Cuts the copy.

        Args:
          whole: not to be changed.
          short: a copy of it.
          symbol: the function that has the layers.
          found: the layers.
        """
        self.whole = whole
        self.module = short
        self.layers = found
        self.extra = found.count - KEPT
        self.symbol = symbol
        self._whole = held_in(whole, self.symbol)
        self._parts: dict[int, list[Part]] = {}
        self._first_read = {place: weight for weight, place in found.weights.items()}
        self._tags: dict[ir.Attribute, tuple[int, int]] = {}
        self._moved: dict[tuple[ir.Attribute, int], ir.Location] = {}
        self._names: dict[tuple[ir.Attribute, int], str] = {}
        self._layers: dict[ir.Attribute, frozenset[int]] = {}
        self._cut(held_in(short, self.symbol))

    def _cut(self, held: list[ir.Operation]) -> None:
        start, end = self.layers.start + KEPT * self.layers.size, self.layers.end
        inner = held[self.layers.start : end - self.layers.size]
        gone = {result for op in inner for result in op.results}
        instead = {
            old: new
            for place in range(end - self.layers.size, end)
            for old, new in zip(
                held[place].results,
                held[place - self.extra * self.layers.size].results,
                strict=True,
            )
        }
        for op in held[end:]:
            for part in parts(op):
                for number, value in operands(part):
                    if value in gone:
                        raise Uneven
                    if value in instead:
                        part.operands[number] = instead[value]
        for op in reversed(held[start:end]):
            op.erase()
        for place, op in enumerate(held):
            if start <= place < end:
                continue
            if (self.layers.number(place) or 0) >= KEPT:
                op.erase()
                continue
            own = op.location
            for number, part in enumerate(parts(op)):
                location = part.location
                tag = (place, 0 if location == own else number)
                name = f"{ops.INTERNAL_NAME_PREFIX}{tag[0]}.{tag[1]}"
                tagged = ir.Location.name(name, location, context=op.context)
                self._tags[tagged.attr] = tag
                relocate(part, tagged)

    # --- whose a location is --------------------------------------------------------------------

    def layer(self, location: ir.Location) -> int | None:
        """The last layer that the location is from, `KEPT` for what stands behind; None before.

        Raises:
          Uneven: it is from more than two that follow each other.
        """
        found = self.layers_of(location)
        if found and max(found) - min(found) > 1:
            raise Uneven
        return max(found, default=None)

    def layers_of(self, location: ir.Location) -> frozenset[int]:
        """All layers of the short module that the location is from."""
        key = location.attr
        if key not in self._layers:
            if key in self._tags:
                number = self._number(self._tags[key][0])
                self._layers[key] = frozenset(() if number is None else {number})
            else:
                inside, _ = ops.location_parts(location)
                self._layers[key] = frozenset().union(*map(self.layers_of, inside))
        return self._layers[key]

    def _number(self, place: int) -> int | None:
        reader, _ = self.layers.weights.get(place, (place, 0))
        return KEPT if reader >= self.layers.end else self.layers.number(reader)

    def behind(self, layer: int) -> int:
        """How many layers later a layer of the short module is in the whole one."""
        return self.extra if layer > 1 else 0

    def follows(self, one: ir.Location, other: ir.Location) -> bool:
        """Whether the other location is from a layer what the one is from the layer before."""
        return self._sources(one, 1) == self._sources(other, 0)

    def _sources(self, location: ir.Location, layers: int) -> object:
        if location.attr in self._tags:
            place, number = self._tags[location.attr]
            return self.follower(place) if layers else place, number
        inside, name = ops.location_parts(location)
        return name, *(self._sources(part, layers) for part in inside)

    def follower(self, place: int) -> int:
        """What an op or weight is followed by in the next layer; what stands before a first one."""
        reader, number = self.layers.weights.get(place, (place, 0))
        if not self.layers.start - self.layers.before <= reader < self.layers.end:
            return place
        follower = reader + self.layers.size
        return follower if reader == place else self._first_read.get((follower, number), place)

    def place(self, op: ir.Operation) -> int | None:
        """Which op of the whole block the op is or is a copy of; None for one that is made."""
        return self._tags.get(op.location.attr, (None, 0))[0]

    def moved(self, place: int, layers: int) -> int:
        """The op that is to a later layer what an op or weight is to its own."""
        if place in self.layers.weights:
            reader, number = self.layers.weights[place]
            return self._first_read[self.moved(reader, layers), number]
        within = self.layers.number(place) is not None
        return place + layers * self.layers.size if within else place

    def location(self, location: ir.Location, layers: int) -> ir.Location:
        """The location in the whole module, that many layers later."""
        key = (location.attr, layers)
        if key not in self._moved:
            self._moved[key] = self._location(location, layers)
        return self._moved[key]

    def name(self, location: ir.Location, layers: int) -> str:
        """What messages call the location that many layers later."""
        key = (location.attr, layers)
        if key not in self._names:
            self._names[key] = ops.location_name(self.location(location, layers))
        return self._names[key]

    def text(self, text: str, moved: Callable[[int], int]) -> str:
        """What a message says about ops, said about others.

        Args:
          text: names them as `ops.described` does.
          moved: which op of the whole block stands for one of it.
        """
        return _AT.sub(lambda found: f" at {self._renamed(found[1], moved)}", text)

    def _renamed(self, name: str, moved: Callable[[int], int]) -> str:
        names = {ops.location_name(self._whole[moved(p)].location) for p in self._called[name]}
        if len(names) > 1:
            raise Uneven
        return names.pop() if names else name

    @functools.cached_property
    def _called(self) -> dict[str, list[int]]:
        """Where the ops of the short block stand in the whole one, by name."""
        called: dict[str, list[int]] = collections.defaultdict(list)
        for place, number in self._tags.values():
            if not number:
                called[ops.location_name(self._whole[place].location)].append(place)
        return called

    def _location(self, location: ir.Location, layers: int) -> ir.Location:
        if location.attr in self._tags:
            place, number = self._tags[location.attr]
            return self.original(self.moved(place, layers), number).location
        inside, name = ops.location_parts(location)
        moved = [self.location(part, layers) for part in inside]
        if moved == inside:
            return location
        context = location.context
        if isinstance(location, ir.CallSiteLoc):
            return ir.Location.callsite(moved[0], moved[1:], context=context)
        if isinstance(location, ir.NameLoc):
            return ir.Location.name(name, moved[0], context=context)
        assert isinstance(location, ir.FusedLoc)
        return ir.Location.fused(moved, location.metadata, context=context)

    def original(self, place: int, number: int = 0) -> Part:
        """A part of an op of the whole block."""
        if not number:
            return self._whole[place]
        if place not in self._parts:
            self._parts[place] = parts(self._whole[place])
        return self._parts[place][number]

    def repeated(
        self,
        items: Sequence[Item],
        layer: Callable[[Item], int | None],
        compare: Callable[[list[Item], list[Item]], None],
    ) -> Iterator[tuple[Item, int]]:
        """The items of all layers in the order of a run on them, each with how much later.

        Args:
          items: those of the short module, in order.
          layer: of which layer an item is.
          compare: called with items of layer 0 and what stands in their place in layer 1.
        """
        runs = [(at, list(run)) for at, run in itertools.groupby(items, key=layer)]
        first, second = ([i for i, (at, _) in enumerate(runs) if at == n] for n in (0, 1))
        if len(first) != len(second):
            raise Uneven
        twins = dict(zip(second, first, strict=True))
        for i, (at, run) in enumerate(runs):
            shifts = [0 if at is None else self.behind(at)]
            if i in twins:
                compare(runs[twins[i]][1], run)
                shifts = list(range(self.extra + 1))
                if twins[i] > i:
                    shifts.reverse()
            yield from ((item, shift) for shift in shifts for item in run)


def fold(module: ir.Module, copy: Callable[[ir.Module], ir.Module]) -> Folding | None:
    """Cuts the layers of the module's one function that has many, in a copy of it."""
    for function in ops.functions(module):
        symbol, blocks = ops.symbol_name(function), function.regions[0].blocks
        found = detect.find(held_in(module, symbol)) if len(blocks) == 1 else None
        if found is not None and found.count >= FEWEST:
            try:
                return Folding(module, copy(module), symbol, found)
            except Uneven:
                return None
    return None


def function_of(module: ir.Module, symbol: str) -> ir.Operation:
    """The function of that name."""
    return next(f for f in ops.functions(module) if ops.symbol_name(f) == symbol)


def held_in(module: ir.Module, symbol: str) -> list[ir.Operation]:
    """The ops of the one block of the function of that name."""
    block = function_of(module, symbol).regions[0].blocks[0]
    return [view.operation for view in block.operations]


def operands(part: Part) -> list[tuple[int, ir.Value]]:
    """What a part reads itself, by number."""
    return [] if isinstance(part, ir.BlockArgument) else list(enumerate(part.operands))
