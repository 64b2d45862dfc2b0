"""Starts Python commands as forks of a process that has imported them already.

A start of `mlirfuse-opt` imports for a second and works for a tenth of one. A `Process` is a
`subprocess.Popen` whose child, instead of `exec`, goes on with the command's entry point: it has
its own streams, directory, environment and exit code, and may die without harm to others. Commands
that were not imported are started as usual.
"""

from __future__ import annotations

import atexit
import importlib
import io
import os
import pkgutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

COMMANDS = {
    "mlirfuse-opt": "mlirfuse.tools.opt",
    "filecheck": "filecheck.main",
}
"""Command -> module of its `main`."""

PACKAGES = ("backend", "builders", "explain", "kernels", "patterns", "pipelines", "plugins")
"""Packages of mlirfuse whose modules the commands import when they need them."""

NOT_IMPORTED = ("mlirfuse.kernels.device", "mlirfuse.kernels.triton_worker")
"""Modules that import Triton or PyTorch."""


def preload_tools() -> None:
    """Imports `mlirfuse-opt`, `filecheck` and the modules that they use."""
    for name in ("mlirfuse-opt", "filecheck"):
        importlib.import_module(COMMANDS[name])
    for package in PACKAGES:
        found = importlib.import_module(f"mlirfuse.{package}")
        for module in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
            if not module.name.startswith(NOT_IMPORTED):
                importlib.import_module(module.name)
    importlib.import_module("iree.compiler.ir")


class Process(subprocess.Popen[Any]):
    """A command that starts as a fork where it was imported; the arguments are those of `Popen`."""

    warm = True
    """Whether forks are made at all."""

    def __init__(self, args: Any, **options: Any) -> None:
        main, seconds, words = _parsed(args)
        if main is not None and self.warm:
            environment = options.get("env")
            options["preexec_fn"] = lambda: become(main, words, environment, seconds)
            options["close_fds"] = False  # the child does it, before it runs the command
        super().__init__(args, **options)


def _parsed(args: Any) -> tuple[Callable[[], object] | None, int, list[str]]:
    """Entry point, seconds of the time limit and arguments of `[timeout SECONDS] COMMAND ...`."""
    words, seconds = list(args), 0
    if Path(words[0]).name == "timeout":
        seconds, words = int(words[1]), words[2:]
    module = sys.modules.get(COMMANDS.get(Path(words[0]).name, ""))
    return (None if module is None else module.main), seconds, words


def become(
    main: Callable[[], object],
    words: list[str],
    environment: Mapping[str, str] | None,
    seconds: int,
) -> None:
    """Runs the command in this child, in place of `exec`; does not return."""
    code: object = 1
    try:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        if environment is not None:
            os.environ.clear()
            os.environ.update(environment)
        atexit._clear()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if seconds:  # the time limit is that of the command and its children
            os.setsid()
            signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGKILL))
            signal.alarm(seconds)
        sys.stdin, sys.stdout, sys.stderr = map(_stream, range(3))
        sys.argv = words
        code = main()
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        code = 120  # as Python has it
    os._exit(int(code or 0))


def _stream(number: int) -> io.TextIOWrapper:
    """Python's stream of one of its first three file descriptors."""
    raw = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115
    errors = "backslashreplace" if number == 2 else "strict"
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=number == 2)
