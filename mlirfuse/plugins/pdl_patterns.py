"""Patterns of MLIR's `pdl` dialect, read into plain data and matched against single ops.

IREE's own interpreter of PDL matches and rewrites a whole module in one step. Here a match is
found first and made later, so that switches, limits and reasons hold for patterns too. Types and
attributes are kept and compared as text: a pattern outlives the context that it was read in.
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from iree.compiler import ir

from mlirfuse.core import UsageError
from mlirfuse.structured.ir import ops

Bound: TypeAlias = (
    ir.Operation | ir.Value | tuple[ir.Value, ...] | ir.Type | tuple[ir.Type, ...] | ir.Attribute
)


@dataclasses.dataclass(frozen=True, slots=True)
class Handle:
    """One op of the pattern, or of its rewrite, and the handle that it defines.

    Attributes:
      kind: the op's name without `pdl.`.
      operands: indices of the handles that it takes, by segment.
      name: of `operation` the op's name; of `rewrite` the native function.
      names: of `operation` the names of its attributes, in the order of its second segment.
      constant: of `type`, `types` and `attribute` the text; of `types` one text each.
      index: of `result` and `results` the index of the result.
    """

    kind: str
    operands: tuple[tuple[int, ...], ...] = ()
    name: str | None = None
    names: tuple[str, ...] = ()
    constant: tuple[str, ...] | None = None
    index: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Pattern:
    """A `pdl.pattern`.

    Attributes:
      name: its symbol.
      summary: its attribute `mlirfuse.summary`.
      numerics: its attribute `mlirfuse.numerics`.
      handles: the handles that it matches, then those that its rewrite makes.
      root: index of the op that its rewrite replaces.
      group: indices of the ops that become one group; empty for a rewrite.
      body: indices of the handles that its rewrite makes, in order.
    """

    name: str
    summary: str
    numerics: str
    handles: tuple[Handle, ...]
    root: int
    group: tuple[int, ...]
    body: tuple[int, ...]

    @property
    def root_name(self) -> str:
        """Name of the op that the pattern starts at."""
        return self.handles[self.root].name or ""


GROUP = "mlirfuse.group"
"""Native rewrite that puts ops into one group."""

_MATCHED = frozenset(
    {"attribute", "operand", "operands", "operation", "result", "results", "type", "types"}
)
_BUILT = frozenset({"attribute", "erase", "operation", "replace", "result", "results", "type"})


def read(text: str | bytes, source: str) -> list[Pattern]:
    """The patterns of a file.

    Args:
      text: MLIR text or bytecode: a module of `pdl.pattern` ops.
      source: the file's name, for messages.

    Raises:
      UsageError: it is not MLIR, holds no pattern, or uses an op that is not supported.
    """
    with ir.Context():
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            found = error.error_diagnostics[0] if error.error_diagnostics else None
            message = found.message.splitlines()[0] if found else "not valid MLIR"
            raise UsageError(f"{source}: {message}") from error
        patterns = []
        for view in module.body.operations:
            if view.operation.name != "pdl.pattern":
                raise UsageError(
                    f"{source}: holds a {view.operation.name}; pdl.pattern would be accepted"
                )
            patterns.append(_Reader(view.operation, source).pattern())
    if not patterns:
        raise UsageError(f"{source}: holds no pdl.pattern")
    return patterns


class _Reader:
    """One `pdl.pattern` on its way into a `Pattern`."""

    def __init__(self, op: ir.Operation, source: str) -> None:
        self.op = op
        self.symbol = self.text("sym_name")
        self.where = f"{source}: pattern '{self.symbol}'"
        self.indices: dict[ir.Value, int] = {}
        self.handles: list[Handle] = []

    def text(self, name: str) -> str:
        return str(self.op.attributes[name].value) if name in self.op.attributes else ""

    def pattern(self) -> Pattern:
        if not self.symbol:
            raise UsageError(f"{self.where}: has no name; write pdl.pattern @my_rewrite")
        *matched, rewrite = (view.operation for view in ops.body(self.op).operations)
        for op in matched:
            self.add(op, _MATCHED)
        first, external = self.segments(rewrite)
        if len(first) != 1:
            raise UsageError(f"{self.where}: write the root, pdl.rewrite %root")
        group: tuple[int, ...] = ()
        body: list[int] = []
        if "name" in rewrite.attributes:
            name = rewrite.attributes["name"].value
            if name != GROUP:
                raise UsageError(
                    f'{self.where}: unknown native rewrite "{name}" (known: "{GROUP}")'
                )
            group = external
        else:
            for view in ops.body(rewrite).operations:
                body.append(len(self.handles))
                self.add(view.operation, _BUILT)
        found = Pattern(
            name=self.symbol,
            summary=self.text("mlirfuse.summary"),
            numerics=self.text("mlirfuse.numerics"),
            handles=tuple(self.handles),
            root=first[0],
            group=group,
            body=tuple(body),
        )
        self.check(found)
        return found

    def check(self, pattern: Pattern) -> None:
        if not pattern.root_name:
            raise UsageError(f"{self.where}: its root has no op name")
        reached = _reached(pattern, pattern.root)
        members = range(len(pattern.handles) - len(pattern.body))
        for index in members:
            if pattern.handles[index].kind == "operation" and index not in reached:
                raise UsageError(
                    f"{self.where}: its {pattern.handles[index].name} computes no operand of the"
                    " root; every op has to be reached from the root"
                )
        replaced = [
            h.operands[0][0]
            for h in (pattern.handles[n] for n in pattern.body)
            if h.kind == "replace"
        ]
        if not pattern.group and replaced != [pattern.root]:
            raise UsageError(f"{self.where}: its rewrite has to replace the root, and nothing else")
        if pattern.group and pattern.root not in pattern.group:
            raise UsageError(f"{self.where}: the group has to hold the root")

    def add(self, op: ir.Operation, known: frozenset[str]) -> None:
        kind = op.name.removeprefix("pdl.")
        if kind not in known:
            accepted = ", ".join(f"pdl.{name}" for name in sorted(known))
            raise UsageError(f"{self.where}: {op.name} is not supported here ({accepted} are)")
        if op.results:
            self.indices[op.results[0]] = len(self.handles)
        attributes = op.attributes
        constant: tuple[str, ...] | None = None
        if kind == "attribute" and "value" in attributes:
            constant = (str(attributes["value"]),)
        elif kind == "type" and "constantType" in attributes:
            constant = (str(attributes["constantType"].value),)
        elif kind == "types" and "constantTypes" in attributes:
            constant = tuple(str(t.value) for t in attributes["constantTypes"])
        self.handles.append(
            Handle(
                kind=kind,
                operands=self.segments(op),
                name=attributes["opName"].value if "opName" in attributes else None,
                names=tuple(a.value for a in attributes["attributeValueNames"])
                if kind == "operation"
                else (),
                constant=constant,
                index=attributes["index"].value if "index" in attributes else None,
            )
        )

    def segments(self, op: ir.Operation) -> tuple[tuple[int, ...], ...]:
        indices = [self.indices[value] for value in op.operands]
        if "operandSegmentSizes" not in op.attributes:
            return (tuple(indices),)
        found = []
        for size in op.attributes["operandSegmentSizes"]:
            found.append(tuple(indices[:size]))
            indices = indices[size:]
        return tuple(found)


def _reached(pattern: Pattern, index: int) -> set[int]:
    found: set[int] = set()
    work = [index]
    while work:
        current = work.pop()
        if current not in found:
            found.add(current)
            work.extend(n for segment in pattern.handles[current].operands for n in segment)
    return found


def match(pattern: Pattern, root: ir.Operation) -> dict[int, Bound] | None:
    """Bindings of the handles of the pattern with this root, by index; None for no match."""
    matcher = _Matcher(pattern)
    return matcher.bound if matcher.op(pattern.root, root) else None


class _Matcher:
    """One attempt to match, with the handles that are bound so far."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.bound: dict[int, Bound] = {}

    def bind(self, index: int, found: Bound) -> bool:
        """Binds a handle, or compares with its binding."""
        if index in self.bound:
            return bool(self.bound[index] == found)
        self.bound[index] = found
        return True

    def op(self, index: int, op: ir.Operation) -> bool:
        handle = self.pattern.handles[index]
        if handle.name is not None and handle.name != op.name:
            return False
        if index in self.bound:
            return bool(self.bound[index] == op)
        self.bound[index] = op
        values, attributes, types = handle.operands
        return (
            self.values(values, tuple(op.operands))
            and self.attributes(attributes, handle.names, op)
            and self.types(types, tuple(result.type for result in op.results))
        )

    def attributes(
        self, indices: tuple[int, ...], names: tuple[str, ...], op: ir.Operation
    ) -> bool:
        for index, name in zip(indices, names, strict=True):
            if name not in op.attributes:
                return False
            found = op.attributes[name]
            constant = self.pattern.handles[index].constant
            if constant is not None and constant != (str(found),):
                return False
            if not self.bind(index, found):
                return False
        return True

    def types(self, indices: tuple[int, ...], types: tuple[ir.Type, ...]) -> bool:
        handles = self.pattern.handles
        if not indices:
            return True
        if len(indices) == 1 and handles[indices[0]].kind == "types":
            return self.type(indices[0], types)
        return len(indices) == len(types) and all(map(self.type, indices, types))

    def type(self, index: int, found: ir.Type | tuple[ir.Type, ...]) -> bool:
        constant = self.pattern.handles[index].constant
        texts = tuple(map(str, found)) if isinstance(found, tuple) else (str(found),)
        return (constant is None or constant == texts) and self.bind(index, found)

    def values(self, indices: tuple[int, ...], values: tuple[ir.Value, ...]) -> bool:
        handles = self.pattern.handles
        if len(indices) == 1 and handles[indices[0]].kind in ("operands", "results"):
            return self.range(indices[0], values)
        return len(indices) == len(values) and all(map(self.value, indices, values))

    def range(self, index: int, values: tuple[ir.Value, ...]) -> bool:
        handle = self.pattern.handles[index]
        if not self.bind(index, values):
            return False
        if handle.kind == "operands":
            typed = handle.operands[0]
            return not typed or self.type(typed[0], tuple(value.type for value in values))
        values = tuple(map(ops.yielded_value, values))
        owner = ops.defining_op(values[0]) if values else None
        return (
            owner is not None
            and tuple(owner.results) == values
            and self.op(handle.operands[0][0], owner)
        )

    def value(self, index: int, value: ir.Value) -> bool:
        handle = self.pattern.handles[index]
        if not self.bind(index, value):
            return False
        if handle.kind == "operand":
            return not handle.operands[0] or self.type(handle.operands[0][0], value.type)
        value = ops.yielded_value(value)
        owner = ops.defining_op(value)
        if owner is None or handle.index is None or len(owner.results) <= handle.index:
            return False
        return bool(owner.results[handle.index] == value) and self.op(handle.operands[0][0], owner)
