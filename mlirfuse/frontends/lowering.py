"""From a dialect that IREE imports to linalg on tensors, in a subprocess.

The lowering can abort the process that it runs in (`LLVM ERROR`), and so can the reader of damaged
bytecode. Weights are not sent to the subprocess: `Weights` attaches them afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlirfuse.builders import angles
from mlirfuse.core import CompileFailedError, ImportFailedError, MlirfuseError
from mlirfuse.frontends.arguments import keep_arguments
from mlirfuse.frontends.byte_products import narrow_products
from mlirfuse.frontends.containment import leave_out
from mlirfuse.frontends.destinations import separate_destinations
from mlirfuse.frontends.empty_loops import drop_empty_loops
from mlirfuse.frontends.entry_point import has_state, read_signature
from mlirfuse.frontends.exclusive_scans import make_exclusive
from mlirfuse.frontends.imported import ImportedModel, WorkDirectory
from mlirfuse.frontends.index_reductions import split_index_reductions
from mlirfuse.frontends.loop_conditions import compute_first
from mlirfuse.frontends.nan_propagation import propagate_nan
from mlirfuse.frontends.narrow_integers import widen_conversions
from mlirfuse.frontends.nearest_constants import round_constants
from mlirfuse.frontends.small_arguments import expand_near_zero
from mlirfuse.frontends.weights import Weights
from mlirfuse.frontends.window_ends import crop_to_windows
from mlirfuse.support import dialect_modules
from mlirfuse.support.subprocess import run_tool

if TYPE_CHECKING:
    from iree.compiler import ir

MESSAGE_CHARS = 300
"""Maximum length of another program's message in an error of ours, in characters."""

_LOWER = (
    "--compile-to=input",
    "--emit-mlir-bytecode",
    # Functions on tensors: no fences, and no second function that wraps the first.
    "--iree-torch-emit-async-entry-points=false",
    # The next phase decides: for some targets f64 becomes f32.
    "--iree-input-demote-f64-to-f32=false",
)
_ERROR = re.compile(
    r"^(?P<where>\S.*?): error: (?:loc\((?P<loc>.*?)\): )?(?P<message>.*)$", re.MULTILINE
)
_ILLEGAL = re.compile(r"failed to legalize operation '(?P<op>[\w.]+)'")
_CALLED = re.compile(r'(?:call_target_name|name) = "(?P<name>[^"]+)"')


def one_line(text: object) -> str:
    """The first line that is not blank, trimmed; for text of other programs."""
    line = next((part for part in str(text).splitlines() if part.strip()), "no message")
    line = " ".join(line.split())
    return line if len(line) <= MESSAGE_CHARS else line[: MESSAGE_CHARS - 3] + "..."


def write_module(module: ir.Module, path: Path) -> None:
    """Writes bytecode without a copy in memory."""
    with path.open("wb") as file:
        module.operation.write_bytecode(file)


def lower(
    workdir: WorkDirectory,
    unlowered: Path,
    *,
    input_type: str,
    frontend: str,
    source: str,
    function: str | None,
    weights: Weights | None,
    timeout: float | None,
) -> ImportedModel:
    """Lowers a module file and describes the result; removes the file if it is in `workdir`.

    Args:
      workdir: working directory, which the imported model will own.
      unlowered: file of MLIR text or bytecode.
      input_type: value of `--iree-input-type`.
      frontend: name of the importer.
      source: name of the model, for errors.
      function: name of the function to call; None to find it.
      weights: data for the stand-ins in the module; None when it has no stand-ins.
      timeout: seconds for the subprocess; None for no limit.

    Raises:
      ImportFailedError: IREE rejects the module; the message names the op.
      CompileFailedError: the subprocess crashed or ran out of time.
    """
    from iree.compiler import ir

    path, lowered = Path(workdir.name, "model.mlirbc"), Path(workdir.name, "lowered.mlirbc")
    convert(
        "iree-compile",
        unlowered,
        (f"--iree-input-type={input_type}", *_LOWER),
        lowered,
        source=source,
        timeout=timeout,
    )
    if unlowered.parent == path.parent:
        unlowered.unlink()
    dialect_modules.add()
    with ir.Context():
        module, changed = _repaired(lowered, source, input_type, frontend)
        name, inputs, outputs = read_signature(module, function, source)
        keeps_state = has_state(module)
        has_angles = angles.has_angles(module)
        changed |= keep_arguments(module)
        if weights is not None:
            weights.attach(module)
        if changed or weights is not None:
            write_module(module, path)
            lowered.unlink()
        else:
            lowered.replace(path)
    return ImportedModel(
        path=path,
        input_type="none",
        function=name,
        inputs=inputs,
        outputs=outputs,
        source=source,
        frontend=frontend,
        workdir=workdir,
        keeps_f64=any("f64" in spec.dtype for spec in (*inputs, *outputs)),
        has_state=keeps_state,
        has_angles=has_angles,
    )


def _repaired(path: Path, source: str, input_type: str, frontend: str) -> tuple[ir.Module, bool]:
    """The module with the repairs of its linalg, without those that raise, and whether it changed.

    A repair that raises leaves its module half changed: it is read again.
    """
    repairs: list[Callable[[ir.Module], bool]] = []
    if input_type in ("torch", "onnx"):
        repairs += [
            compute_first,
            propagate_nan,
            widen_conversions,
            narrow_products,
            expand_near_zero,
        ]
    if frontend != "mlir":
        repairs += [split_index_reductions, make_exclusive]
    repairs += [round_constants, drop_empty_loops, separate_destinations, crop_to_windows]
    while True:
        module = parse_module(path, source)
        changed = False
        for repair in repairs:
            try:
                changed |= repair(module)
            except Exception as error:
                leave_out(repair.__name__, error)
                repairs.remove(repair)
                break
        else:
            return module, changed


def parse_module(path: Path, source: str) -> ir.Module:
    """Parses a file in the current context.

    Args:
      path: file of MLIR text or bytecode.
      source: name of the model, for errors.

    Raises:
      ImportFailedError: the file is not valid MLIR.
    """
    from iree.compiler import ir

    try:
        return ir.Module.parseFile(str(path))
    except ir.MLIRError as error:
        raise ImportFailedError(f"{source}: {mlir_message(error)}") from error


def convert(
    tool: str,
    given: Path,
    arguments: Sequence[str],
    result: Path,
    *,
    source: str,
    timeout: float | None,
) -> None:
    """Runs a tool from one file of MLIR to another.

    Args:
      tool: `iree-compile` or `iree-opt`.
      given: file of MLIR text or bytecode. A file in the result's directory, a temporary one, is
        passed by its bare name, so that locations do not differ from run to run.
      arguments: flags of the tool.
      result: output file.
      source: name of the model, for errors.
      timeout: seconds for the tool; None for no limit.

    Raises:
      ImportFailedError: IREE rejects the module; the message names the op.
      CompileFailedError: the tool crashed or ran out of time.
    """
    inside = given.parent == result.parent
    name, cwd = (given.name, result.parent) if inside else (str(given), None)
    try:
        run_tool(
            tool,
            [name, *arguments, "-o", str(result)],
            stage="import",
            timeout=timeout,
            cwd=cwd,
        )
    except CompileFailedError as error:
        raise _explained(error, source, name) from error


def _explained(error: CompileFailedError, source: str, name: str) -> MlirfuseError:
    """The error for a subprocess that rejected a module, with the op and its location.

    Crashes and timeouts are returned unchanged.
    """
    if error.returncode is None or error.returncode < 0:
        return error
    found = _ERROR.search(error.diagnostics.replace(name, source))
    if not found:
        return ImportFailedError(f"{source}: {one_line(error)}")
    where = found["where"] if found["loc"] is None else found["loc"].strip('"')
    if where in ("", "unknown", "<unknown>:0"):
        where = source
    if illegal := _ILLEGAL.search(found["message"]):
        called = _CALLED.search(found["message"])
        name = called["name"] if called else illegal["op"]
        place = "" if where == source else where
        suffix = f" ({place})" if place else ""
        message = f"{source}: IREE has no lowering for '{name}'{suffix}"
        return ImportFailedError(message, op=name, place=place)
    if where.startswith(source):
        return ImportFailedError(f"{where}: error: {one_line(found['message'])}")
    return ImportFailedError(f"{source}: {one_line(found['message'])} ({where})", place=where)


def mlir_message(error: ir.MLIRError) -> str:
    """The first diagnostic of a failed parse, on one line."""
    diagnostics = error.error_diagnostics
    text = diagnostics[0].message if diagnostics else str(error)
    return one_line(text.partition(". If this is intended")[0])
