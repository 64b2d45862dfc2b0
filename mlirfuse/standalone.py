"""Programs of one rewrite each: what it took, and what it made of it, with arguments of their own.

    %s = linalg.generic {addf} ins(%e)
    %y = linalg.generic {divf} ins(%e, %s)             // a match
  becomes
    util.func public @piece(%a: !hal.buffer_view) -> !hal.buffer_view {
      %e = hal.tensor.import %a
      ... the ops of the match, or what the rewrite made of them ...
      %r = hal.tensor.export %y
    }

What both forms read from outside is an argument of both, in the same order, so that they can be
called with the same values. The text is at IREE's global-optimization level, like the engine's
input. Dynamic sizes have no such form.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence

from iree.compiler import ir

from mlirfuse.core import FusionPass, Match, Numerics
from mlirfuse.frontends.imported import TensorSpec
from mlirfuse.runtime.isolated import Signature
from mlirfuse.structured import ops, slices

FUNCTION = "piece"
"""Symbol of the function of a piece."""

_DEVICE = "!hal.device"

_NUMBER = re.compile(r"mlirfuse\.match = \d+ : i64")

_CONSTANTS = frozenset({"arith.constant", "tensor.empty"})

MOST_ELEMENTS = 4096
"""Elements of a constant that still comes along; a larger one, a weight, becomes an argument."""


@dataclasses.dataclass(slots=True)
class Piece:
    """One rewrite on its own.

    Attributes:
      pass_name: the pass.
      match: number of the match.
      numerics: how far the pass changes results.
      signature: arguments are what the ops read from outside, results what others read of them.
      before: the ops as they were, as MLIR text.
      after: what the rewrite made of them; empty when it reads something else than the ops did.
      key: what is equal for pieces that differ in source locations and number alone.
    """

    pass_name: str
    match: int
    numerics: Numerics
    signature: Signature
    before: str
    after: str = ""
    key: tuple[str, str] = ("", "")


class Recorder:
    """An observer of the engine that writes down rewrites.

    Attributes:
      pieces: what was written, in the order of application.
      refused: pass and match -> why a rewrite has no stand-alone form.
    """

    def __init__(self, wanted: Callable[[FusionPass, int], bool]) -> None:
        """Records the rewrites for which `wanted(fusion, match)` holds."""
        self._wanted = wanted
        self.pieces: list[Piece] = []
        self.refused: dict[tuple[str, int], str] = {}

    def __call__(self, fusion: FusionPass, match: Match, number: int) -> Callable[[], None]:
        """Writes down the match, and returns what writes down its rewrite."""
        if not self._wanted(fusion, number):
            return lambda: None
        taken = slices.in_order(dict.fromkeys((*match.ops, match.root)))
        inside = set(taken)
        results = slices.results_of(taken)
        arguments = _arguments(taken)
        if not results or any(_is_dynamic(v) for v in (*arguments, *results)):
            why = "its sizes are dynamic" if results else "nothing reads it"
            self.refused[fusion.name, number] = why
            return lambda: None
        readers = [
            next(
                (use.owner.operation, use.operand_number)
                for use in value.uses
                if _outer(use.owner.operation, taken[0].block) not in inside
            )
            for value in results
        ]
        before, key = _text(taken[0], arguments, results)
        specs = tuple(map(_spec, arguments)), tuple(map(_spec, results))
        signature = Signature(FUNCTION, *specs)
        piece = Piece(fusion.name, number, fusion.numerics, signature, before)
        self.pieces.append(piece)
        types = [v.type for v in results]

        def done() -> None:
            made = [reader.operands[position] for reader, position in readers]
            place = readers[0][0]
            if [v.type for v in made] == types:
                piece.after, made_of = _text(place, arguments, made)
                piece.key = (key, made_of)

        return done


def _arguments(group: Sequence[ir.Operation]) -> list[ir.Value]:
    """What the ops read from outside: constants and cheap ops come along."""
    return [v for v in slices.operands_of(list(group)) if not _comes_along(v)]


def _comes_along(value: ir.Value) -> bool:
    op = ops.defining_op(value)
    if op is None or (ops.num_elements(value) > MOST_ELEMENTS and ops.constant(value) is None):
        return False
    return op.name in _CONSTANTS or slices.is_cheap(op)


def _is_dynamic(value: ir.Value) -> bool:
    return ops.ranked(value) is None or None in ops.shape(value)


def _spec(value: ir.Value) -> TensorSpec:
    return TensorSpec(ops.shape(value), ops.element_type(value))


def _outer(op: ir.Operation, block: ir.Block) -> ir.Operation | None:
    return ops.ancestor_in(block, op)


def _text(
    anchor: ir.Operation, arguments: Sequence[ir.Value], results: Sequence[ir.Value]
) -> tuple[str, str]:
    """A module that computes the results from the arguments; empty when it needs more than these.

    The second text is without source locations and match numbers.

    Args:
      anchor: an op of the module, whose device the new module is for.
      arguments: values that are arguments.
      results: values that are returned.
    """
    source = _module(anchor)
    with anchor.context, ir.Location.unknown():
        made = ir.Module.parse(_skeleton(list(map(_type, arguments)), list(map(_type, results))))
        for name in source.attributes:
            made.operation.attributes[name] = source.attributes[name]
        start = ir.InsertionPoint.at_block_begin(made.body)
        for op in source.regions[0].blocks[0].operations:
            kind = op.operation.attributes["type"] if op.operation.name == "util.global" else None
            if str(kind) == _DEVICE:
                op.operation.clone(start)
        function = next(f for f in ops.functions(made))
        block = function.regions[0].blocks[0]
        inner = [o.operation for o in block.operations]
        imports = [o.results[0] for o in inner if o.name == "hal.tensor.import"]
        holders = [o for o in inner if o.name == "tensor.empty"]
        copies = dict(zip(arguments, imports, strict=True))
        place = ir.InsertionPoint(holders[0])
        for holder, value in zip(holders, results, strict=True):
            copy = _copied(value, copies, place)
            if copy is None:
                return "", ""
            holder.results[0].replace_all_uses_with(copy)
        for holder in holders:
            holder.erase()
        made.operation.verify()
        bare = str(made.operation.get_asm(enable_debug_info=False))
        return made.operation.get_asm(enable_debug_info=True), _NUMBER.sub("", bare)


def _copied(
    value: ir.Value, copies: dict[ir.Value, ir.Value], place: ir.InsertionPoint
) -> ir.Value | None:
    """The value in the new function, with all that it is computed from."""
    if value in copies:
        return copies[value]
    op = ops.defining_op(value)
    if op is None or not (ops.is_pure(op) or op.name.startswith("iree_tensor_ext.")):
        return None
    for operand in ops.external_operands(op):
        if _copied(operand, copies, place) is None:
            return None
    new = op.clone(place).operation
    for user in (new, *ops.nested_ops(new)):
        for number, operand in enumerate(user.operands):
            if operand in copies:
                user.operands[number] = copies[operand]
    copies.update(zip(op.results, new.results, strict=True))
    return copies[value]


def _module(op: ir.Operation) -> ir.Operation:
    current = op
    while current.name != "builtin.module":
        current = current.parent.operation
    return current


def _type(value: ir.Value) -> str:
    return str(value.type)


def _skeleton(arguments: Sequence[str], results: Sequence[str]) -> str:
    def named(prefix: str, types: Iterable[str]) -> str:
        return ", ".join(f"%{prefix}{i}: {t}" for i, t in enumerate(types))

    views = "!hal.buffer_view"
    declared = f"sync func @{FUNCTION}({named('input', arguments)}) -> ({named('output', results)})"
    imports = "".join(
        f'  %i{n} = hal.tensor.import %a{n} "input{n}" : {views} -> {t}\n'
        for n, t in enumerate(arguments)
    )
    empty = "".join(f"  %e{n} = tensor.empty() : {t}\n" for n, t in enumerate(results))
    exports = "".join(
        f'  %o{n} = hal.tensor.export %e{n} "output{n}" : {t} -> {views}\n'
        for n, t in enumerate(results)
    )
    returned = ", ".join(f"%o{n}" for n in range(len(results)))
    parameters = ", ".join(f"%a{n}: {views}" for n in range(len(arguments)))
    kinds = ", ".join([views] * len(results))
    return (
        f"util.func public @{FUNCTION}({parameters}) -> ({kinds}) attributes {{iree.abi.stub,"
        f' iree.reflection = {{iree.abi.declaration = "{declared}"}}}} {{\n'
        f"{imports}{empty}{exports}  util.return {returned} : {kinds}\n}}\n"
    )
