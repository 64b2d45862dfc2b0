"""Groups a module in a process of its own where passes that are not ours run.

MLIR's bindings let a pass erase an op whose results are read, or keep an op that is gone: the
process dies of it. In a child that is an error with the name of the pass, and leaves no file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlirfuse.backend import grouping
from mlirfuse.backend.grouping import Grouped
from mlirfuse.core import (
    CompileFailedError,
    MlirfuseError,
    MustFuseError,
    PassFailedError,
    UsageError,
)
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines.faults import Faults
from mlirfuse.pipelines.pass_run import Observer
from mlirfuse.pipelines.resolve import resolve
from mlirfuse.plugins import registry
from mlirfuse.support import exit_code, module_process, stages, temporary
from mlirfuse.support.subprocess import run_tool
from mlirfuse.targets.base import Target

_REQUEST = "request"
_RESULT = "result"
_CURRENT = "current"

_ERRORS = {kind.__name__: kind for kind in (UsageError, MustFuseError, PassFailedError)}
"""Errors that keep their type on the way out of the process; others are a `MlirfuseError`."""


def group(
    source: Path,
    output: Path,
    *,
    target: Target,
    options: FusionOptions,
    observer: Observer | None = None,
    dump_dir: Path | None = None,
    faults: Faults | None = None,
) -> Grouped:
    """Groups the module at `source`: in this process, unless the pipeline has passes not of ours.

    With an observer it is this process too: debugging observes what ran in a child before.

    Arguments and errors are those of `grouping.group`.

    Raises:
      PassFailedError: a pass that is not ours ended its process.
    """
    stages.show("fusing")
    foreign = () if observer is not None else _foreign(options)
    if not foreign:
        return grouping.group(
            source,
            output,
            target=target,
            options=options,
            observer=observer,
            dump_dir=dump_dir,
            faults=faults,
        )
    faults = faults or Faults()
    request = {
        "source": source.resolve(),
        "output": output.resolve(),
        "target": target,
        "options": options,
        "dump_dir": dump_dir,
        "faults": faults,
    }
    with temporary.folder("mlirfuse-passes-") as name:
        folder = Path(name)
        (folder / _REQUEST).write_bytes(pickle.dumps(request))
        result = _run(folder, foreign)
    faults.merge(result["faults"])
    if "error" in result:
        raise _ERRORS.get(result["error"], MlirfuseError)(result["message"], **result["about"])
    grouped: Grouped = result["grouped"]
    return grouped


def _foreign(options: FusionOptions) -> tuple[str, ...]:
    """Names of the passes of the pipeline that are not ours.

    A pass of `__main__` runs here: another process has another `__main__`.
    """
    if any(spec.startswith("__main__:") for spec in options.load_pass):
        return ()
    with registry.scope(options.load_pass):
        loaded = registry.loaded()
        if not loaded:
            return ()
        return tuple(item.name for item in resolve(options.pipeline) if item.name in loaded)


def _run(folder: Path, foreign: tuple[str, ...]) -> Mapping[str, Any]:
    """Runs the child on the request in the folder; returns its result."""
    arguments = module_process.arguments("mlirfuse.backend.grouping_process", str(folder))
    try:
        diagnostics = run_tool(Path(sys.executable).name, arguments, stage="passes")
    except CompileFailedError as error:
        current = folder / _CURRENT
        name = current.read_text(encoding="utf-8") if current.exists() else ""
        raise PassFailedError(_message(error, name, foreign), pass_name=name) from error
    sys.stderr.write(diagnostics)
    result: Mapping[str, Any] = pickle.loads((folder / _RESULT).read_bytes())
    return result


def _message(error: CompileFailedError, name: str, foreign: tuple[str, ...]) -> str:
    code = error.returncode
    how = "did not start" if code is None else exit_code.how(code)
    last = next((line for line in reversed(error.diagnostics.splitlines()) if line.strip()), "")
    reason = f": {last.strip()}" if code == 1 and last else ""
    if name in foreign:
        return f"pass '{name}' {how}{reason}"
    where = f" in '{name}'" if name else ""
    return f"the passes {how}{where}; the passes not of mlirfuse: {', '.join(foreign)}{reason}"


def main() -> int:
    """Entry point of the child: serves the request in a folder."""
    os.dup2(2, 1)  # the parent shows one stream: that of errors
    folder = Path(sys.argv[1])
    request = pickle.loads((folder / _REQUEST).read_bytes())
    logging.getLogger("mlirfuse").addHandler(logging.NullHandler())  # the parent logs

    def starting(name: str) -> None:
        (folder / _CURRENT).write_text(name, encoding="utf-8")

    result: dict[str, Any]
    try:
        result = {"grouped": grouping.group(**request, starting=starting)}
    except MlirfuseError as error:
        about = {}
        if isinstance(error, PassFailedError):
            about = {"pass_name": error.pass_name, "function": error.function}
        result = {"error": type(error).__name__, "message": str(error), "about": about}
    except Exception:
        traceback.print_exc()
        return 1
    result["faults"] = request["faults"]
    (folder / _RESULT).write_bytes(pickle.dumps(result))
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
