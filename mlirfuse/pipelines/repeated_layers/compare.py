"""Proof that the passes did the same to layer 0 and to layer 1, op by op.

An op of layer 1 is the counterpart of one of layer 0 when both have the same name, types,
attributes, regions and locations one layer apart, and read counterparts. Everything else raises
`NotReplicable`.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.pipelines.repeated_layers.decisions import ReplicatedDecisions
from mlirfuse.pipelines.repeated_layers.op_parts import operands, parts
from mlirfuse.pipelines.repeated_layers.packed_globals import PackedGlobals
from mlirfuse.pipelines.repeated_layers.short_result import ShortResult
from mlirfuse.pipelines.repeated_layers.shorten import REPRESENTATIVES, NotReplicable
from mlirfuse.structured.ir import marks, ops

LayerRead = tuple[int, int, ir.Value]
"""Index of a part of an op, index of the operand, and a value of a layer that it reads."""


class Comparison:
    """The comparison of layers 0 and 1 of a result."""

    def __init__(
        self, result: ShortResult, decisions: ReplicatedDecisions, made: PackedGlobals
    ) -> None:
        """A comparison before its first op.

        Args:
          result: the grouped short module.
          decisions: decisions about all layers.
          made: the globals of the module; counterparts among them are added.
        """
        self._result = result
        self._short = result.short
        self._decisions = decisions
        self._globals = made
        self._loaded: set[str] = set()

    def run(self) -> list[list[LayerRead]]:
        """Compares all ops.

        Returns:
          The reads of layers by the ops of layer 1 and of the rest, for each op of the block.

        Raises:
          NotReplicable: layers differ, or an op is in a layer that its location is not from.
        """
        result = self._result
        for position in range(result.first, result.second):
            self._compare(result.held[position], result.held[position + result.width], {})
        reads = [self._reads(op) for op in result.held]
        for position, op in enumerate(result.held):
            self._check_layers(op, position)
        if self._loaded != self._globals.made.keys():
            raise NotReplicable
        return reads

    def _compare(self, a: ir.Operation, b: ir.Operation, inside: dict[ir.Value, ir.Value]) -> None:
        """Compares an op of layer 0 with its counterpart.

        Args:
          a: the op.
          b: the op in its place in layer 1.
          inside: values of regions of layer 0 -> their counterparts; results of `a` are added.
        """
        if a.name != b.name or not self._short.is_next(a.location, b.location):
            raise NotReplicable
        if [r.type for r in a.results] != [r.type for r in b.results]:
            raise NotReplicable
        self._compare_attributes(a, b)
        if len(a.operands) != len(b.operands) or len(a.regions) != len(b.regions):
            raise NotReplicable
        for one, other in zip(a.operands, b.operands, strict=True):
            same = inside[one] == other if one in inside else self._is_next(one, other)
            if not same:
                raise NotReplicable
        for region, other_region in zip(a.regions, b.regions, strict=True):
            if len(region.blocks) != len(other_region.blocks):
                raise NotReplicable
            for block, other_block in zip(region.blocks, other_region.blocks, strict=True):
                self._compare_blocks(block, other_block, inside)
        inside.update(zip(a.results, b.results, strict=True))

    def _compare_blocks(
        self, block: ir.Block, other: ir.Block, inside: dict[ir.Value, ir.Value]
    ) -> None:
        held, others = list(block.operations), list(other.operations)
        if len(held) != len(others):
            raise NotReplicable
        arguments = list(block.arguments), list(other.arguments)
        if [x.type for x in arguments[0]] != [x.type for x in arguments[1]]:
            raise NotReplicable
        inside.update(zip(*arguments, strict=True))
        for view, other_view in zip(held, others, strict=True):
            self._compare(view.operation, other_view.operation, inside)

    def _compare_attributes(self, a: ir.Operation, b: ir.Operation) -> None:
        mine, others = dict(a.attributes.items()), dict(b.attributes.items())
        if mine.keys() != others.keys():
            raise NotReplicable
        for name, attribute in mine.items():
            other = others[name]
            if name == marks.MATCH_ATTRIBUTE:
                same = self._decisions.is_next_match(
                    mine[marks.PASS_ATTRIBUTE].value, attribute.value, other.value
                )
            elif attribute == other:
                same = True
            elif name == "global":
                same = self._is_next_global(attribute.value, other.value)
            else:
                weight = self._short.place(a) in self._short.layers.weights
                same = weight if name == "value" else name == "sym_name"
            if not same:
                raise NotReplicable

    def _is_next_global(self, one: str, other: str) -> bool:
        """Whether two globals that passes made are computed from counterparts."""
        known, made = self._globals.next, self._globals.made
        if one not in known and one in made and other in made:
            known[one] = other
            for a, b in zip(made[one], made[other], strict=True):
                self._compare(a, b, {})
        return bool(known.get(one) == other)

    def _is_next(self, one: ir.Value, other: ir.Value) -> bool:
        """Whether values that layers 0 and 1 read are the same, or counterparts."""
        result, short = self._result, self._short
        a, b = ops.defining_op(one), ops.defining_op(other)
        if b is None or b not in result.position:
            return bool(one == other)
        at = -1 if a is None else result.position.get(a, -1)
        other_at = result.position[b]
        if at == other_at:
            shared = other_at < result.first and short.layer(b.location) is None
            return bool(one == other) and shared
        if a is not None and other_at < len(result.weights):
            return short.is_next(a.location, b.location)
        if at < result.first:
            # Layer 0 reads an op before it where layer 1 reads layer 0.
            return result.first <= other_at < result.second and one.type == other.type
        assert a is not None
        index = list(a.results).index(one)
        return other_at - at == result.width and list(b.results).index(other) == index

    def _reads(self, op: ir.Operation) -> list[LayerRead]:
        """The reads of layers by an op from layer 1 on."""
        result = self._result
        found = []
        later = result.position[op] >= result.second
        for part_index, part in enumerate(parts(op) if later else ()):
            for index, value in operands(part):
                owner = ops.defining_op(value)
                at = None if owner is None else result.position.get(owner)
                if owner is None or at is None or at >= result.rest:
                    continue
                if at >= result.first:
                    found.append((part_index, index, value))
                elif self._short.layer(owner.location) is not None:
                    if at >= len(result.weights):
                        raise NotReplicable
                    found.append((part_index, index, value))
        return found

    def _check_layers(self, op: ir.Operation, position: int) -> None:
        """Checks that groups and loaded globals are in the layer that their locations are from."""
        result = self._result
        expected: tuple[int | None, ...] = (None, REPRESENTATIVES - 1, REPRESENTATIVES)
        if position < result.rest:
            expected = (None if position < result.first else int(position >= result.second),)
        for part in parts(op):
            layer = self._short.layer(part.location)
            if isinstance(part, ir.BlockArgument):
                continue
            if marks.MATCH_ATTRIBUTE in part.attributes and layer not in expected:
                raise NotReplicable
            if part.name == "util.global.load":
                symbol = part.attributes["global"].value
                if symbol in self._globals.made:
                    self._loaded.add(symbol)
                    if self._globals.layer(symbol) not in (None, *expected):
                        raise NotReplicable
