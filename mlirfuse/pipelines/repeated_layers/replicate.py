"""What a run on a few of many like layers says of all: the grouped module and the decisions."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Sequence

from iree.compiler import ir

from mlirfuse.core import Decision, Report
from mlirfuse.pipelines.repeated_layers.shorten import (
    KEPT,
    Folding,
    Made,
    Uneven,
    function_of,
    held_in,
    operands,
    parts,
    relocate,
)
from mlirfuse.structured.ir import marks, ops


def unfold(folding: Folding, grouped: ir.Module, report: Report, made: Sequence[Made]) -> bool:
    """Makes of the short module's result and report the whole one's.

    Args:
      folding: the module that was cut; the whole one is as it was.
      grouped: what the passes made of the short one.
      report: its decisions and passes, none of them MLIR's.
      made: the decisions with the locations of their ops.

    Returns:
      Whether the layers were treated alike; else module and report are of no use.
    """
    try:
        told = _Told(folding, made, len(report.passes))
        _Unfolded(folding, grouped, told).all()
        grouped.operation.verify()
    except (Uneven, ir.MLIRError):
        return False
    report.decisions[:] = told.decisions
    for number, done in enumerate(report.passes):
        done.rewrites = told.taken[number]
    return True


class _Told:
    """The decisions of all layers.

    Attributes:
      decisions: they, in the order of a run on the whole module.
      taken: how many were, by pass.
      numbers: of the matches, by pass, number on the short module and layers later.
      twins: of the matches in layer 0, those in layer 1: by pass and number.
      matched: the decisions with a number, by pass and number.
    """

    def __init__(self, folding: Folding, made: Sequence[Made], passes: int) -> None:
        self.folding = folding
        self.decisions: list[Decision] = []
        self.taken = [0] * passes
        self.numbers: dict[tuple[str, int, int], int] = {}
        self.twins: dict[tuple[str, int], int] = {}
        self.matched: dict[tuple[str, int], Made] = {}
        for number, group in itertools.groupby(made, key=lambda m: m.pass_run):
            self._of_pass(number, list(group))

    def number(self, name: str, match: int, layers: int) -> int:
        """The number, among all layers, of a match of the short module that many layers later."""
        layer = self._layer(self.matched[name, match])
        if layer is None:
            layers = 0
        elif layer == 0 and layers:
            match, layers = self.twins[name, match], layers - 1
        if (name, match, layers) not in self.numbers:
            raise Uneven
        return self.numbers[name, match, layers]

    def follows(self, name: str, one: int, other: int) -> bool:
        """Whether one match of a pass was made of what another was made of a layer before."""
        a, b = self.matched.get((name, one)), self.matched.get((name, other))
        return a is not None and b is not None and self._follows(a, b)

    def _follows(self, a: Made, b: Made) -> bool:
        detail = self.folding.text(a.decision.detail, self.folding.follower)
        match = None if a.decision.match is None else b.decision.match
        same = dataclasses.replace(a.decision, ops=b.decision.ops, match=match, detail=detail)
        return (
            same == b.decision
            and len(a.places) == len(b.places)
            and self.folding.follows(a.root, b.root)
            and all(map(self.folding.follows, a.places, b.places))
        )

    def _layer(self, made: Made) -> int | None:
        """The layer of the op at which the pass looked."""
        for place in made.places:
            self.folding.layer(place)
        spread = frozenset[int]().union(*map(self.folding.layers_of, made.places))
        if spread and max(spread) - min(spread) > 1:
            raise Uneven
        layer = self.folding.layer(made.root)
        if made.ordered and layer is not None and layer < KEPT:
            names = [[self.folding.name(place, n) for place in made.places] for n in (0, 1)]
            if names[0] != names[1]:
                raise Uneven
        return layer

    def _of_pass(self, number: int, made: list[Made]) -> None:
        """Repeats what was decided about layer 1."""
        matches = itertools.count()
        for m, shift in self.folding.repeated(made, self._layer, self._compare):
            match = None if m.decision.match is None else next(matches)
            if match is not None and m.decision.match is not None:
                self.numbers[m.decision.pass_name, m.decision.match, shift] = match
                self.matched[m.decision.pass_name, m.decision.match] = m
            told = self._seen(m, shift, match)
            self.taken[number] += told.taken
            self.decisions.append(told)

    def _compare(self, first: list[Made], second: list[Made]) -> None:
        if len(first) != len(second) or not all(map(self._follows, first, second)):
            raise Uneven
        for a, b in zip(first, second, strict=True):
            if a.decision.match is not None and b.decision.match is not None:
                self.twins[a.decision.pass_name, a.decision.match] = b.decision.match

    def _seen(self, made: Made, layers: int, match: int | None) -> Decision:
        """The same decision that many layers later, with another number."""
        names = tuple(self.folding.name(place, layers) for place in made.places)
        detail = made.decision.detail
        if layers:
            detail = self.folding.text(detail, lambda op: self.folding.moved(op, layers))
        return dataclasses.replace(made.decision, ops=names, match=match, detail=detail)


class _Unfolded:
    """The grouped short module on its way to the whole one.

    Its block is what stands before layer 0, layer 0, layer 1, and the rest; of layer 1 copies are
    made, and the rest becomes that of the last layer.
    """

    def __init__(self, folding: Folding, grouped: ir.Module, told: _Told) -> None:
        self.folding = folding
        self.told = told
        self.module = grouped
        self.held = held_in(grouped, folding.symbol)
        self.at = {op: place for place, op in enumerate(self.held)}
        self.weights: dict[int, ir.Operation] = {}
        for op in self.held:
            place = folding.place(op) if op.name in ops.CONSTANT_OPS else None
            if place is None:
                break
            self.weights[place] = op
        self.first, self.second, self.rest = (self._start(layer) for layer in range(KEPT))
        self.width = self.second - self.first
        self.globals = _Globals(folding, grouped)
        self.loaded: set[str] = set()

    def _start(self, layer: int) -> int:
        """Index of the first op of a layer."""
        for place in range(len(self.weights), len(self.held)):
            if self.folding.layer(self.held[place].location) == layer:
                return place
        raise Uneven

    def all(self) -> None:
        """Checks that layers 0 and 1 are alike, and makes the others."""
        if self.rest - self.second != self.width:
            raise Uneven
        for place in range(self.first, self.second):
            self._compare(self.held[place], self.held[place + self.width], {})
        reads = [self._reads(op) for op in self.held]
        for place, op in enumerate(self.held):
            self._check_layers(op, place)
        if self.loaded != self.globals.made.keys():
            raise Uneven
        self._build(reads)

    # --- checks ---------------------------------------------------------------------------------

    def _compare(self, a: ir.Operation, b: ir.Operation, inside: dict[ir.Value, ir.Value]) -> None:
        """Sees whether an op of layer 0 is to it what the other is to layer 1."""
        folding = self.folding
        if a.name != b.name or not folding.follows(a.location, b.location):
            raise Uneven
        if [r.type for r in a.results] != [r.type for r in b.results]:
            raise Uneven
        self._compare_attributes(a, b)
        if len(a.operands) != len(b.operands) or len(a.regions) != len(b.regions):
            raise Uneven
        for one, other in zip(a.operands, b.operands, strict=True):
            alike = inside[one] == other if one in inside else self._follows(one, other)
            if not alike:
                raise Uneven
        for region, twin in zip(a.regions, b.regions, strict=True):
            if len(region.blocks) != len(twin.blocks):
                raise Uneven
            for block, other_block in zip(region.blocks, twin.blocks, strict=True):
                held, others = list(block.operations), list(other_block.operations)
                if len(held) != len(others):
                    raise Uneven
                arguments = list(block.arguments), list(other_block.arguments)
                if [x.type for x in arguments[0]] != [x.type for x in arguments[1]]:
                    raise Uneven
                inside.update(zip(*arguments, strict=True))
                for view, other_view in zip(held, others, strict=True):
                    self._compare(view.operation, other_view.operation, inside)
        inside.update(zip(a.results, b.results, strict=True))

    def _compare_attributes(self, a: ir.Operation, b: ir.Operation) -> None:
        mine, others = dict(a.attributes.items()), dict(b.attributes.items())
        if mine.keys() != others.keys():
            raise Uneven
        for name, attribute in mine.items():
            other = others[name]
            if name == marks.MATCH_ATTRIBUTE:
                alike = self.told.follows(
                    mine[marks.PASS_ATTRIBUTE].value, attribute.value, other.value
                )
            elif attribute == other:
                alike = True
            elif name == "global":
                alike = self._same_global(attribute.value, other.value)
            else:
                weight = self.folding.place(a) in self.folding.layers.weights
                alike = weight if name == "value" else name == "sym_name"
            if not alike:
                raise Uneven

    def _same_global(self, one: str, other: str) -> bool:
        """Whether two globals that passes made are computed from what is to each layer the same."""
        twins, made = self.globals.twins, self.globals.made
        if one not in twins and one in made and other in made:
            twins[one] = other
            for a, b in zip(made[one], made[other], strict=True):
                self._compare(a, b, {})
        return bool(twins.get(one) == other)

    def _follows(self, one: ir.Value, other: ir.Value) -> bool:
        """Whether the layers read the same, or what is to each the same."""
        a, b = ops.defining_op(one), ops.defining_op(other)
        if b is None or b not in self.at:
            return bool(one == other)
        place, behind = -1 if a is None else self.at.get(a, -1), self.at[b]
        if place == behind:
            shared = behind < self.first and self.folding.layer(b.location) is None
            return bool(one == other) and shared
        if a is not None and behind < len(self.weights):
            return self.folding.follows(a.location, b.location)
        if place < self.first:
            # Whatever stands before the first layer, in the place of the layer before.
            return self.first <= behind < self.second and one.type == other.type
        assert a is not None
        number = list(a.results).index(one)
        return behind - place == self.width and list(b.results).index(other) == number

    def _reads(self, op: ir.Operation) -> list[tuple[int, int, ir.Value]]:
        """What the op reads of layers: part of the op, number of the operand, value."""
        found = []
        behind = self.at[op] >= self.second
        for number, part in enumerate(parts(op) if behind else ()):
            for position, value in operands(part):
                owner = ops.defining_op(value)
                place = None if owner is None else self.at.get(owner)
                if owner is None or place is None or place >= self.rest:
                    continue
                if place >= self.first:
                    found.append((number, position, value))
                elif self.folding.layer(owner.location) is not None:
                    if place >= len(self.weights):
                        raise Uneven
                    found.append((number, position, value))
        return found

    def _check_layers(self, op: ir.Operation, place: int) -> None:
        """Sees that groups, and the globals that are loaded, are of the layer where they stand."""
        wanted: tuple[int | None, ...] = (None, KEPT - 1, KEPT)
        if place < self.rest:
            wanted = (None if place < self.first else int(place >= self.second),)
        for part in parts(op):
            layer = self.folding.layer(part.location)
            if isinstance(part, ir.BlockArgument):
                continue
            if marks.MATCH_ATTRIBUTE in part.attributes and layer not in wanted:
                raise Uneven
            if part.name == "util.global.load":
                symbol = part.attributes["global"].value
                if symbol in self.globals.made:
                    self.loaded.add(symbol)
                    if self.globals.layer(symbol) not in (None, *wanted):
                        raise Uneven

    # --- building -------------------------------------------------------------------------------

    def _build(self, reads: list[list[tuple[int, int, ir.Value]]]) -> None:
        twins = {
            old: new
            for place in range(self.first, self.second)
            for old, new in zip(
                self.held[place].results, self.held[place + self.width].results, strict=True
            )
        }
        behind, head = self.held[self.rest], self.held[len(self.weights)]
        known = dict(twins)
        extra = self.folding.extra
        for layers in range(1, extra + 1):
            now: dict[ir.Value, ir.Value] = {}
            for place in range(self.second, self.rest):
                old = self.held[place]
                new = old.clone(ir.InsertionPoint(behind)).operation
                self._settle(new, layers, reads[place], known, copied=True)
                made = dict(zip(old.results, new.results, strict=True))
                known.update(made)
                now.update(made)
            if layers < extra:
                known = {old: now[new] for old, new in twins.items()}
        # The weights' places are asked for to the end.
        for place, op in reversed(list(enumerate(self.held))):
            layers = 0 if place < self.rest else extra
            self._settle(op, layers, reads[place] if layers else [], known)
        for place, weight in sorted(self.weights.items()):
            if place in self.folding.layers.weights and not ops.is_read(weight.results[0]):
                weight.erase()
            else:
                weight.move_before(head)
        self.globals.name()

    def _settle(
        self,
        op: ir.Operation,
        layers: int,
        reads: list[tuple[int, int, ir.Value]],
        known: dict[ir.Value, ir.Value],
        *,
        copied: bool = False,
    ) -> None:
        """Makes an op of the result what it is that many layers later."""
        held = parts(op)
        for number, position, value in reads:
            owner = ops.defining_op(value)
            assert owner is not None
            new = known.get(value) or self._weight(owner, layers)
            held[number].operands[position] = new
        for part in held:
            location = part.location
            if isinstance(part, ir.Operation):
                if part.name in ops.CONSTANT_OPS:
                    self._reload(part, layers)
                elif part.name == "util.global.load":
                    self.globals.load(part, layers, self._settle_global, copied=copied)
                if marks.MATCH_ATTRIBUTE in part.attributes:
                    self._number(part, layers)
            relocate(part, self.folding.location(location, layers))

    def _settle_global(self, op: ir.Operation, layers: int) -> None:
        self._settle(op, layers, [], {})

    def _weight(self, weight: ir.Operation, layers: int) -> ir.Value:
        """What a layer has in place of the weight of one before it."""
        place = self.folding.place(weight)
        assert place is not None
        place = self.folding.moved(place, layers)
        if place not in self.weights:
            original = self.folding.original(place)
            self.weights[place] = original.clone(ir.InsertionPoint(self.held[self.rest])).operation
        return self.weights[place].results[0]

    def _reload(self, constant: ir.Operation, layers: int) -> None:
        """Gives a copy of a weight, which passes have made, the data of its layer."""
        place = self.folding.place(constant)
        if layers and place in self.folding.layers.weights:
            original = self.folding.original(self.folding.moved(place, layers))
            constant.attributes["value"] = original.attributes["value"]

    def _number(self, group: ir.Operation, layers: int) -> None:
        """Writes the number of the match on a group."""
        match = group.attributes[marks.MATCH_ATTRIBUTE]
        number = self.told.number(group.attributes[marks.PASS_ATTRIBUTE].value, match.value, layers)
        group.attributes[marks.MATCH_ATTRIBUTE] = ir.IntegerAttr.get(match.type, number)


class _Globals:
    """The globals of the module that passes made, each with its initializer.

    Attributes:
      made: both ops, by symbol, in the order of the module.
      twins: of the globals of layer 0, those of layer 1.
    """

    def __init__(self, folding: Folding, grouped: ir.Module) -> None:
        self.folding = folding
        self.module = grouped
        self.twins: dict[str, str] = {}
        self.made: dict[str, tuple[ir.Operation, ...]] = {}
        self.ready: dict[tuple[str, int], tuple[tuple[ir.Operation, ...], list[ir.Operation]]] = {}
        before = [_symbol(op) for op in _module_ops(folding.module)]
        held = list(_module_ops(grouped))
        for op in held:
            if op.name == "util.global" and _symbol(op) not in before:
                self.made[ops.symbol_name(op)] = (op,)
            elif op.name == "util.initializer":
                for store in _stores(op):
                    symbol = store.attributes["global"].value
                    if symbol in self.made:
                        self.made[symbol] += (op,)
        pairs = all(len(both) == 2 for both in self.made.values())
        if not pairs or len(held) != len(before) + 2 * len(self.made):
            raise Uneven
        self.function = function_of(grouped, folding.symbol)
        self._layers = {symbol: self._last_layer(both[1]) for symbol, both in self.made.items()}
        self.order = list(folding.repeated(list(self.made), self.layer, self._compare))

    def layer(self, symbol: str) -> int | None:
        """The last layer that the global is computed from; None for one of all layers."""
        return self._layers[symbol]

    def _last_layer(self, initializer: ir.Operation) -> int | None:
        places = [part.location for part in parts(initializer)]
        found = frozenset[int]().union(*map(self.folding.layers_of, places))
        if found and max(found) > min(found):
            raise Uneven
        return max(found, default=None)

    def _compare(self, first: list[str], second: list[str]) -> None:
        if len(first) != len(second):
            raise Uneven

    def load(
        self,
        load: ir.Operation,
        layers: int,
        settle: Callable[[ir.Operation, int], None],
        *,
        copied: bool,
    ) -> None:
        """Sees that what is loaded is there, and computed from the weights of its layer."""
        symbol = load.attributes["global"].value
        if symbol not in self.made:
            return
        if self.layer(symbol) is None:
            layers = 0
        if (symbol, layers) not in self.ready:
            both = self.made[symbol]
            if copied and layers:
                place = ir.InsertionPoint(both[0])
                both = tuple(op.clone(place).operation for op in both)
            for op in both:
                settle(op, layers)
            self.ready[symbol, layers] = (both, [])
        self.ready[symbol, layers][1].append(load)

    def name(self) -> None:
        """Orders and numbers the globals as a run on all layers does."""
        ours = {op for both, _ in self.ready.values() for op in both}
        taken = {_symbol(op) for op in _module_ops(self.module) if op not in ours}
        names: dict[str, Iterator[str]] = {}
        for key in self.order:
            both, loads = self.ready[key]
            base = _NUMBER.sub("", ops.symbol_name(both[0]))
            if base not in names:
                names[base] = itertools.chain([base], map(f"{base}_{{}}".format, itertools.count()))
            symbol = next(name for name in names[base] if name not in taken)
            both[0].attributes["sym_name"] = ir.StringAttr.get(symbol, both[0].context)
            reference = ir.FlatSymbolRefAttr.get(symbol, both[0].context)
            for user in (*_stores(both[1]), *loads):
                user.attributes["global"] = reference
            for op in both:
                op.move_before(self.function)


_NUMBER = re.compile(r"_\d+$")


def _module_ops(module: ir.Module) -> Iterator[ir.Operation]:
    return (view.operation for view in module.body.operations)


def _symbol(op: ir.Operation) -> str | None:
    return ops.symbol_name(op) if "sym_name" in op.attributes else None


def _stores(initializer: ir.Operation) -> list[ir.Operation]:
    held = [view.operation for view in initializer.regions[0].blocks[0].operations]
    return [op for op in held if op.name == "util.global.store"]
