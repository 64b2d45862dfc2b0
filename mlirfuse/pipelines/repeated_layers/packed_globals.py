"""Globals that passes made of weights, each with its initializer: one for each layer."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

from iree.compiler import ir

from mlirfuse.kernels.vector import executable
from mlirfuse.pipelines.repeated_layers.op_parts import function_of, module_ops, parts
from mlirfuse.pipelines.repeated_layers.shorten import NotReplicable, ShortModule
from mlirfuse.structured.ir import ops

_ORDINAL = re.compile(r"_\d+$")


class PackedGlobals:
    """The globals that passes made in the short module, and their copies for all layers.

    Attributes:
      made: symbol -> the global and its initializer, in the order of the module.
      next: symbols of the globals of layer 0 -> those of their counterparts in layer 1.
    """

    def __init__(self, short: ShortModule, grouped: ir.Module) -> None:
        """Finds the globals.

        Args:
          short: the short module.
          grouped: the same module after the passes.

        Raises:
          NotReplicable: a global is not computed by an initializer of its own, or the initializer
            reads several layers.
        """
        self.made: dict[str, tuple[ir.Operation, ...]] = {}
        self.next: dict[str, str] = {}
        self._module = grouped
        self._copies: dict[
            tuple[str, int], tuple[tuple[ir.Operation, ...], list[ir.Operation]]
        ] = {}
        before = [_symbol(op) for op in module_ops(short.module)]
        held = list(module_ops(grouped))
        for op in held:
            if op.name == "util.global" and _symbol(op) not in before:
                self.made[ops.symbol_name(op)] = (op,)
            elif op.name == "util.initializer":
                for store in _stores(op):
                    symbol = store.attributes["global"].value
                    if symbol in self.made:
                        self.made[symbol] += (op,)
        pairs = all(len(both) == 2 for both in self.made.values())
        # Equal kernels of several layers are one executable, which no copy is needed of.
        kernels = sum(op.name == executable.SOURCE and _symbol(op) not in before for op in held)
        if not pairs or len(held) != len(before) + 2 * len(self.made) + kernels:
            raise NotReplicable
        self._function = function_of(grouped, short.symbol)
        self._layers = {symbol: _layer(short, both[1]) for symbol, both in self.made.items()}
        self._order = list(short.replicated(list(self.made), self.layer, _compare_counts))

    def layer(self, symbol: str) -> int | None:
        """The layer whose weights the global is computed from; None for a shared global."""
        return self._layers[symbol]

    def load(
        self,
        load: ir.Operation,
        shift: int,
        settle: Callable[[ir.Operation, int], None],
        *,
        copied: bool,
    ) -> None:
        """Makes the global that a load reads that many layers later.

        Args:
          load: the op; its symbol is set by `assign_names`.
          shift: number of layers.
          settle: rewrites an op to its counterpart that many layers later.
          copied: whether the load is a copy, so that its global has to be one too.
        """
        symbol = load.attributes["global"].value
        if symbol not in self.made:
            return
        if self.layer(symbol) is None:
            shift = 0
        if (symbol, shift) not in self._copies:
            both = self.made[symbol]
            if copied and shift:
                place = ir.InsertionPoint(both[0])
                both = tuple(op.clone(place).operation for op in both)
            for op in both:
                settle(op, shift)
            self._copies[symbol, shift] = (both, [])
        self._copies[symbol, shift][1].append(load)

    def assign_names(self) -> None:
        """Orders and names the globals as a run on all layers does."""
        ours = {op for both, _ in self._copies.values() for op in both}
        taken = {_symbol(op) for op in module_ops(self._module) if op not in ours}
        names: dict[str, Iterator[str]] = {}
        for key in self._order:
            both, loads = self._copies[key]
            base = _ORDINAL.sub("", ops.symbol_name(both[0]))
            if base not in names:
                names[base] = itertools.chain([base], map(f"{base}_{{}}".format, itertools.count()))
            symbol = next(name for name in names[base] if name not in taken)
            both[0].attributes["sym_name"] = ir.StringAttr.get(symbol, both[0].context)
            reference = ir.FlatSymbolRefAttr.get(symbol, both[0].context)
            for user in (*_stores(both[1]), *loads):
                user.attributes["global"] = reference
            for op in both:
                op.move_before(self._function)


def _layer(short: ShortModule, initializer: ir.Operation) -> int | None:
    places = [part.location for part in parts(initializer)]
    found = frozenset[int]().union(*map(short.layers_of, places))
    if found and max(found) > min(found):
        raise NotReplicable
    return max(found, default=None)


def _compare_counts(first: list[str], second: list[str]) -> None:
    if len(first) != len(second):
        raise NotReplicable


def _symbol(op: ir.Operation) -> str | None:
    return ops.symbol_name(op) if "sym_name" in op.attributes else None


def _stores(initializer: ir.Operation) -> list[ir.Operation]:
    held = [view.operation for view in initializer.regions[0].blocks[0].operations]
    return [op for op in held if op.name == "util.global.store"]
