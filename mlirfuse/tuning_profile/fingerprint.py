"""Fingerprints of models: equal for the same ops, types and shapes, whatever the weights are."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from iree.compiler import ir

_MAX_ELEMENTS = 16
"""Elements of a constant that still count: scalars and permutations decide about fusions."""

_RESOURCE = re.compile(r"dense_resource<[^>]*>")
_RESOURCES = "\n{-#"
"""Start of the values of constants behind the module."""


def of_module(module: ir.Module) -> str:
    """The fingerprint of a module, as hexadecimal digits."""
    text = module.operation.get_asm(
        enable_debug_info=False,
        large_elements_limit=_MAX_ELEMENTS,
        large_resource_limit=0,
        assume_verified=True,
    ).partition(_RESOURCES)[0]
    return hashlib.sha256(_RESOURCE.sub("dense_resource<>", text).encode()).hexdigest()


def of_file(path: Path) -> str:
    """The fingerprint of a file of MLIR, text or bytecode."""
    with ir.Context():
        return of_module(ir.Module.parseFile(os.fspath(path)))
