"""The kernels of a compiled program, from the IR that `iree-compile` writes after its phases.

    flow.dispatch.workgroups { linalg.generic loc(...) }        dispatch-creation: ops and locations
    flow.dispatch @main_dispatch_3::@main_dispatch_3_...(%x)    flow: names, operands, order
    stream.cmd.dispatch @...::@recurrence_kernel { ro %x[...] }  stream: what waits for it
    hal.executable.export @main_dispatch_3_... count { 8, 1 }   executable-targets: workgroups

The flow phase keeps one executable of equal ones, with the locations of the first. So each dispatch
takes its ops from the phase before, where it still has its own.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from iree.compiler import ir

from mlirfuse import cost
from mlirfuse.backend import command_accesses, tensor_accesses
from mlirfuse.backend.exchanges import Exchange, between
from mlirfuse.backend.statistics import Statistics
from mlirfuse.core import MlirfuseError
from mlirfuse.detached_kernels import DetachedKernels
from mlirfuse.final_kernels import IREE, FinalKernel, Operand, Place
from mlirfuse.kernels.recurrence.family import PASS_NAME as RECURRENCE
from mlirfuse.structured.ir import kernel_roles, marks, ops, values

MAX_PRINTED_ELEMENTS = 16
"""Elements of a constant, and bytes of a resource, that the phases are written with."""

_CALL = "flow.dispatch"
_FORMED = ("flow.dispatch", "flow.dispatch.workgroups", "hal.dispatch.extern")
_COMPUTING = ("linalg.", "iree_linalg_ext.", "tensor.pad", "tensor.concat")
_MOVING = ("tensor.", "flow.tensor.", tensor_accesses.STORE)
_NOT_COMPUTING = frozenset({"linalg.fill", "linalg.yield", "linalg.index", "tensor.empty"})
_CONSTANTS = frozenset({"arith.constant", "tensor.empty"})
"""Ops that a group took along, and which are no work of a kernel."""


def flags(folder: Path) -> tuple[str, ...]:
    """The flags of `iree-compile` by which it writes the IR after each phase into a folder."""
    return (
        f"--dump-compilation-phases-to={os.fspath(folder)}",
        "--mlir-print-debuginfo",
        f"--mlir-elide-elementsattrs-if-larger={MAX_PRINTED_ELEMENTS}",
        f"--mlir-elide-resource-strings-if-larger={MAX_PRINTED_ELEMENTS}",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class FinalProgram:
    """The program as the device runs it.

    Attributes:
      kernels: the dispatches of a call, in the order of the program.
      roles: the role of each, a word of `kernel_roles`.
      exchanges: the tensors that they exchange.
      detached: those that run beside the commands after them; None for none.
      moving_axes: indices of the kernels that read and write tensors in different orders of axes.
    """

    kernels: tuple[FinalKernel, ...]
    roles: tuple[str, ...]
    exchanges: tuple[Exchange, ...]
    detached: DetachedKernels | None = None
    moving_axes: frozenset[int] = frozenset()


def read(
    folder: Path,
    counted: Statistics,
    groups: Sequence[tuple[str, int]] = (),
    *,
    given: Collection[Place] = (),
    generated: bool = True,
) -> FinalProgram:
    """The dispatches of a call of the program, and the tensors between them.

    Args:
      folder: the folder of `flags`.
      counted: the statistics of the same compilation.
      groups: pass and match of each group, in the order of the groups' marks.
      given: locations and layers of the ops that IREE was given; without them the ops that it
        merged into others are not named.
      generated: whether the compilation went on to code; without it workgroups are not known.

    Raises:
      MlirfuseError: a phase is missing, or IREE's own text is not valid MLIR.
    """
    workgroups = {}
    if generated:
        workgroups = _workgroups(_phase(folder, "executable-targets").read_text(encoding="utf-8"))
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        formed, final = (_parsed(_phase(folder, name)) for name in ("dispatch-creation", "flow"))
        reader = _Reader(formed, final, groups, workgroups, given)
        try:
            found = reader.program()
            names = {kernel.name for kernel in found.kernels if kernel.code == RECURRENCE}
            detached = None
            if generated and names:
                detached = command_accesses.detached(_parsed(_phase(folder, "stream")), names)
        finally:
            ops.clear_caches()
    return dataclasses.replace(_scheduled(found, counted.names), detached=detached)


def formed(folder: Path) -> ir.Module:
    """The module after dispatch-creation, in the present context.

    Raises:
      MlirfuseError: as `read`.
    """
    return _parsed(_phase(folder, "dispatch-creation"))


def _phase(folder: Path, name: str) -> Path:
    found = sorted(folder.glob(f"*.{name}.mlir"))
    if not found:
        raise MlirfuseError(f"iree-compile wrote no IR after the phase {name}")
    return found[0]


def _parsed(path: Path) -> ir.Module:
    try:
        return ir.Module.parseFile(os.fspath(path))
    except ir.MLIRError as error:
        line = str(error).splitlines()[0]
        raise MlirfuseError(f"cannot read the phase {path.name}: {line}") from error


def _scheduled(found: FinalProgram, names: Sequence[str]) -> FinalProgram:
    """The kernels that were scheduled, and those that only scheduling made, as fills of i64."""
    left = collections.Counter(names)
    kept: dict[int, int] = {}
    for index, kernel in enumerate(found.kernels):
        if left[kernel.name]:
            left[kernel.name] -= 1
            kept[index] = len(kept)
    made = tuple(FinalKernel(name, "", (), (), (), None, None) for name in left.elements())
    return FinalProgram(
        (*(found.kernels[index] for index in kept), *made),
        (*(found.roles[index] for index in kept), *(kernel_roles.MOVEMENT for _ in made)),
        tuple(
            dataclasses.replace(e, source=kept[e.source], target=kept[e.target])
            for e in found.exchanges
            if e.source in kept and e.target in kept
        ),
        moving_axes=frozenset(kept[index] for index in found.moving_axes if index in kept),
    )


_EXECUTABLE = re.compile(
    r"^\s*hal\.executable (?:public |private )?@(?P<name>[\w$.\"-]+)", re.MULTILINE
)
_EXPORT = re.compile(
    r"hal\.executable\.export public @(?P<name>[\w$.\"-]+) .*?\n(?P<body>.*?)"
    r"hal\.return (?P<counts>%[\w, %]+) : index",
    re.DOTALL,
)
_CONSTANT = re.compile(r"(%\w+) = arith\.constant (\d+) : index")


def _workgroups(text: str) -> dict[tuple[str, str], tuple[int, ...]]:
    """Executable and entry point -> number of workgroups by dimension, where they are constants.

    An entry point without its executable, which IREE may have linked with others, is that of "" if
    all of its name have as many.
    """
    places = [(each.start(), each["name"].strip('"')) for each in _EXECUTABLE.finditer(text)]
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    same: dict[str, set[tuple[int, ...] | None]] = {}
    for export in _EXPORT.finditer(text):
        known = {name: int(value) for name, value in _CONSTANT.findall(export["body"])}
        counts = [known.get(name.strip()) for name in export["counts"].split(",")]
        entry = export["name"].strip('"')
        sizes = None if None in counts else tuple(n for n in counts if n is not None)
        same.setdefault(entry, set()).add(sizes)
        before = bisect.bisect_left(places, (export.start(),))
        if sizes is not None and before:
            found[places[before - 1][1], entry] = sizes
    for entry, each in same.items():
        (sizes, *others) = each
        if sizes is not None and not others:
            found["", entry] = sizes
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class _Call:
    """A dispatch in a function.

    Attributes:
      op: the dispatch.
      always: whether each call of the function reaches it, once.
    """

    op: ir.Operation
    always: bool


@dataclasses.dataclass(slots=True)
class _Reader:
    """The kernels of a program.

    Attributes:
      formed: the module after dispatch-creation.
      final: the module after flow.
      groups: pass and match of each group.
      workgroups: executable and entry point -> number of workgroups; see `_workgroups`.
      given: locations and layers of the ops that IREE was given.
    """

    formed: ir.Module
    final: ir.Module
    groups: Sequence[tuple[str, int]]
    workgroups: dict[tuple[str, str], tuple[int, ...]]
    given: Collection[Place]

    def program(self) -> FinalProgram:
        """The kernels of all functions, without initializers."""
        formed = {
            ops.symbol_name(function): list(_calls(function, _FORMED))
            for function in ops.functions(self.formed)
        }
        bodies = self._bodies()
        found: list[FinalKernel] = []
        roles: list[str] = []
        moving: set[int] = set()
        indices: dict[ir.Operation, int] = {}
        exchanges: list[Exchange] = []
        for function in ops.functions(self.final):
            symbol = ops.symbol_name(function)
            calls = list(_calls(function, (_CALL,)))
            before: list[_Call | None] = list(formed.get(symbol, ()))
            if [_types(c) for c in before] != [_types(c) for c in calls]:
                before = [None] * len(calls)
            for call, origin in zip(calls, before, strict=True):
                source = origin.op if origin is not None else bodies.get(_executable(call.op))
                indices[call.op] = len(found)
                if source is not None and any(map(kernel_roles.moves_axes, _members(source))):
                    moving.add(len(found))
                found.append(self._kernel(symbol, call, source))
                roles.append(_role(call.op if source is None else source))
            exchanges += between(function, indices)
        return FinalProgram(
            tuple(found), tuple(roles), tuple(exchanges), moving_axes=frozenset(moving)
        )

    def _bodies(self) -> dict[str, ir.Operation]:
        """Name of an executable -> the executable, with the ops of its first dispatch."""
        return {
            ops.symbol_name(view.operation): view.operation
            for view in self.final.body.operations
            if view.operation.name == "flow.executable"
        }

    def _kernel(self, symbol: str, call: _Call, source: ir.Operation | None) -> FinalKernel:
        op = call.op
        name = _entry(op)
        members = [] if source is None else _members(source)
        places = [place for member in members for place in _sources(member, self.given)]
        attributes = op.attributes if source is None else source.attributes
        named = marks.KERNEL_ATTRIBUTE in attributes
        code = attributes[marks.KERNEL_ATTRIBUTE].value if named else IREE
        if code != IREE or not places:
            places = [p for p in marks.sources(op.name, op.location) if p.name != _CALL] or places
        places = [p for p in places if p.name not in _CONSTANTS] or places
        group = self._group([op, *members])
        tensors = [(v, False) for v in op.operands if ops.ranked(v) is not None]
        operands = tuple(_operand(v, r) for v, r in [*tensors, *((v, True) for v in op.results)])
        if marks.UNREAD_ATTRIBUTE in attributes:
            unread = attributes[marks.UNREAD_ATTRIBUTE].value
        else:
            unread = cost.unread_bytes(members)
        if marks.OPERATIONS_ATTRIBUTE in attributes:
            flops: int | None = attributes[marks.OPERATIONS_ATTRIBUTE].value
        else:
            flops = None if code != IREE else cost.operations(members)
        return FinalKernel(
            name=name,
            function=symbol,
            ops=tuple(place.place for place in places),
            op_names=tuple(place.name for place in places),
            operands=operands,
            bytes=_moved_bytes(operands, source, unread),
            flops=flops,
            code=code,
            pass_name=None if group is None else group[0],
            match=None if group is None else group[1],
            workgroups=self._workgroups(op),
            calls=1 if call.always else None,
            layers=tuple(place.layer for place in places),
            executable=_executable(op),
        )

    def _workgroups(self, call: ir.Operation) -> tuple[int, ...] | None:
        """The number of workgroups of a dispatch; None where it is not known."""
        entry = _entry(call)
        return self.workgroups.get((_executable(call), entry), self.workgroups.get(("", entry)))

    def _group(self, members: Sequence[ir.Operation]) -> tuple[str, int] | None:
        """Pass and match of the group that the ops are marked with."""
        for op in members:
            index = marks.group_index(op.location)
            if index is not None and index < len(self.groups):
                return self.groups[index]
        return None


def _moved_bytes(
    operands: Sequence[Operand], source: ir.Operation | None, unread: int
) -> int | None:
    """Bytes that a kernel moves at least; None where an operand has a dynamic size.

    Args:
      operands: its tensors.
      source: the dispatch with its ops, whose loads and stores may be of parts of the operands.
      unread: bytes of the operands that gathers leave unread.
    """
    total = 0
    for operand in operands:
        if operand.bytes is None:
            return None
        total += operand.bytes
    accessed = None if source is None else tensor_accesses.access_bytes(source)
    return (total if accessed is None else min(total, accessed)) - unread


def _name(member: ir.Operation) -> str:
    """The name of an op, or of the op of the model that a store comes from."""
    is_store = member.name == tensor_accesses.STORE
    return tensor_accesses.copy_name(member) if is_store else member.name


def _sources(member: ir.Operation, given: Collection[Place]) -> Iterator[marks.Source]:
    """The ops of the model that an op in a dispatch stands for.

    IREE merges elementwise ops into their user, which keeps its own location; the arithmetic in its
    body keeps those of the merged ops, and some has locations that no op has.
    """
    own = marks.sources(_name(member), member.location)
    known = {(source.place, source.layer) for source in own}
    for scalar in ops.nested_ops(member) if given and ops.is_generic(member) else ():
        for merged in marks.sources(member.name, scalar.location):
            place = (merged.place, merged.layer)
            if place in given and place not in known:
                known.add(place)
                yield merged
    yield from own


def _role(source: ir.Operation) -> str:
    if marks.ROLE_ATTRIBUTE in source.attributes:
        return str(source.attributes[marks.ROLE_ATTRIBUTE].value)
    return kernel_roles.role_of(_members(source))


def _entry(call: ir.Operation) -> str:
    return _symbols(call)[-1]


def _executable(call: ir.Operation) -> str:
    return _symbols(call)[0]


def _symbols(call: ir.Operation) -> list[str]:
    """Names of the executable and of the entry point."""
    return list(ir.SymbolRefAttr(call.attributes["entry_points"][0]).value)


def _types(call: _Call | None) -> list[str]:
    return [] if call is None else [str(result.type) for result in call.op.results]


def _operand(value: ir.Value, is_result: bool) -> Operand:
    shape = ops.shape(value)
    size = None if None in shape else ops.num_bytes(value)
    return Operand(shape, ops.element_type(value), size, is_result)


def _calls(function: ir.Operation, names: tuple[str, ...]) -> Iterator[_Call]:
    """The dispatches of a function in order, those in loops and branches too."""
    public = "sym_visibility" not in function.attributes or (
        ir.StringAttr(function.attributes["sym_visibility"]).value == "public"
    )
    blocks = function.regions[0].blocks
    for index, block in enumerate(blocks):
        yield from _in_block(block, names, always=public and index == 0)


def _in_block(block: ir.Block, names: tuple[str, ...], *, always: bool) -> Iterator[_Call]:
    for view in block.operations:
        op = view.operation
        if op.name in names:
            yield _Call(op, always)
            continue
        for region in op.regions:
            for inner in region.blocks:
                yield from _in_block(inner, names, always=False)


def _members(source: ir.Operation) -> list[ir.Operation]:
    """The ops in a dispatch that compute, else those that move data.

    Ops that IREE's fusion left behind, without a user, are none.
    """
    inside = [
        op
        for op in ops.nested_ops(source)
        if op.name not in _NOT_COMPUTING
        and (not op.results or any(map(values.is_read, op.results)))
    ]
    outer = [op for op in inside if not _is_scalar(op)]
    return [op for op in outer if op.name.startswith(_COMPUTING)] or [
        op for op in outer if op.name.startswith(_MOVING)
    ]


def _is_scalar(op: ir.Operation) -> bool:
    """Whether the op is in the body of a structured op."""
    parent = op.parent
    return parent is not None and parent.operation.name.startswith(_COMPUTING)
