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
input. A dynamic size is a number that is hidden from the compiler, which is to make the same code
as for the model; without sizes to choose, what is dynamic has no such form.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence

from iree.compiler import ir

from mlirfuse.core import FusionPass, Match, Numerics
from mlirfuse.runtime.isolated import Signature
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.ir.sizes import Sizes
from mlirfuse.support.signature import TensorSpec

FUNCTION = "piece"
"""Symbol of the function of a piece."""

_DEVICE = "!hal.device"

_BARRIER = "util.optimization_barrier"

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

    def __init__(
        self, wanted: Callable[[FusionPass, int], bool], sizes: Sizes | None = None
    ) -> None:
        """Records the rewrites for which `wanted(fusion, match)` holds.

        Args:
          wanted: says so.
          sizes: what dynamic sizes are; without them no rewrite of dynamic sizes is recorded.
        """
        self._wanted = wanted
        self._sizes = sizes
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
        shapes = {v: self._shape(v) for v in (*arguments, *results)}
        if not results or None in shapes.values():
            dynamic = "its sizes come from data" if self._sizes else "its sizes are dynamic"
            self.refused[fusion.name, number] = dynamic if results else "nothing reads it"
            return lambda: None
        readers = [
            next(
                (use.owner.operation, use.operand_number)
                for use in value.uses
                if _outer(use.owner.operation, taken[0].block) not in inside
            )
            for value in results
        ]
        before, key = _text(taken[0], arguments, results, self._sizes)
        inputs, outputs = (
            tuple(TensorSpec(shapes[v] or (), ops.element_type(v)) for v in values)
            for values in (arguments, results)
        )
        signature = Signature(FUNCTION, inputs, outputs)
        piece = Piece(fusion.name, number, fusion.numerics, signature, before)
        self.pieces.append(piece)
        types = [v.type for v in results]

        def done() -> None:
            made = [reader.operands[position] for reader, position in readers]
            place = readers[0][0]
            if [v.type for v in made] == types:
                piece.after, made_of = _text(place, arguments, made, self._sizes)
                piece.key = (key, made_of)

        return done

    def _shape(self, value: ir.Value) -> tuple[int, ...] | None:
        if self._sizes is not None:
            return self._sizes.shape(value)
        if ops.ranked(value) is None:
            return None
        known = [n for n in ops.shape(value) if n is not None]
        return tuple(known) if len(known) == len(ops.shape(value)) else None


def _arguments(group: Sequence[ir.Operation]) -> list[ir.Value]:
    """What the ops read from outside: constants and cheap ops come along."""
    return [v for v in slices.operands_of(list(group)) if not _comes_along(v)]


def _comes_along(value: ir.Value) -> bool:
    op = ops.defining_op(value)
    if op is None or (ops.num_elements(value) > MOST_ELEMENTS and ops.constant(value) is None):
        return False
    return op.name in _CONSTANTS or slices.is_clonable(op)


def _outer(op: ir.Operation, block: ir.Block) -> ir.Operation | None:
    return ops.ancestor_in(block, op)


def _text(
    anchor: ir.Operation,
    arguments: Sequence[ir.Value],
    results: Sequence[ir.Value],
    sizes: Sizes | None,
) -> tuple[str, str]:
    """A module that computes the results from the arguments; empty when it needs more than these.

    The second text is without source locations and match numbers.

    Args:
      anchor: an op of the module, whose device the new module is for.
      arguments: values that are arguments.
      results: values that are returned.
      sizes: what dynamic sizes are.
    """
    source = _module(anchor)
    with anchor.context, ir.Location.unknown():
        made = ir.Module.parse(_skeleton(*(_typed(v, sizes) for v in (arguments, results))))
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
        hidden = _Hidden(block, sizes)
        place = ir.InsertionPoint(holders[0])
        for holder, value in zip(holders, results, strict=True):
            copy = _copied(value, copies, place, hidden)
            if copy is None:
                return "", ""
            holder.results[0].replace_all_uses_with(copy)
        for holder in holders:
            holder.erase()
        made.operation.verify()
        bare = str(made.operation.get_asm(enable_debug_info=False))
        return made.operation.get_asm(enable_debug_info=True), _NUMBER.sub("", bare)


def _copied(
    value: ir.Value,
    copies: dict[ir.Value, ir.Value],
    place: ir.InsertionPoint,
    hidden: _Hidden,
) -> ir.Value | None:
    """The value in the new function, with all that it is computed from."""
    if value not in copies and (number := hidden.find(value)) is not None:
        copies[value] = number
    if value in copies:
        return copies[value]
    op = ops.defining_op(value)
    if op is None or not (ops.is_pure(op) or op.name.startswith("iree_tensor_ext.")):
        return None
    for operand in ops.external_operands(op):
        if _copied(operand, copies, place, hidden) is None:
            return None
    new = op.clone(place).operation
    for user in (new, *ops.nested_ops(new)):
        for number, operand in enumerate(user.operands):
            if operand in copies:
                user.operands[number] = copies[operand]
    copies.update(zip(op.results, new.results, strict=True))
    return copies[value]


class _Hidden:
    """Sizes in a new function: constants behind a barrier through which IREE does not look."""

    def __init__(self, block: ir.Block, sizes: Sizes | None) -> None:
        self._block = block
        self._sizes = sizes
        self._made = {
            ops.constant(o.operation.operands[0]): o.operation.results[0]
            for o in block.operations
            if o.operation.name == _BARRIER
        }

    def find(self, value: ir.Value) -> ir.Value | None:
        """The size that an index of the old function is; None for other values."""
        if self._sizes is None or not isinstance(value.type, ir.IndexType):
            return None
        number = None if ops.constant(value) is not None else self._sizes.index(value)
        if number is not None and number not in self._made:
            with ir.InsertionPoint.at_block_begin(self._block):
                kind = ir.IndexType.get()
                bare = ir.Operation.create(
                    "arith.constant",
                    results=[kind],
                    attributes={"value": ir.IntegerAttr.get(kind, number)},
                )
                barrier = ir.Operation.create(_BARRIER, results=[kind], operands=bare.results)
            self._made[number] = barrier.results[0]
        return None if number is None else self._made[number]


def _module(op: ir.Operation) -> ir.Operation:
    current = op
    while current.name != "builtin.module":
        current = current.parent.operation
    return current


Typed = tuple[str, tuple[int, ...]]
"""Type of a tensor, and what its dynamic sizes are."""


def _typed(values: Sequence[ir.Value], sizes: Sizes | None) -> list[Typed]:
    shapes = [sizes.shape(v) or () if sizes is not None else () for v in values]
    return [
        (
            str(v.type),
            tuple(n for n, size in zip(shape, ops.shape(v), strict=False) if size is None),
        )
        for v, shape in zip(values, shapes, strict=True)
    ]


def _skeleton(arguments: Sequence[Typed], results: Sequence[Typed]) -> str:
    def named(prefix: str, types: Iterable[str]) -> str:
        return ", ".join(f"%{prefix}{i}: {t}" for i, t in enumerate(types))

    def listed(sizes: Sequence[int]) -> str:
        return ", ".join(f"%s{n}" for n in sizes)

    def braced(sizes: Sequence[int]) -> str:
        return f"{{{listed(sizes)}}}" if sizes else ""

    views = "!hal.buffer_view"
    inputs, outputs = ([t for t, _ in typed] for typed in (arguments, results))
    declared = f"sync func @{FUNCTION}({named('input', inputs)}) -> ({named('output', outputs)})"
    hidden = "".join(
        f"  %n{n} = arith.constant {n} : index\n  %s{n} = {_BARRIER} %n{n} : index\n"
        for n in sorted({n for _, sizes in (*arguments, *results) for n in sizes})
    )
    imports = "".join(
        f'  %i{n} = hal.tensor.import %a{n} "input{n}" : {views} -> {t}{braced(sizes)}\n'
        for n, (t, sizes) in enumerate(arguments)
    )
    empty = "".join(
        f"  %e{n} = tensor.empty({listed(sizes)}) : {t}\n" for n, (t, sizes) in enumerate(results)
    )
    exports = "".join(
        f'  %o{n} = hal.tensor.export %e{n} "output{n}" : {t}{braced(sizes)} -> {views}\n'
        for n, (t, sizes) in enumerate(results)
    )
    returned = ", ".join(f"%o{n}" for n in range(len(results)))
    parameters = ", ".join(f"%a{n}: {views}" for n in range(len(arguments)))
    kinds = ", ".join([views] * len(results))
    return (
        f"util.func public @{FUNCTION}({parameters}) -> ({kinds}) attributes {{iree.abi.stub,"
        f' iree.reflection = {{iree.abi.declaration = "{declared}"}}}} {{\n'
        f"{hidden}{imports}{empty}{exports}  util.return {returned} : {kinds}\n}}\n"
    )
