"""Passes of MLIR and IREE in a pipeline, by their names in MLIR's registry."""

from __future__ import annotations

import re

from iree.compiler import ir, passmanager

from mlirfuse.core import PassFailedError, UsageError, nearest
from mlirfuse.pipelines.spec import PipelineItem
from mlirfuse.plugins import registry
from mlirfuse.structured.ir import ops

MAX_ERROR_CHARS = 300
"""Longest excerpt of an error in a message, characters."""

_UNKNOWN_PASS = re.compile(r"'([^']+)' does not refer to a registered pass")


def run(item: PipelineItem, module: ir.Module) -> None:
    """Runs a pass on a module: on all of it, or on each function for a pass of functions.

    Raises:
      UsageError: there is no such pass, or it does not take the options.
      PassFailedError: the pass failed.
    """
    manager = _manager(item, module)
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        raise PassFailedError(
            f"pass '{item}' failed: {error_line(error)}", pass_name=str(item)
        ) from error


def is_registered(name: str) -> bool:
    """Whether MLIR or IREE has a pass of that name."""
    with ir.Context() as context:
        try:
            passmanager.PassManager.parse(f"any({name})", context)
        except ValueError:
            return False
    return True


def _manager(item: PipelineItem, module: ir.Module) -> passmanager.PassManager:
    kinds = {f.name for f in ops.functions(module)} or {"util.func"}
    nested = ",".join(f"{kind}({item})" for kind in sorted(kinds))
    spellings = [f"builtin.module({item})", f"builtin.module({nested})"]
    if item.anchor and item.name == "builtin.module":
        spellings = [str(item)]
    for spelling in spellings:
        try:
            return passmanager.PassManager.parse(spelling, module.context)
        except ValueError as error:
            last = error
    unknown = _UNKNOWN_PASS.search(str(last))
    if unknown is not None:
        raise UsageError(
            f"unknown pass '{unknown[1]}'{nearest(unknown[1], registry.passes())}"
        ) from last
    raise UsageError(f"pipeline item '{item}': {error_line(last)}") from last


def error_line(error: Exception) -> str:
    """The line of an error that names the cause: the first line of MLIR's errors does not."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (causes or lines or [type(error).__name__])[0][:MAX_ERROR_CHARS]
