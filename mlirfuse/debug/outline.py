"""Outlines rewrites: a program with the ops of one match, and one with their rewrite.

    %s = linalg.generic {addf} ins(%e)
    %y = linalg.generic {divf} ins(%e, %s)             // a match
  becomes
    util.func public @outlined(%a: !hal.buffer_view) -> !hal.buffer_view {
      %e = hal.tensor.import %a
      ... the ops of the match, or their rewrite ...
      %r = hal.tensor.export %y
    }

Both programs take the operands that either form uses from outside, in the same order, so that they
can be called with the same values. The text is at IREE's global-optimization level, like the
engine's input. Dynamic sizes are constants hidden from the compiler, which then generates the same
code as for the model; without given sizes, matches of dynamic shapes cannot be outlined.
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

FUNCTION = "outlined"
"""Symbol of the function of an outlined rewrite."""

_DEVICE = "!hal.device"

_BARRIER = "util.optimization_barrier"

_MATCH_INDEX = re.compile(r"mlirfuse\.match = \d+ : i64")

_CONSTANTS = frozenset({"arith.constant", "tensor.empty"})

MAX_CONSTANT_ELEMENTS = 4096
"""Maximum size of a constant that is copied, in elements; a larger one becomes an argument."""


@dataclasses.dataclass(slots=True)
class OutlinedRewrite:
    """One rewrite as two programs.

    Attributes:
      pass_name: name of the pass.
      match: ordinal of the match.
      numerics: the pass's class of numerics.
      signature: the function; its arguments are operands from outside the match, its results the
        values with users outside.
      before: MLIR text of the ops of the match.
      after: MLIR text of the rewritten ops; empty when they use other operands than the match.
      key: both texts without source locations and ordinals, equal for equal rewrites.
    """

    pass_name: str
    match: int
    numerics: Numerics
    signature: Signature
    before: str
    after: str = ""
    key: tuple[str, str] = ("", "")


class Outliner:
    """An observer of the engine that outlines rewrites.

    Attributes:
      outlined: the rewrites, in the order of application.
      refused: pass and match -> the reason why a rewrite cannot be outlined.
    """

    def __init__(
        self, wanted: Callable[[FusionPass, int], bool], sizes: Sizes | None = None
    ) -> None:
        """Outlines nothing yet.

        Args:
          wanted: predicate of a pass and the ordinal of its match; selects the rewrites.
          sizes: values of dynamic sizes; without them rewrites of dynamic shapes are refused.
        """
        self._wanted = wanted
        self._sizes = sizes
        self.outlined: list[OutlinedRewrite] = []
        self.refused: dict[tuple[str, int], str] = {}

    def __call__(self, fusion: FusionPass, match: Match, ordinal: int) -> Callable[[], None]:
        """Outlines the match; the returned function outlines its rewrite."""
        if not self._wanted(fusion, ordinal):
            return lambda: None
        taken = slices.in_order(dict.fromkeys((*match.ops, match.root)))
        inside = set(taken)
        results = slices.results_of(taken)
        arguments = _arguments(taken)
        shapes = {v: self._shape(v) for v in (*arguments, *results)}
        if not results or None in shapes.values():
            dynamic = "its sizes come from data" if self._sizes else "its sizes are dynamic"
            self.refused[fusion.name, ordinal] = dynamic if results else "it has no users"
            return lambda: None
        users = [
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
        outlined = OutlinedRewrite(fusion.name, ordinal, fusion.numerics, signature, before)
        self.outlined.append(outlined)
        types = [v.type for v in results]

        def done() -> None:
            rewritten = [user.operands[index] for user, index in users]
            anchor = users[0][0]
            if [v.type for v in rewritten] == types:
                outlined.after, key_after = _text(anchor, arguments, rewritten, self._sizes)
                outlined.key = (key, key_after)

        return done

    def _shape(self, value: ir.Value) -> tuple[int, ...] | None:
        if self._sizes is not None:
            return self._sizes.shape(value)
        if ops.ranked(value) is None:
            return None
        known = [n for n in ops.shape(value) if n is not None]
        return tuple(known) if len(known) == len(ops.shape(value)) else None


def _arguments(group: Sequence[ir.Operation]) -> list[ir.Value]:
    """Operands from outside, without constants and cheap ops, which are copied."""
    return [v for v in slices.operands_of(list(group)) if not _is_copied(v)]


def _is_copied(value: ir.Value) -> bool:
    op = ops.defining_op(value)
    if op is None or (
        ops.num_elements(value) > MAX_CONSTANT_ELEMENTS and ops.constant(value) is None
    ):
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
    """A module that computes the results from the arguments; empty when it needs other values.

    The second text has no source locations and no ordinals of matches.

    Args:
      anchor: an op of the source module, whose devices are copied.
      arguments: values that become arguments.
      results: values that are returned.
      sizes: values of dynamic sizes.
    """
    source = ops.module_of(anchor)
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
        hidden = _HiddenSizes(block, sizes)
        insertion_point = ir.InsertionPoint(holders[0])
        for holder, value in zip(holders, results, strict=True):
            copy = _copied(value, copies, insertion_point, hidden)
            if copy is None:
                return "", ""
            holder.results[0].replace_all_uses_with(copy)
        for holder in holders:
            holder.erase()
        made.operation.verify()
        bare = str(made.operation.get_asm(enable_debug_info=False))
        return made.operation.get_asm(enable_debug_info=True), _MATCH_INDEX.sub("", bare)


def _copied(
    value: ir.Value,
    copies: dict[ir.Value, ir.Value],
    insertion_point: ir.InsertionPoint,
    hidden: _HiddenSizes,
) -> ir.Value | None:
    """The value in the new function, with its backward slice; None where that is not possible."""
    if value not in copies and (size := hidden.find(value)) is not None:
        copies[value] = size
    if value in copies:
        return copies[value]
    op = ops.defining_op(value)
    if op is None or not (ops.is_pure(op) or op.name.startswith("iree_tensor_ext.")):
        return None
    for operand in ops.external_operands(op):
        if _copied(operand, copies, insertion_point, hidden) is None:
            return None
    new = op.clone(insertion_point).operation
    for user in (new, *ops.nested_ops(new)):
        for index, operand in enumerate(user.operands):
            if operand in copies:
                user.operands[index] = copies[operand]
    copies.update(zip(op.results, new.results, strict=True))
    return copies[value]


class _HiddenSizes:
    """Sizes in a new function: constants behind an optimization barrier."""

    def __init__(self, block: ir.Block, sizes: Sizes | None) -> None:
        self._block = block
        self._sizes = sizes
        self._made = {
            ops.constant(o.operation.operands[0]): o.operation.results[0]
            for o in block.operations
            if o.operation.name == _BARRIER
        }

    def find(self, value: ir.Value) -> ir.Value | None:
        """The new value of an index that is a size of the old function; None for other values."""
        if self._sizes is None or not isinstance(value.type, ir.IndexType):
            return None
        size = None if ops.constant(value) is not None else self._sizes.index(value)
        if size is not None and size not in self._made:
            with ir.InsertionPoint.at_block_begin(self._block):
                kind = ir.IndexType.get()
                bare = ir.Operation.create(
                    "arith.constant",
                    results=[kind],
                    attributes={"value": ir.IntegerAttr.get(kind, size)},
                )
                barrier = ir.Operation.create(_BARRIER, results=[kind], operands=bare.results)
            self._made[size] = barrier.results[0]
        return None if size is None else self._made[size]


Typed = tuple[str, tuple[int, ...]]
"""Type of a tensor, and the values of its dynamic sizes."""


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
