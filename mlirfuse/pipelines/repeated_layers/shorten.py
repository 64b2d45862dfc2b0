"""Cuts the repeated layers of a module to representatives.

A module of equal layers 0 1 2 3 .. n becomes one of layers 0 1 2; layer 2 stands for the last one:
the ops after the layers read its results. When the passes did the same to layer 1 as to layer 0,
they would do so to every later layer but the last.

Every location of the short module is tagged with the op of the whole module that it is from, and
passes fuse the locations of the ops that they replace: so the layers of new ops and of decisions
are known.
"""

from __future__ import annotations

import collections
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from iree.compiler import ir

from mlirfuse.pipelines.repeated_layers import detect
from mlirfuse.pipelines.repeated_layers.detect import RepeatedLayers
from mlirfuse.pipelines.repeated_layers.op_parts import (
    Part,
    block_ops,
    operands,
    parts,
    relocate,
)
from mlirfuse.structured.ir import ops

REPRESENTATIVES = 3
"""Layers of the short module: two that are compared, and one that the ops after them read."""

MIN_LAYERS = 2 * REPRESENTATIVES
"""Number of layers from which deduplication is profitable."""

Item = TypeVar("Item")

_AT = re.compile(r" at (\S+)")


class NotReplicable(Exception):
    """The result cannot be replicated: layers differ, or a location or op is not understood."""


class ShortModule:
    """A module whose repeated layers are cut to representatives.

    A layer is the index of a representative, `REPRESENTATIVES` for ops after the layers, and None
    for ops before them. A shift is a number of layers by which an op of the whole module is later.

    Attributes:
      whole: the whole module, whose ops must stay alive.
      module: the short module.
      layers: positions of the layers in the whole module.
      extra: number of layers that were cut off.
      symbol: name of the function with the layers.
    """

    def __init__(
        self, whole: ir.Module, short: ir.Module, symbol: str, layers: RepeatedLayers
    ) -> None:
        """Cuts the copy.

        Args:
          whole: not changed, neither here nor before the result is replicated.
          short: a copy of it.
          symbol: name of the function with the layers.
          layers: positions of the layers.

        Raises:
          NotReplicable: an op after the layers reads a layer that is cut off.
        """
        self.module = short
        self.whole = whole
        self.layers = layers
        self.extra = layers.count - REPRESENTATIVES
        self.symbol = symbol
        self._whole = block_ops(whole, symbol)
        self._parts: dict[int, list[Part]] = {}
        self._weight_at = {place: weight for weight, place in layers.weights.items()}
        self._tags: dict[ir.Attribute, tuple[int, int]] = {}
        self._shifted: dict[tuple[ir.Attribute, int], ir.Location] = {}
        self._names: dict[tuple[ir.Attribute, int], str] = {}
        self._layers: dict[ir.Attribute, frozenset[int]] = {}
        self._cut(block_ops(short, symbol))

    def _cut(self, held: list[ir.Operation]) -> None:
        layers = self.layers
        start, end = layers.start + REPRESENTATIVES * layers.size, layers.end
        inner = held[layers.start : end - layers.size]
        inner_results = {result for op in inner for result in op.results}
        last_results = {
            old: new
            for place in range(end - layers.size, end)
            for old, new in zip(
                held[place].results, held[place - self.extra * layers.size].results, strict=True
            )
        }
        for op in held[end:]:
            for part in parts(op):
                for index, value in operands(part):
                    if value in inner_results:
                        raise NotReplicable
                    if value in last_results:
                        part.operands[index] = last_results[value]
        for op in reversed(held[start:end]):
            op.erase()
        for place, op in enumerate(held):
            if start <= place < end:
                continue
            if (layers.layer_of(place) or 0) >= REPRESENTATIVES:
                op.erase()
                continue
            self._tag(place, op)

    def _tag(self, place: int, op: ir.Operation) -> None:
        own = op.location
        for index, part in enumerate(parts(op)):
            location = part.location
            tag = (place, 0 if location == own else index)
            name = f"{ops.INTERNAL_NAME_PREFIX}{tag[0]}.{tag[1]}"
            tagged = ir.Location.name(name, location, context=op.context)
            self._tags[tagged.attr] = tag
            relocate(part, tagged)

    # --- layers of locations --------------------------------------------------------------------

    def layer(self, location: ir.Location) -> int | None:
        """The last layer that the location is from.

        Raises:
          NotReplicable: it is from more than two successive layers.
        """
        return _last(self.layers_of(location))

    def last_layer(self, locations: Sequence[ir.Location]) -> int | None:
        """The last layer that any of the locations is from.

        Raises:
          NotReplicable: they are from more than two successive layers.
        """
        return _last(frozenset[int]().union(*map(self.layers_of, locations)))

    def layers_of(self, location: ir.Location) -> frozenset[int]:
        """All layers that the location is from."""
        key = location.attr
        if key not in self._layers:
            if key in self._tags:
                layer = self._layer_of(self._tags[key][0])
                self._layers[key] = frozenset(() if layer is None else {layer})
            else:
                inside, _ = ops.location_parts(location)
                self._layers[key] = frozenset().union(*map(self.layers_of, inside))
        return self._layers[key]

    def _layer_of(self, place: int) -> int | None:
        user, _ = self.layers.weights.get(place, (place, 0))
        return REPRESENTATIVES if user >= self.layers.end else self.layers.layer_of(place)

    # --- counterparts in later layers -----------------------------------------------------------

    def shift_of(self, layer: int) -> int:
        """The shift from a layer of the short module to the layer that it stands for."""
        return self.extra if layer > 1 else 0

    def is_next(self, one: ir.Location, other: ir.Location) -> bool:
        """Whether `other` is the location `one` of the next layer."""
        return self._sources(one, 1) == self._sources(other, 0)

    def _sources(self, location: ir.Location, shift: int) -> object:
        if location.attr in self._tags:
            place, index = self._tags[location.attr]
            return self.next_place(place) if shift else place, index
        inside, name = ops.location_parts(location)
        return name, *(self._sources(part, shift) for part in inside)

    def next_place(self, place: int) -> int:
        """Index of the counterpart one layer later of an op or weight of the whole block.

        The counterparts of the ops before the first layer are those of a layer, as far as they
        have its form; an op without a counterpart is its own.
        """
        user, ordinal = self.layers.weights.get(place, (place, 0))
        if not self.layers.start - self.layers.before <= user < self.layers.end:
            return place
        later = user + self.layers.size
        return later if user == place else self._weight_at.get((later, ordinal), place)

    def shifted(self, place: int, shift: int) -> int:
        """Index of the counterpart, that many layers later, of an op or weight."""
        if place in self.layers.weights:
            user, ordinal = self.layers.weights[place]
            return self._weight_at[self.shifted(user, shift), ordinal]
        within = self.layers.layer_of(place) is not None
        return place + shift * self.layers.size if within else place

    def place(self, op: ir.Operation) -> int | None:
        """Index in the whole block of the op that this one is or copies; None for a new op."""
        return self._tags.get(op.location.attr, (None, 0))[0]

    def original(self, place: int, index: int = 0) -> Part:
        """A part of an op of the whole block."""
        if not index:
            return self._whole[place]
        if place not in self._parts:
            self._parts[place] = parts(self._whole[place])
        return self._parts[place][index]

    # --- locations and names in later layers ----------------------------------------------------

    def location(self, location: ir.Location, shift: int) -> ir.Location:
        """The location in the whole module, that many layers later."""
        key = (location.attr, shift)
        if key not in self._shifted:
            self._shifted[key] = self._location(location, shift)
        return self._shifted[key]

    def _location(self, location: ir.Location, shift: int) -> ir.Location:
        if location.attr in self._tags:
            place, index = self._tags[location.attr]
            return self.original(self.shifted(place, shift), index).location
        inside, name = ops.location_parts(location)
        shifted = [self.location(part, shift) for part in inside]
        if shifted == inside:
            return location
        context = location.context
        if isinstance(location, ir.CallSiteLoc):
            return ir.Location.callsite(shifted[0], shifted[1:], context=context)
        if isinstance(location, ir.NameLoc):
            return ir.Location.name(name, shifted[0], context=context)
        assert isinstance(location, ir.FusedLoc)
        return ir.Location.fused(shifted, location.metadata, context=context)

    def name(self, location: ir.Location, shift: int) -> str:
        """The name in messages of the location that many layers later."""
        key = (location.attr, shift)
        if key not in self._names:
            self._names[key] = ops.location_name(self.location(location, shift))
        return self._names[key]

    def text(self, text: str, counterpart: Callable[[int], int]) -> str:
        """A message about ops, rewritten to name their counterparts.

        Args:
          text: names ops as `ops.described` does.
          counterpart: index in the whole block -> index of the counterpart.

        Raises:
          NotReplicable: a name stands for several ops whose counterparts have different names.
        """
        return _AT.sub(lambda found: f" at {self._renamed(found[1], counterpart)}", text)

    def _renamed(self, name: str, counterpart: Callable[[int], int]) -> str:
        places = (counterpart(place) for place in self._places[name])
        names = {ops.location_name(self._whole[place].location) for place in places}
        if len(names) > 1:
            raise NotReplicable
        return names.pop() if names else name

    @functools.cached_property
    def _places(self) -> dict[str, list[int]]:
        """Name in messages -> indices in the whole block of the ops of the short one."""
        named: dict[str, list[int]] = collections.defaultdict(list)
        for place, index in self._tags.values():
            if not index:
                named[ops.location_name(self._whole[place].location)].append(place)
        return named

    # --- replication ----------------------------------------------------------------------------

    def replicated(
        self,
        items: Sequence[Item],
        layer: Callable[[Item], int | None],
        compare: Callable[[list[Item], list[Item]], None],
    ) -> Iterator[tuple[Item, int]]:
        """The items of all layers in the order of a run on them, each with its shift.

        Args:
          items: those of the short module, in order.
          layer: the layer of an item.
          compare: called with items of layer 0 and the items in their place in layer 1.

        Raises:
          NotReplicable: the items of layer 1 are not in the order of those of layer 0.
        """
        runs = [(at, list(run)) for at, run in itertools.groupby(items, key=layer)]
        first, second = ([i for i, (at, _) in enumerate(runs) if at == n] for n in (0, 1))
        if len(first) != len(second):
            raise NotReplicable
        counterparts = dict(zip(second, first, strict=True))
        for i, (at, run) in enumerate(runs):
            shifts = [0 if at is None else self.shift_of(at)]
            if i in counterparts:
                compare(runs[counterparts[i]][1], run)
                shifts = list(range(self.extra + 1))
                if counterparts[i] > i:
                    shifts.reverse()
            yield from ((item, shift) for shift in shifts for item in run)


def _last(layers: frozenset[int]) -> int | None:
    if layers and max(layers) - min(layers) > 1:
        raise NotReplicable
    return max(layers, default=None)


def shorten(module: ir.Module, copy: Callable[[ir.Module], ir.Module]) -> ShortModule | None:
    """Cuts the layers of the first function with enough of them, in a copy of the module.

    Returns:
      None where no function has `MIN_LAYERS` layers, or its layers cannot be cut.
    """
    for function in ops.functions(module):
        symbol, blocks = ops.symbol_name(function), function.regions[0].blocks
        found = detect.find(block_ops(module, symbol)) if len(blocks) == 1 else None
        if found is not None and found.count >= MIN_LAYERS:
            try:
                return ShortModule(module, copy(module), symbol, found)
            except NotReplicable:
                return None
    return None
