"""`mlirfuse-run OUT.vmfb --input=...`: runs a program and prints, saves or compares its results."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlirfuse.core import UsageError
from mlirfuse.support.atomic_file import replacing
from mlirfuse.tools import arguments, files
from mlirfuse.tools.diagnostics import guard, required

if TYPE_CHECKING:
    import argparse

    from mlirfuse.tools.values import Array

PROG = "mlirfuse-run"

RTOL = 1e-4
"""Default of `--rtol`: some hundred roundings of f32 (6e-8 each) that do not cancel."""

ATOL = 1e-5
"""Default of `--atol`, for results near zero."""

_EXAMPLES = (
    "mlirfuse-run model.vmfb --input=2x3xf32=0 --input=4xi64=1,2,3,4",
    "mlirfuse-run model.vmfb --input=@ids.npy --output=@out.npy --print",
    "mlirfuse-run model.vmfb --input=1x3x224x224xf32 --seed=7 --device=cuda",
    "mlirfuse-run model.vmfb --input=@x.npy --expected=@y.npy --rtol=1e-3",
    "mlirfuse-run model.vmfb --parameters=model=weights.irpa --input=1x128xi64=0",
)


def parser() -> arguments.Parser:
    """The parser of the command."""
    made = arguments.Parser(
        f"{PROG} OUT.vmfb [--input=TENSOR ...] [switches]",
        "Run a compiled program. TENSOR is @file.npy, file.npy, 2x3xf32=0 (one value for all),\n"
        "4xi64=1,2,3,4 (each value), or 2x3xf32 (random).",
        _EXAMPLES,
    )
    group = made.add_argument_group("input")
    group.add_argument("program", nargs="?", metavar="OUT.vmfb", help="a compiled program")
    group.add_argument(
        "--input", action="append", default=[], metavar="TENSOR", help="one argument, in order"
    )
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of random values (default: 0)"
    )
    group.add_argument(
        "--function", metavar="NAME", help="function to call (default: that of the model)"
    )
    group.add_argument(
        "--device", metavar="URI", help="IREE's device: local-task, cuda, hip, vulkan"
    )
    group.add_argument(
        "--guard",
        choices=("error", "off"),
        metavar="error|off",
        help="arguments of other shapes and types: an error, or left to IREE's own checks"
        " (default: error, unless compiled without the feature)",
    )
    group.add_argument(
        "--parameters",
        action="append",
        default=[],
        metavar="[SCOPE=]FILE",
        help="an archive of the program's parameters: .irpa, .gguf or .safetensors; repeated",
    )
    group = made.add_argument_group("results")
    group.add_argument(
        "--output", action="append", default=[], metavar="@FILE.npy", help="save a result, in order"
    )
    group.add_argument(
        "--print", action="store_true", help="print the results; the default without --output"
    )
    group.add_argument(
        "--expected",
        action="append",
        default=[],
        metavar="TENSOR",
        help="compare a result, in order; exit code 1 when they differ",
    )
    for name, value, text in (("rtol", RTOL, "relative"), ("atol", ATOL, "absolute")):
        group.add_argument(
            f"--{name}",
            type=float,
            default=value,
            metavar="X",
            help=f"{text} tolerance of --expected (default: {value:g})",
        )
    arguments.add_general(made, verbose="log the signature of the program on stderr")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return guard(PROG, _work, argv)


def _work(argv: Sequence[str]) -> int:
    args = parser().read(argv)
    name = required(args.program, "OUT.vmfb", PROG)
    from mlirfuse.tools import values

    scopes = dict(map(arguments.scoped, args.parameters))
    read = [text.removeprefix("@") for text in (*args.input, *args.expected)]
    written = [("--output", _file(text)) for text in args.output]
    files.keep_inputs([name, *read, *scopes.values()], written)
    inputs = [values.read(text, seed=args.seed, index=i) for i, text in enumerate(args.input)]
    expected = [values.read(text, seed=args.seed, index=i) for i, text in enumerate(args.expected)]
    outputs = [_file(text) for text in args.output]
    with contextlib.ExitStack() as stack:
        paths = [stack.enter_context(replacing(output)) for output in outputs]
        results = _call(args, name, inputs)
        for given, flag in ((outputs, "--output"), (expected, "--expected")):
            if len(given) > len(results):
                raise UsageError(
                    f"{flag} is given {len(given)} times; the program has {len(results)} results"
                )
        for path, result in zip(paths, results, strict=False):
            values.save(path, result)
    if args.print or not (outputs or expected):
        for index, result in enumerate(results):
            sys.stdout.write(f"result {index}: {values.show(result)}\n")
    for index, (result, wanted) in enumerate(zip(results, expected, strict=False)):
        values.compare(f"result {index}", result, wanted, rtol=args.rtol, atol=args.atol)
    return 0


def _call(args: argparse.Namespace, name: str, inputs: Sequence[Array]) -> list[Array]:
    """Loads the program, calls it, and returns its results as numpy arrays in order."""
    import numpy as np

    from mlirfuse.runtime import load
    from mlirfuse.runtime.pytree import leaves

    program = load(
        name,
        function=args.function,
        device=args.device,
        guard=args.guard,
        parameters=dict(map(arguments.scoped, args.parameters)),
    )
    if args.verbose:
        print(program, file=sys.stderr)
    return [np.asarray(leaf) for leaf in leaves(program(*inputs))]


def _file(text: str) -> str:
    """Reads a value of `--output`.

    Raises:
      UsageError: it is not the name of a numpy file.
    """
    name = text.removeprefix("@")
    if Path(name).suffix != ".npy":
        raise UsageError(f"--output takes @FILE.npy, not '{text}'")
    return name
