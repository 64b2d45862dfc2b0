"""Errors as the command lines show them: one line each on stderr, and an exit code."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.support import temporary
from mlirfuse.support.atomic_file import FULL

if TYPE_CHECKING:
    from iree.compiler import ir

INTERRUPTED = 128 + signal.SIGINT
"""Exit code after Ctrl-C, as shells count it."""

PIPE_CLOSED = 128 + 13
"""Exit code when the process that reads stdout ended: 128 and the number of SIGPIPE."""

_NO_TEMPORARY = "No usable temporary directory"
"""Start of the standard library's message when even an empty file cannot be made."""

_FILE_LOCATION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')

_PLACE = re.compile(r"(?P<place>(?P<file>\S[^:]*):\d+:\d+): ")
_INNER_PLACE = re.compile(rf"(?P<context>^|.*?: ){_PLACE.pattern}error: ")


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about a place in a file.

    Attributes:
      file: name of the file; empty when there is none.
      line: from 1; 0 when the place is not known.
      column: from 1; 0 when the place is not known.
      severity: `error`, `warning`, `remark` or `note`.
      message: one line.
    """

    file: str
    line: int
    column: int
    severity: str
    message: str

    def __str__(self) -> str:
        """The line that goes to stderr."""
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        return f"{place if self.file else ''}{self.severity}: {self.message}"

    @classmethod
    def of(cls, found: Any, file: str) -> Diagnostic:
        """Reads a diagnostic of MLIR's; `file` stands in for `-`, MLIR's name for a text."""
        place = _FILE_LOCATION.search(str(found.location))
        name, line, column = place.groups() if place else ("-", "0", "0")
        return cls(
            file if name == "-" else name,
            int(line),
            int(column),
            str(found.severity).rpartition(".")[2].lower(),
            one_line(found.message),
        )


class DiagnosedError(MlirfuseError):
    """IR was refused; MLIR's messages are in `diagnostics`.

    Attributes:
      diagnostics: in the order in which MLIR gave them.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = tuple(diagnostics)


class Finished(Exception):
    """The command has done its work; `guard` returns the exit code 0."""


def one_line(text: str) -> str:
    """The first line of a message that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""


def refused(error: ir.MLIRError, file: str) -> DiagnosedError:
    """The error with MLIR's diagnostics about the IR of `file`."""
    found = [Diagnostic.of(d, file) for d in error.error_diagnostics]
    return DiagnosedError(found or [Diagnostic(file, 0, 0, "error", one_line(str(error)))])


def located(error: MlirfuseError, file: str) -> DiagnosedError:
    """An error of the engine, at the place of the first MLIR diagnostic that caused it."""
    cause: Any = error.__cause__
    place = [Diagnostic.of(d, file) for d in getattr(cause, "error_diagnostics", ())][:1]
    first = place[0] if place else Diagnostic(file, 0, 0, "error", "")
    cause_text = "" if first.message in str(error) else f": {first.message}"
    return DiagnosedError([dataclasses.replace(first, message=one_line(str(error)) + cause_text)])


def guard(prog: str, work: Callable[[Sequence[str]], int], argv: Sequence[str] | None) -> int:
    """Runs a command and turns everything that can go wrong into one line and an exit code.

    Args:
      prog: name of the command, for messages without a place.
      work: takes the arguments, returns the exit code.
      argv: the arguments without the command's name; None for those of the process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    previous = _stop_on_terminate()
    try:
        try:
            with _debug_log() if debug else contextlib.nullcontext():
                code = work(words)
        except Finished:
            code = 0
        finally:  # also when --help ends the process
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return _interrupted(prog)
    except DiagnosedError as error:
        return _fail(str(error), error.exit_code, debug)
    except MlirfuseError as error:
        return _fail(_placed(prog, one_line(str(error))), error.exit_code, debug)
    except OSError as error:
        if _NO_TEMPORARY in str(error):
            return _fail(f"{prog}: error: {temporary.NONE}", 1, debug)
        if error.errno not in FULL:
            return _internal(prog, error, debug)
        where = error.filename or "an output"
        return _fail(f"{prog}: error: cannot write {where}: {error.strerror}", 1, debug)
    except Exception as error:
        # Python 3.11 makes errors of what a signal raises while a class is made.
        if isinstance(error.__cause__, KeyboardInterrupt):
            return _interrupted(prog)
        if isinstance(error.__cause__, SystemExit):
            raise error.__cause__ from None
        return _internal(prog, error, debug)
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)
    return code


@contextlib.contextmanager
def _debug_log() -> Iterator[None]:
    """Shows the log of level DEBUG, which has the tracebacks of contained exceptions."""
    log, shown = logging.getLogger("mlirfuse"), logging.StreamHandler()
    level = log.level
    log.addHandler(shown)
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(shown)


def _interrupted(prog: str) -> int:
    return _say(f"{prog}: interrupted", INTERRUPTED)


def in_child(prog: str) -> int | None:
    """Lets a child do the work, since MLIR's parser dies of some damaged files.

    Returns:
      The exit code of the child; None in the child, which goes on.
    """
    if not hasattr(os, "fork"):
        return None
    child = os.fork()
    if child == 0:
        return None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(child, number))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return code
    died = signal.Signals(-code)
    if died in (signal.SIGINT, signal.SIGTERM):
        return 128 + died
    return _say(f"{prog}: error: MLIR died with {died.name} on its input", 1)


def _internal(prog: str, error: Exception, debug: bool) -> int:
    text = f"{type(error).__name__}: {one_line(str(error))}"
    hint = "" if debug else "; --debug shows where"
    return _fail(f"{prog}: error: internal error: {text}{hint}", 1, debug)


def warn(prog: str, message: str) -> None:
    """Prints a warning on stderr."""
    _say(f"{prog}: warning: {message}", 0)


def _placed(prog: str, message: str) -> str:
    """The message as `file:line:col: error: ...` when it names such a place."""
    inner = _INNER_PLACE.search(message)
    if inner is not None:
        context = inner["context"].removeprefix(inner["file"] + ": ").rstrip(": ")
        text = message[inner.end() :]
        return f"{inner['place']}: error: {text}" + (f" ({context})" if context else "")
    place = _PLACE.match(message)
    if place is None:
        return f"{prog}: error: {message}"
    return f"{place['place']}: error: {message[place.end() :]}"


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    return _say(message, code)


def _say(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


def _stop_on_terminate() -> Any:
    """Makes SIGTERM unwind the stack, so that temporary files go; returns the former handler."""

    def stop(number: int, _: Any) -> NoReturn:
        raise SystemExit(128 + number)

    try:
        return signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: the owner of the process decides
        return None


def required(value: str | None, name: str, prog: str) -> str:
    """Returns a positional argument that only some uses of a command need.

    Raises:
      UsageError: it was not given.
    """
    if value is None:
        raise UsageError(f"{name} is missing; see {prog} --help")
    return value
