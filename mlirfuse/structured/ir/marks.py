"""Marks on ops: `mlirfuse.id`, and the marked blocks of the model's source around an op."""

from __future__ import annotations

import dataclasses
import re

from iree.compiler import ir

from mlirfuse.marks import FUSE, LAYER, PREFIX
from mlirfuse.structured.ir import analysis_cache, ops

ID_ATTRIBUTE = "mlirfuse.id"

PASS_ATTRIBUTE = "mlirfuse.pass"
"""On a group: the pass that formed it."""

MATCH_ATTRIBUTE = "mlirfuse.match"
"""On a group: the ordinal of its match."""

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
    """The part of the model that an op comes from, as `blocks/0/norm`; empty when unknown.

    It is the path of a PyTorch module, the JAX scopes without functions, marks and the op, or the
    name of an ONNX node without its last part.
    """
    for frame in ops.source_frames(op.location):
        if frame.startswith(LAYER):
            return frame.removeprefix(LAYER).replace(".", "/")
        first, *scopes = frame.split("/")
        if first.startswith("jit(") and scopes:
            kept = (s for s in scopes[:-1] if not s.startswith((PREFIX, "jit(")))
            return "/".join(kept)
        if not first and scopes and not ops.is_position(frame):
            return "/".join(scopes[:-1])
    return ""
