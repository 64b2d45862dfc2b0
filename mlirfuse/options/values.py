"""Conversions of the values of switches to the types of their fields.

Each takes text or a value of Python or TOML, and raises `UsageError` for anything else; the caller
adds the source of the value and the name of the switch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from mlirfuse.core import UsageError, nearest, normalized
from mlirfuse.options.selectors import Selector

NUMERICS_LIMITS = ("exact", "reassociating", "any")
"""Values of `--numerics`, strictest first."""

MATMUL_PRECISIONS = ("auto", "highest", "high", "medium")
"""Values of `--float32-matmul-precision`: that of the model's framework, and PyTorch's words."""

FEATURES: Mapping[str, tuple[bool, str]] = {
    "fma": (True, "contract a multiply and an add into one rounding"),
    "data_tiling": (True, "lay matmul operands out in the target's tiles"),
    "fallback": (True, "leave out what IREE's code generation or our own code fails on"),
    "cuda_graph": (True, "call programs of static shapes on CUDA as CUDA graphs"),
    "batch_scheduling": (
        True,
        "let callers of programs on the CPU wait as threads of batches",
    ),
    "huge_pages": (
        True,
        "move packed weights on the CPU to huge pages of memory when a program is loaded",
    ),
    "inline_calls": (True, "call small programs on the CPU on one thread where that is faster"),
    "guard": (True, "check shapes, types and sizes of the arguments of a call"),
    "kernels": (
        True,
        "replace groups by kernels: in MLIR's vector dialect on CPUs, of Triton on CUDA and ROCm"
        " where it is installed",
    ),
    "sample_loop": (
        True,
        "compute batches of any number of independent samples on CPUs in a loop over them",
    ),
}
"""Code generation features: name -> (on by default, summary)."""

OWN_FEATURES = (
    *("batch_scheduling", "cuda_graph", "fallback", "guard", "huge_pages", "inline_calls"),
    *("kernels", "sample_loop"),
)
"""Features of ours and not of a code generator: every target has them."""

_TRUE = frozenset({"on", "true", "yes", "1"})
_FALSE = frozenset({"off", "false", "no", "0"})
_OP_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)+")


def file(value: Any) -> str | None:
    """Reads the path of a file; `none` and the empty text stand for no file."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"takes the path of a file, not {value!r}")
    path = os.fspath(value)
    return path if path and path.lower() != "none" else None


def strings(value: Any) -> tuple[str, ...]:
    """Flattens a comma-separated text or an iterable of such texts, without duplicates."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping):
        raise UsageError(f"takes names separated by commas or a list of names, not {value!r}")
    names: dict[str, None] = {}
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"takes names, not {text!r}")
        names.update((n.strip(), None) for n in text.split(",") if n.strip())
    return tuple(names)


def selectors(value: Any) -> tuple[str, ...]:
    """Reads selectors of passes; each in its one spelling."""
    return tuple(dict.fromkeys(str(Selector.parse(text)) for text in strings(value)))


def features(value: Any) -> tuple[str, ...]:
    """Reads names of `FEATURES`."""
    known = {normalized(name): name for name in FEATURES}
    names: dict[str, None] = {}
    for text in strings(value):
        name = known.get(normalized(text))
        if name is None:
            raise UsageError(f"unknown feature '{text}'{nearest(text, FEATURES)}")
        names[name] = None
    return tuple(names)


def op_kinds(value: Any) -> tuple[str, ...]:
    """Reads names of ops with their dialects."""
    names = strings(value)
    for name in names:
        if not _OP_NAME.fullmatch(name):
            raise UsageError(
                f"'{name}' is not an op name; write it with its dialect, as linalg.{name}"
            )
    return names


def groups(value: Any) -> tuple[tuple[str, ...], ...]:
    """Reads groups of at least two locations."""
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list | tuple):
        raise UsageError(f"takes groups of locations, LOC,LOC, not {value!r}")
    found = [strings(entry) for entry in entries if entry]
    for group in found:
        if len(group) < 2:
            raise UsageError(f"takes at least two locations, LOC,LOC, not '{','.join(group)}'")
    return tuple(found)


def boolean(value: Any) -> bool:
    """Reads `on` or `off`."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUE | _FALSE:
        return value.strip().lower() in _TRUE
    raise UsageError(f"takes on or off, not {value!r}")


def optional_boolean(value: Any) -> bool | None:
    """Reads `on` or `off`; None stays None."""
    return None if value is None else boolean(value)


def limit(value: Any) -> int | None:
    """Reads a number from 0, or `none`."""
    if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
        return None
    text = str(value).strip()
    if not text.isdecimal():
        raise UsageError(f"takes a number of rewrites from 0, or none, not {value!r}")
    return int(text)


def numerics(value: Any) -> str:
    """Reads one of `NUMERICS_LIMITS`."""
    text = str(value).strip().lower()
    if text not in NUMERICS_LIMITS:
        raise UsageError(f"unknown class '{value}' (known: {', '.join(NUMERICS_LIMITS)})")
    return text


def matmul_precision(value: Any) -> str:
    """Reads one of `MATMUL_PRECISIONS`."""
    text = str(value).strip().lower()
    if text not in MATMUL_PRECISIONS:
        raise UsageError(f"unknown precision '{value}' (known: {', '.join(MATMUL_PRECISIONS)})")
    return text


def pipeline(value: Any) -> str:
    """Reads a preset's name or a pipeline string, which is parsed later."""
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"takes a preset's name or passes separated by commas, not {value!r}")
    return value.strip()
