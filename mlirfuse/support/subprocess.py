"""Runs IREE's console tools as subprocesses: time limit, no shell, one-line errors.

The compiler can abort the process that it runs in, or never come back; in a subprocess that is an
error message like any other.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from mlirfuse.core import CompileFailedError, MlirfuseError, UsageError
from mlirfuse.support import exit_code, watchdog
from mlirfuse.support.atomic_file import FULL

MESSAGE_CHARS = 300
"""Longest excerpt of a diagnostic in an error message, characters."""

DIAGNOSTICS_BYTES = 1 << 22
"""How much of a tool's stderr is kept; a compiler that prints its IR can write gigabytes."""

_FULL = re.compile("|".join(map(os.strerror, sorted(FULL))))

_ERROR_LINE = re.compile(r"^(?P<where>\S.*?:\d+(?::\d+)?: )error: (?P<message>.*)$", re.MULTILINE)
_FATAL_LINE = re.compile(r"^(?:.*?\b)?((?:LLVM ERROR|Assertion|terminate called).*)$", re.MULTILINE)


def check_timeout(timeout: Any) -> None:
    """Checks a time limit.

    Raises:
      UsageError: it is neither None nor a number of seconds above 0.
    """
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout < float("inf")):
        raise UsageError(f"timeout={timeout!r}: takes seconds above 0, or None for no limit")


def find_tool(tool: str) -> Path:
    """The executable `tool` of the running interpreter's environment.

    Raises:
      CompileFailedError: it is not installed there.
    """
    suffix = ".exe" if sys.platform == "win32" else ""
    folders = []
    if spec := importlib.util.find_spec("iree"):
        folders += [
            Path(f, "compiler", "_mlir_libs") for f in spec.submodule_search_locations or ()
        ]
    folders += [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    for folder in folders:
        path = folder / (tool + suffix)
        if os.access(path, os.X_OK) and path.is_file():
            return path
    raise CompileFailedError(
        f"{tool} is not installed for {sys.executable}; "
        "install it with: pip install iree-base-compiler iree-base-runtime",
        stage="start",
    )


def run_tool(
    tool: str,
    arguments: Sequence[str],
    *,
    stage: str,
    timeout: float | None = None,
    stdin: bytes | None = None,
    cwd: Path | None = None,
) -> str:
    """Runs a tool to its end and returns its stderr; its stdout is dropped.

    Args:
      tool: name of the executable, e.g. `iree-compile`.
      arguments: passed as they are; there is no shell in between.
      stage: phase of the compilation, for the error: `import`, `global-optimization`, `codegen`.
      timeout: seconds until the tool and everything it started are killed; None for no limit.
      stdin: bytes for the tool's standard input; None for an empty one.
      cwd: directory that the tool runs in; None for the caller's.

    Raises:
      CompileFailedError: the tool is missing, refused, died or ran out of time.
      MlirfuseError: the disk is full: another program would not do better.
    """
    watchdog.start()
    process = subprocess.Popen(
        [os.fspath(find_tool(tool)), *arguments],
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=cwd,
    )
    assert process.stderr is not None
    kept = bytearray()
    pumps = [threading.Thread(target=_drain, args=(process.stderr, kept), daemon=True)]
    if process.stdin is not None:
        pumps.append(threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True))
    try:
        with watchdog.watched(process.pid):
            for pump in pumps:
                pump.start()
            process.wait(timeout)
        timed_out = False
    except subprocess.TimeoutExpired:
        _kill_group(process)
        timed_out = True
    except BaseException:
        _kill_group(process)
        raise
    finally:
        for pump in pumps:
            pump.join()
    diagnostics = kept.decode(errors="replace")
    if process.returncode and (full := _full(process.returncode, diagnostics)):
        raise MlirfuseError(
            f"{tool} cannot write its files in stage {stage}: {full}; TMPDIR names another place"
        )
    if timed_out:
        raise CompileFailedError(
            f"{tool} ran out of time in stage {stage} after {timeout:g} s; allow more with "
            "--timeout=SECONDS",
            stage=stage,
            diagnostics=diagnostics,
        )
    if process.returncode != 0:
        raise CompileFailedError(
            _message(tool, stage, process.returncode, diagnostics),
            stage=stage,
            returncode=process.returncode,
            diagnostics=diagnostics,
        )
    return diagnostics


def _full(returncode: int, diagnostics: str) -> str:
    """The tool's message that the disk is full; empty without one."""
    found = _FULL.search(diagnostics)
    if sys.platform != "win32" and returncode == -signal.SIGXFSZ:
        return os.strerror(errno.EFBIG)
    return found[0] if found else ""


def _drain(stream: IO[bytes], kept: bytearray) -> None:
    """Reads `stream` to its end so that the tool never blocks, and keeps the beginning."""
    with stream:
        while chunk := stream.read(1 << 16):
            kept += chunk[: max(0, DIAGNOSTICS_BYTES - len(kept))]


def _feed(stream: IO[bytes], data: bytes | None) -> None:
    """Writes the tool's input; a tool that stops reading early gives the reason on stderr."""
    with contextlib.suppress(BrokenPipeError), stream:
        stream.write(data or b"")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the tool and the processes it started: `iree-compile` runs a linker."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _message(tool: str, stage: str, returncode: int, diagnostics: str) -> str:
    """One line with the kind of failure and the first diagnostic."""
    if returncode < 0:
        head = f"{tool} {exit_code.how(returncode)} in stage {stage}"
    else:
        head = f"{tool} refused the program in stage {stage}"
    cause = _first_cause(diagnostics)
    return f"{head}: {cause}" if cause else f"{head} (exit code {returncode}, no diagnostics)"


def _first_cause(diagnostics: str) -> str:
    """The first error line, else the fatal line, else the first line; trimmed."""
    if found := _ERROR_LINE.search(diagnostics):
        line = found["where"] + "error: " + found["message"]
    elif found := _FATAL_LINE.search(diagnostics):
        line = found[1]
    else:
        line = next((text for text in diagnostics.splitlines() if text.strip()), "")
    line = " ".join(line.split())
    return line if len(line) <= MESSAGE_CHARS else line[: MESSAGE_CHARS - 3] + "..."
