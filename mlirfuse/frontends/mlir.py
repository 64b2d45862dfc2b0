"""MLIR: text or bytecode of linalg, StableHLO, TOSA or the torch dialect, detected by content."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING

from mlirfuse.frontends.entry_point import has_state, read_signature
from mlirfuse.frontends.imported import ImportedModel, WorkDirectory
from mlirfuse.frontends.jax_repairs import operations, repaired
from mlirfuse.frontends.lowering import (
    convert,
    lower,
    parse_module,
    write_module,
)

if TYPE_CHECKING:
    from iree.compiler import ir

_NORMALIZED = b"compute_barrier.start"
"""Part of the name of an op that IREE's global optimization puts around the computation."""

_STABLEHLO = b"stablehlo"

_PORTABLE = b"StableHLO_v"
"""Producer of portable bytecode, which `--iree-input-type=auto` of IREE 3.13 does not detect."""


def import_file(
    path: Path,
    *,
    source: str,
    function: str | None = None,
    timeout: float | None = None,
) -> ImportedModel:
    """Imports a file of MLIR.

    Args:
      path: file of text or bytecode.
      source: name of the model, for errors.
      function: name of the function to call; None for the only public one, or `main`.
      timeout: seconds for each subprocess; None for no limit.

    Raises:
      UsageError: the function does not exist, or the choice is not clear.
      ImportFailedError: the module is damaged, or IREE does not support an op of it.
      CompileFailedError: a subprocess crashed or ran out of time.
    """
    workdir = WorkDirectory()
    return _import(path, workdir, source=source, function=function, timeout=timeout)


def import_bytes(
    data: bytes,
    *,
    source: str = "<MLIR>",
    function: str | None = None,
    timeout: float | None = None,
) -> ImportedModel:
    """Imports text or bytecode in memory. Arguments and errors as for `import_file`."""
    workdir = WorkDirectory()
    path = Path(workdir.name, "given.mlir")
    path.write_bytes(data)
    return _import(path, workdir, source=source, function=function, timeout=timeout)


def import_module(
    module: ir.Module,
    *,
    source: str = "<module>",
    function: str | None = None,
    timeout: float | None = None,
) -> ImportedModel:
    """Imports a module of `iree.compiler.ir`. Arguments and errors as for `import_file`."""
    workdir = WorkDirectory()
    path = Path(workdir.name, "given.mlirbc")
    write_module(module, path)
    return _import(path, workdir, source=source, function=function, timeout=timeout)


def _import(
    path: Path,
    workdir: WorkDirectory,
    *,
    source: str,
    function: str | None,
    timeout: float | None,
) -> ImportedModel:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        portable = content.find(_PORTABLE, 0, 64) >= 0
        marked = content.find(_NORMALIZED) >= 0
        stablehlo = content.find(_STABLEHLO) >= 0
    if marked and (imported := _normalized(path, workdir, source, function, timeout)):
        return imported
    if stablehlo and not portable and (changed := _repaired(path, workdir, source, timeout)):
        path, portable = changed, True
    return lower(
        workdir,
        path,
        input_type="stablehlo" if portable else "auto",
        frontend="mlir",
        source=source,
        function=function,
        weights=None,
        timeout=timeout,
    )


def _repaired(
    path: Path, workdir: WorkDirectory, source: str, timeout: float | None
) -> Path | None:
    """The module with the repairs of StableHLO; None if it has no op of that dialect."""
    result = Path(workdir.name, "read.mlirbc")
    # The parser can abort on damage: it runs in a subprocess first.
    arguments = ("--emit-bytecode", "--allow-unregistered-dialect")
    convert("iree-opt", path, arguments, result, source=source, timeout=timeout)

    def read() -> ir.Module | None:
        module = parse_module(result, source)
        found = any(op.name.startswith("stablehlo.") for op in operations(module.operation))
        return module if found else None

    # Of the same name, so that messages name the caller's file.
    changed = Path(workdir.name, path.name)
    if not repaired(read, lambda module: write_module(module, changed)):
        return None
    result.unlink()
    return changed


def _normalized(
    path: Path,
    workdir: WorkDirectory,
    source: str,
    function: str | None,
    timeout: float | None,
) -> ImportedModel | None:
    """The unchanged module if it is past global optimization; None if it is not."""
    from iree.compiler import ir

    result = Path(workdir.name, "model.mlirbc")
    convert("iree-opt", path, ("--emit-bytecode",), result, source=source, timeout=timeout)
    with ir.Context():
        module = parse_module(result, source)
        if not _has_barrier(module):
            return None
        name, inputs, outputs = read_signature(module, function, source)
        keeps_state = has_state(module)
    return ImportedModel(
        path=result,
        input_type="none",
        function=name,
        inputs=inputs,
        outputs=outputs,
        source=source,
        frontend="mlir",
        workdir=workdir,
        has_state=keeps_state,
        normalized=True,
    )


def _has_barrier(module: ir.Module) -> bool:
    """Whether the module has the op, and not only its name in a comment or a string."""
    from iree.compiler import ir

    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = op.name == "iree_tensor_ext.compute_barrier.start"
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
