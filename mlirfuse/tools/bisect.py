"""`mlirfuse-bisect MODEL --failure=KIND`: finds the rewrite with which a model fails."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlirfuse.core import UsageError
from mlirfuse.support import shapes
from mlirfuse.tools import arguments, files
from mlirfuse.tools.diagnostics import guard, required, warn

if TYPE_CHECKING:
    import argparse

    from mlirfuse.debug.bisect import Bisect, Finding
    from mlirfuse.debug.oracle import Failure
    from mlirfuse.options import FusionOptions
    from mlirfuse.tools.values import Array

PROG = "mlirfuse-bisect"

FOLDER = "mlirfuse-bisect"
"""Default of `--output`."""

STATE = "verdicts.json"
"""File of the output folder from which a search that was interrupted goes on."""

_KINDS = ("compile", "crash", "numbers", "slower")

_EXAMPLES = (
    "mlirfuse-bisect model.onnx --failure=numbers --tolerance=1e-3",
    "mlirfuse-bisect block.pt2 --failure=compile --target=cuda:sm_90 --jobs=4",
    "mlirfuse-bisect model.mlir --failure=slower --factor=1.5 --input=4x128xi64=1",
    "mlirfuse-bisect model.mlir --command='python check.py %s'",
)


def parser() -> arguments.Parser:
    """The parser of the command."""
    made = arguments.Parser(
        f"{PROG} MODEL --failure=KIND [-o DIR] [switches]",
        "Find the rewrite with which a model fails, in about log2(n) compiles, and write the\n"
        "smallest program that fails the same way.",
        _EXAMPLES,
    )
    group = made.add_argument_group("input and output")
    group.add_argument("model", nargs="?", metavar="MODEL", help="a model, as for mlirfuse-compile")
    group.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        default=FOLDER,
        help="folder for the reduced program, its inputs and the script; a search that was"
        f" interrupted goes on from it (default: {FOLDER})",
    )
    arguments.add_target(group)
    arguments.add_function(group)
    arguments.add_shapes(group)
    group.add_argument(
        "--input",
        action="append",
        metavar="TENSOR",
        help="arguments in order, as for mlirfuse-run; random ones where none is given",
    )
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of random arguments (default: 0)"
    )
    group = made.add_argument_group("the failure")
    group.add_argument(
        "--failure",
        choices=_KINDS,
        metavar="KIND",
        help="compile: code generation fails; crash: the compiler or the program dies or does not"
        " end; numbers: the results differ from the unfused program's; slower: it takes longer",
    )
    group.add_argument(
        "--command",
        metavar="WORDS",
        help="a command with %%s for the program; its exit code is 0 for a good program and"
        " 1 to 124 for a bad one",
    )
    group.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="for numbers: error allowed, relative to a result's largest magnitude",
    )
    group.add_argument(
        "--factor",
        type=float,
        metavar="X",
        help="for slower: times the unfused program's time (default: 1.2)",
    )
    group.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="programs compiled at once (default: 1)"
    )
    group.add_argument(
        "--timeout",
        type=arguments.seconds("--timeout"),
        metavar="SECONDS",
        help="seconds that each step of the compiler and each call may take",
    )
    arguments.add_switches(made)
    arguments.add_general(made, verbose="log one line a program on stderr, as on a terminal")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return guard(PROG, _work, argv)


def _work(argv: Sequence[str]) -> int:
    args = parser().read(argv)
    options = arguments.options_from(args, PROG)
    model = required(args.model, "MODEL", PROG)
    failure = _failure(args)
    inputs = _inputs(args)
    if args.jobs < 1:
        raise UsageError(f"--jobs takes a number from 1, not {args.jobs}")
    from mlirfuse.compilation import open_model
    from mlirfuse.debug.bisect import Bisect
    from mlirfuse.debug.reproducer import FILES

    words = [text.removeprefix("@") for text in args.input or ()]
    written = [("--output", Path(args.output, name)) for name in (*FILES, STATE)]
    files.keep_inputs([model, *words, *options.load_pass], written)
    folder = files.directory(args.output)
    with open_model(
        model,
        shapes.example_inputs(args.shapes),
        target=args.target,
        options=options,
        function=args.function,
        timeout=args.timeout,
    ) as work:
        search = Bisect(
            work,
            failure,
            inputs=inputs,
            seed=args.seed,
            jobs=args.jobs,
            state=folder / STATE,
            log=_log if args.verbose or sys.stderr.isatty() else lambda text: None,
        )
        found = search.find()
        for note in search.notes:
            warn(PROG, note)
        _report(args, options, search, found, folder)
    return 0


def _failure(args: argparse.Namespace) -> Failure:
    """The failure to search for.

    Raises:
      UsageError: none or two are given, or a value that belongs to another kind.
    """
    from mlirfuse.debug.oracle import DEFAULT_FACTOR, Failure

    if (args.failure is None) == (args.command is None):
        raise UsageError(f"give --failure={'|'.join(_KINDS)} or --command, one of them")
    for name, kind in (("tolerance", "numbers"), ("factor", "slower")):
        value = getattr(args, name)
        if value is None:
            continue
        if args.failure != kind:
            raise UsageError(f"--{name} belongs to --failure={kind}")
        if not 0 <= value < float("inf"):
            raise UsageError(f"--{name} takes a number from 0, not {value}")
    return Failure(
        kind=args.failure or "command",
        tolerance=args.tolerance,
        factor=DEFAULT_FACTOR if args.factor is None else args.factor,
        command=args.command or "",
    )


def _inputs(args: argparse.Namespace) -> list[Array] | None:
    from mlirfuse.tools import values

    if args.input is None:
        return None
    return [values.read(text, seed=args.seed, index=i) for i, text in enumerate(args.input)]


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _report(
    args: argparse.Namespace,
    options: FusionOptions,
    search: Bisect,
    found: Finding,
    folder: Path,
) -> None:
    write = sys.stdout.write
    for index, culprit in enumerate(found.culprits):
        if index:
            write("\n")
        write(culprit.text())
        place = folder if len(found.culprits) == 1 else folder / str(index)
        reproducer = search.reduce(culprit)
        script = reproducer.write(place)
        scope = "this match alone" if reproducer.alone else "the whole model up to this match"
        write(f"repro:  {script} ({scope})\n")
    words = ["mlirfuse-compile", args.model, "-o", "OUT.vmfb", f"--target={args.target}"]
    if args.function:
        words.append(f"--function={args.function}")
    if args.shapes:
        words.append(f"--shapes={args.shapes}")
    write(f"avoid:  {shlex.join([*words, *options.to_switches(), found.switch])}\n")
    again = f", {search.known} known before" if search.known else ""
    write(f"{found.rewrites} rewrites, {found.compiles} programs compiled{again}\n")
