"""Errors that mlirfuse raises on purpose, and the end of a message about an unknown name."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable


class MlirfuseError(Exception):
    """Base of every error that mlirfuse raises on purpose.

    `exit_code` is the exit status of a command line: 1 when the work failed, 2 for wrong usage. The
    message is one line with the failure, its place, and the accepted input.
    """

    exit_code = 1


class UsageError(MlirfuseError):
    """The request itself is wrong: an unknown name, contradicting switches, a missing file."""

    exit_code = 2


class ImportFailedError(MlirfuseError):
    """A model could not be turned into MLIR.

    Attributes:
      op: name of the op in its dialect, e.g. `torch.aten.cumsum`; empty when it is not known.
      place: source position of the op, `file:line:col`; empty when it is not known.
    """

    def __init__(self, message: str, *, op: str = "", place: str = "") -> None:
        super().__init__(message)
        self.op = op
        self.place = place


class CompileFailedError(MlirfuseError):
    """`iree-compile` refused, died or ran out of time.

    Attributes:
      stage: `import`, `global-optimization` or `codegen`.
      returncode: exit status of the process; negative for a signal; None after a timeout.
      diagnostics: everything the process wrote on stderr.
    """

    def __init__(
        self, message: str, *, stage: str, returncode: int | None = None, diagnostics: str = ""
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.returncode = returncode
        self.diagnostics = diagnostics


class PassFailedError(MlirfuseError):
    """A pass raised, or left IR that does not verify; the caller's module is untouched.

    Attributes:
      pass_name: the pass; empty when it is not known.
      function: symbol name of the function that it was at work in; empty when it is not known.
    """

    def __init__(self, message: str, *, pass_name: str = "", function: str = "") -> None:
        super().__init__(message)
        self.pass_name = pass_name
        self.function = function


class MustFuseError(MlirfuseError):
    """Ops that must be in one dispatch are in several."""


class CallError(MlirfuseError):
    """A compiled program was called with arguments of other shapes or types than compiled for."""


@functools.cache
def normalized(name: str) -> str:
    """Returns the form in which names are compared: case, `-` and `_` do not count."""
    return name.strip().lower().replace("-", "").replace("_", "")


def nearest(name: str, choices: Iterable[str]) -> str:
    """The end of an error message for an unknown name: a suggestion and the list of choices."""
    known = sorted(choices)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"{hint} (known: {', '.join(known)})" if known else hint
