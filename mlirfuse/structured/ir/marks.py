"""Marks on ops: `mlirfuse.id`, and the marked blocks of the model's source around an op."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from iree.compiler import ir

from mlirfuse.marks import FUSE, LAYER, PREFIX
from mlirfuse.structured.ir import analysis_cache, ops

GROUP_FILE = "mlirfuse.group"
"""File name of a position that names the group of an op in diagnostics and in the final program:
its line is the index of the group. It distinguishes ops of one line of the model, such as all layer
norms of a loop."""

ID_ATTRIBUTE = "mlirfuse.id"

UNROLLED_ATTRIBUTE = "mlirfuse.unrolled"
"""Marks a loop whose iterations do the work of several."""

PASS_ATTRIBUTE = "mlirfuse.pass"
"""On a group: the pass that formed it."""

MATCH_ATTRIBUTE = "mlirfuse.match"
"""On a group: the ordinal of its match."""

KERNEL_CALLS = ("flow.dispatch", "hal.dispatch.extern")
"""The ops that call a kernel which IREE does not generate."""

KERNEL_ATTRIBUTE = "mlirfuse.kernel"
"""On the call of a kernel that IREE does not generate: the pass that put it there."""

OPERATIONS_ATTRIBUTE = "mlirfuse.operations"
"""On such a call: operations of the ops that it replaces; absent where a size is dynamic."""

UNREAD_ATTRIBUTE = "mlirfuse.unread"
"""On such a call: bytes of its operands that gathers leave unread; absent where there are none."""

ROLE_ATTRIBUTE = "mlirfuse.role"
"""On such a call: the role of the kernel, a word of `kernel_roles`."""

MASKED_ATTRIBUTE = "mlirfuse.masked"
"""On an elementwise op behind an attention, true: its first operand says for each row of scores
that the mask hides all of them; false: it says that the mask leaves one. A kernel knows that from
the largest score of the row."""

_OP = re.compile(rf"{re.escape(ops.OP_NAME_PREFIX)}(\d+):(.+)")

_MARK = re.compile(rf"{re.escape(PREFIX)}({'|'.join(FUSE)}):([A-Za-z_][\w.-]*)(?:#(\d+))?")


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A `with mlirfuse.region(name, fuse):` block that an op comes from.

    Attributes:
      name: name of the block.
      fuse: a word of `mlirfuse.marks.FUSE`.
      entry: ordinal of the entry into a `must` block, from 0; each entry is a group of its own.
    """

    name: str
    fuse: str
    entry: int = 0


def of(op: ir.Operation) -> tuple[Mark, ...]:
    """The marks of an op, each once, in the order of its location."""
    found: dict[Mark, None] = {}
    for frame in ops.source_frames(op.location):
        if PREFIX in frame:
            for fuse, name, entry in _MARK.findall(frame):
                found[Mark(name, fuse, int(entry or 0))] = None
    return tuple(found)


def names(op: ir.Operation, fuse: str) -> tuple[str, ...]:
    """Names of the blocks around the op that ask for `fuse`."""
    return tuple(mark.name for mark in of(op) if mark.fuse == fuse)


def must_fuse(module: ir.Module) -> dict[tuple[str, Mark], list[ir.Operation]]:
    """The ops that have to end up in one group, by function and `must` block, in block order."""
    found: dict[tuple[str, Mark], list[ir.Operation]] = {}
    for function in ops.functions(module):
        for block in ops.blocks(function):
            for view in block.operations:
                for mark in of(view.operation):
                    if mark.fuse == "must":
                        key = (ops.symbol_name(function), mark)
                        found.setdefault(key, []).append(view.operation)
    return found


def any_in(module: ir.Module) -> bool:
    """Whether an op of the module's functions carries a mark of a block."""
    return any(
        _may_be_marked(op.operation.location.attr) and of(op.operation)
        for function in ops.functions(module)
        for block in ops.blocks(function)
        for op in block.operations
    )


@analysis_cache.per_attribute
def _may_be_marked(attribute: ir.Attribute) -> bool:
    inside, frame = ops.location_parts(ir.Location.from_attr(attribute, attribute.context))
    return PREFIX in frame or any(_may_be_marked(part.attr) for part in inside)


def is_called(op: ir.Operation, name: str) -> bool:
    """Whether `name` in `--never-fuse` and `--must-fuse` refers to the op.

    The name is its `mlirfuse.id`, the name of a block or of a PyTorch module around it (`blocks.0`
    includes the modules inside), a name in its location, or the end of a source position.
    """
    if ID_ATTRIBUTE in op.attributes and op.attributes[ID_ATTRIBUTE].value == name:
        return True
    for frame in ops.source_frames(op.location):
        if frame == name or frame.endswith("/" + name):
            return True
        if frame.startswith(name + ":") or ("/" + name + ":") in frame:
            return True
        if f"{frame}.".startswith(f"{LAYER}{name}."):
            return True
        if PREFIX in frame and any(found == name for _, found, _ in _MARK.findall(frame)):
            return True
    return False


def names_of(op: ir.Operation) -> list[str]:
    """Names that `is_called` takes for the op, without the shorter forms of each."""
    found = [op.attributes[ID_ATTRIBUTE].value] if ID_ATTRIBUTE in op.attributes else []
    for frame in ops.source_frames(op.location):
        found += [frame.removeprefix(LAYER), *(name for _, name, _ in _MARK.findall(frame))]
    return found


def layer(op: ir.Operation) -> str:
    """The part of the model that an op comes from, as `blocks/0/norm`; empty when unknown."""
    return layer_of(op.location)


def layer_of(location: ir.Location) -> str:
    """The part of the model of a location, as `blocks/0/norm`; empty when unknown.

    It is the path of a PyTorch module, the JAX scopes without functions, marks and the op, or the
    name of an ONNX node without its last part.
    """
    return _layer(location.attr)


@analysis_cache.per_attribute
def _layer(attribute: ir.Attribute) -> str:
    for frame in ops.source_frames(ir.Location.from_attr(attribute, attribute.context)):
        if frame.startswith(LAYER):
            return frame.removeprefix(LAYER).replace(".", "/")
        first, *scopes = frame.split("/")
        if first.startswith("jit(") and scopes:
            kept = (s for s in scopes[:-1] if not s.startswith((PREFIX, "jit(")))
            return "/".join(kept)
        if not first and scopes and not ops.is_position(frame):
            return "/".join(scopes[:-1])
    return ""


def named_ops(members: Iterable[ir.Operation]) -> ir.Location | None:
    """A location that keeps the names of ops beside their locations; None for no op."""
    parts = [
        ir.Location.name(f"{ops.OP_NAME_PREFIX}{index}:{op.name}", op.location)
        for index, op in enumerate(members)
    ]
    return ir.Location.fused(parts) if parts else None


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """An op of the model, as a location of the compiled program tells.

    Attributes:
      name: name of the op.
      place: its location in the model's source; `-` when it has none.
      layer: the part of the model that it comes from; empty when unknown.
    """

    name: str
    place: str
    layer: str


def sources(name: str, location: ir.Location) -> list[Source]:
    """The ops of the model that an op stands for: one that IREE merged has several.

    Args:
      name: name of the op, for locations that `named_ops` did not make.
      location: its location.
    """
    found: dict[tuple[str, Source], None] = {}
    for member, op_name, part in _parts("", name, location):
        found[member, Source(op_name, ops.location_name(part), layer_of(part))] = None
    return [source for _, source in found]


def _parts(member: str, name: str, location: ir.Location) -> Iterator[tuple[str, str, ir.Location]]:
    """Ordinals of the op among those of its groups, its name, and a location of it."""
    if isinstance(location, ir.FusedLoc):
        for part in location.locations:
            yield from _parts(member, name, part)
    elif isinstance(location, ir.NameLoc) and (found := _OP.fullmatch(str(location.name_str))):
        yield from _parts(f"{member}.{found[1]}", found[2], location.child_loc)
    elif group_index(location) is not None:
        assert isinstance(location, ir.CallSiteLoc)
        yield from _parts(member, name, location.callee)
    else:
        yield member, name, location


def group_index(location: ir.Location) -> int | None:
    """Index of the group that a location names by `GROUP_FILE`; None where it names none."""
    if isinstance(location, ir.CallSiteLoc):
        caller = location.caller
        if isinstance(caller, ir.FileLineColLoc) and caller.filename == GROUP_FILE:
            return int(caller.start_line)
        return group_index(location.callee)
    parts = ops.location_parts(location)[0]
    return next((index for part in parts if (index := group_index(part)) is not None), None)
