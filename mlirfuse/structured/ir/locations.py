"""Locations of ops: source positions and names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.structured.ir import analysis_cache


def location_parts(location: ir.Location) -> tuple[list[ir.Location], str]:
    """Nested locations, innermost first, and the location's own name or position, if any."""
    if isinstance(location, ir.CallSiteLoc):
        return [location.callee, location.caller], ""
    if isinstance(location, ir.FileLineColLoc):
        return [], f"{location.filename}:{location.start_line}:{location.start_col}"
    if isinstance(location, ir.NameLoc):
        return [location.child_loc], str(location.name_str)
    if isinstance(location, ir.FusedLoc):
        return list(location.locations), ""
    return [], ""


INTERNAL_NAME_PREFIX = "mlirfuse.from:"
"""Prefix of the names that a run adds to locations for internal use, and removes again."""

OP_NAME_PREFIX = "mlirfuse.op:"
"""Prefix of the names of ops in the location of a kernel that replaces them."""

CONVOLUTION_NAME = "mlirfuse.convolution"
"""Name in the location of what a convolution of the model becomes."""

_INTERNAL = (INTERNAL_NAME_PREFIX, OP_NAME_PREFIX, CONVOLUTION_NAME)


def source_frames(location: ir.Location) -> Iterator[str]:
    """Every source position and name in the location, innermost first, as `file:line:col`."""
    inside, frame = location_parts(location)
    for part in inside:
        yield from source_frames(part)
    if frame and not frame.startswith(_INTERNAL):
        yield frame


def is_named(location: ir.Location, name: str) -> bool:
    """Whether the location, or each of those that are fused in it, has the name around it."""
    inside, found = location_parts(location)
    if isinstance(location, ir.CallSiteLoc):
        inside = [location.callee]
    return found == name or (bool(inside) and all(is_named(part, name) for part in inside))


_FRAMEWORKS = ("/torch/", "/jax/", "/jaxlib/", "/flax/")
_POSITION = re.compile(r":\d+:\d+$")


def is_position(frame: str) -> bool:
    """Whether a frame of a location is `file:line:col`, not a name."""
    return _POSITION.search(frame) is not None


def location_name(location: ir.Location) -> str:
    """The innermost position in the model's own source, outside the framework.

    Without one it is the innermost name (ONNX nodes have names), then the innermost position in the
    framework, then `-`.
    """
    return _place(location.attr)


@analysis_cache.per_attribute
def _place(attribute: ir.Attribute) -> str:
    name, inside = "", ""
    for frame in source_frames(ir.Location.from_attr(attribute, attribute.context)):
        if not is_position(frame):
            name = name or frame
        elif not any(part in frame for part in _FRAMEWORKS):
            return frame
        else:
            inside = inside or frame
    return name or inside or "-"


def described(op: ir.Operation) -> str:
    """The op's name and its source position, for the detail of a refusal."""
    place = location_name(op.location)
    return op.name if place == "-" else f"{op.name} at {place}"
