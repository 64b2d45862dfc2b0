"""`mlirfuse-bench MODEL --against=stock,eager,...`: compares a model's time with other systems'."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlirfuse import targets
from mlirfuse.core import MlirfuseError, UsageError, nearest
from mlirfuse.tools import answers, arguments, files
from mlirfuse.tools.diagnostics import guard, required, warn
from mlirfuse.tools.progress import shown

if TYPE_CHECKING:
    import argparse

    from mlirfuse.benchmarking.sides.race import Outcome, Work

PROG = "mlirfuse-bench"

DEFAULT_SIDES = "stock,eager,inductor,ort,openvino,xla"

SECONDS = 20.0
"""Default of `--seconds`."""

MAX_QUIET_LOAD = 0.5
"""Maximum load average of an otherwise idle machine."""

_EXAMPLES = (
    "mlirfuse-bench model.onnx --against=stock,ort,openvino --threads=2",
    "mlirfuse-bench package.models:make_bert --against=stock,eager,inductor --seconds=60",
    "mlirfuse-bench block.pt2 --input=8x64xf32 --json > times.json",
    "mlirfuse-bench block.pt2 --against=stock --disable-pass=softmax_fusion",
)


def parser() -> arguments.Parser:
    """The parser of the command."""
    from mlirfuse.benchmarking.sides import SIDES

    made = arguments.Parser(
        f"{PROG} MODEL [--against=SIDE,...] [--target=TARGET] [switches]",
        "Compare the time of a compiled model with that of other systems, each in a process of its"
        " own.\nThe processes make bursts of calls in turns; a difference counts only outside the"
        " noise.",
        _EXAMPLES,
    )
    group = made.add_argument_group("what is compared")
    group.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help=".mlir, .mlirbc, .onnx, .pt2, a serialized jax.export, or package.module:function",
    )
    group.add_argument(
        "--against",
        default=DEFAULT_SIDES,
        metavar="SIDE,...",
        help="; ".join(f"{name}: {side.summary}" for name, side in SIDES.items())
        + f" (default: {DEFAULT_SIDES})",
    )
    arguments.add_target(group)
    arguments.add_function(group)
    arguments.add_shapes(group)
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="TENSOR",
        help="one argument of the call, in order, as for mlirfuse-run (default: the model's"
        " example inputs, or random values)",
    )
    group = made.add_argument_group("measuring")
    group.add_argument(
        "--threads",
        type=_threads,
        metavar="N",
        help="threads of every side (default: one for each core of this process)",
    )
    group.add_argument(
        "--seconds",
        type=arguments.seconds("--seconds"),
        default=SECONDS,
        metavar="S",
        help=f"time of all bursts; 12 to 60 rounds are made (default: {SECONDS:g})",
    )
    group.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="error relative to a result's largest magnitude up to which sides agree (default: 1e-3"
        " for f32, 2e-2 for f16, 1e-1 for bf16)",
    )
    group.add_argument(
        "--timeout",
        type=arguments.seconds("--timeout"),
        metavar="SECONDS",
        help="give up when one step of IREE's compiler takes longer",
    )
    group.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    arguments.add_switches(made)
    arguments.add_general(made, verbose="print the notes of the compilation on stderr")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return guard(PROG, _work, argv)


def _work(argv: Sequence[str]) -> int:
    args = parser().read(argv)
    options = arguments.options_from(args, PROG)
    name = required(args.model, "MODEL", PROG)
    from mlirfuse.benchmarking.sides import OURS, race

    _check_model(name)
    given = {switch: v for switch, v in options.to_dict().items() if switch in options.origins}
    work = _request(args, name, given)
    load = os.getloadavg()[0]
    if load > MAX_QUIET_LOAD:
        warn(PROG, f"other processes are running (load {load:.1f}): small differences are lost")
    with shown(f"preparing {name}") as show:
        outcome = race.run(work, _against(args.against), show)
    if args.verbose:
        for note in outcome.facts[OURS]["notes"]:
            warn(PROG, note)
    if args.json:
        sys.stdout.write(json.dumps(outcome.to_dict(), indent=answers.JSON_INDENT) + "\n")
    else:
        sys.stdout.write(_text(outcome))
    if not outcome.comparisons:
        raise MlirfuseError("no other side ran")
    return 0


def _check_model(name: str) -> None:
    """Refuses a file that cannot be read, before a process is started.

    Raises:
      UsageError, ImportFailedError: as `mlirfuse.compile`.
    """
    from mlirfuse import frontends

    if not frontends.is_reference(name):
        frontends.kind_of_file(Path(name))


def _request(args: argparse.Namespace, name: str, options: dict[str, object]) -> Work:
    from mlirfuse.benchmarking.sides.race import Work
    from mlirfuse.tools import values

    files.keep_inputs([name], [])
    read = [values.read(text, seed=0, index=index) for index, text in enumerate(args.input)]
    return Work(
        model=name,
        target=targets.parse(args.target),
        threads=args.threads or len(os.sched_getaffinity(0)),
        seconds=args.seconds,
        options=options,
        inputs=read or None,
        function=args.function,
        shapes=args.shapes,
        timeout=args.timeout,
        tolerance=args.tolerance,
    )


def _against(text: str) -> list[str]:
    """The names of sides.

    Raises:
      UsageError: there is none, or an unknown one.
    """
    from mlirfuse.benchmarking.sides import SIDES

    names = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for name in names:
        if name not in SIDES:
            raise UsageError(f"--against: unknown side '{name}'{nearest(name, SIDES)}")
    if not names:
        raise UsageError(f"--against names no side; accepted: {', '.join(SIDES)}")
    return names


def _text(outcome: Outcome) -> str:
    """The table."""
    from mlirfuse.benchmarking.sides import CONTROL, OURS

    work, samples = outcome.work, outcome.samples
    threads = "1 thread" if work.threads == 1 else f"{work.threads} threads"
    lines = [
        f"{work.model} on {work.target}, {threads}: {outcome.rounds} rounds,"
        f" load {outcome.load:.1f}",
        f"{'side':<10} {'ms':>9}  over ours  {'quartiles':<13} {'95 % interval':<13} ours is",
    ]
    for name, facts in outcome.facts.items():
        if "said" in facts:
            lines.append(f"{name:<10} {'-':>9}  {facts['said']}")
            continue
        time = f"{name:<10} {samples.milliseconds(name):9.4g}"
        found = outcome.comparisons.get(name)
        if name == OURS:
            lines.append(time)
        elif found is None:
            control = samples.ratio(CONTROL, OURS)
            shown = f"{control.median:9.3f}  {control.low:.3f}-{control.high:.3f}"
            lines.append(f"{time}  {shown}   the same program in another process")
        else:
            quartiles = f"{found.ratio.low:.3f}-{found.ratio.high:.3f}"
            interval = f"{found.interval[0]:.3f}-{found.interval[1]:.3f}"
            lines.append(
                f"{time}  {found.ratio.median:9.3f}  {quartiles:<13} {interval:<13} {found.verdict}"
            )
    factor = next((c.noise for c in outcome.comparisons.values()), None)
    if factor is not None:
        lines.append(f"noise: ratios from {1 / factor:.3f} to {factor:.3f} are no difference")
    return "".join(f"{line}\n" for line in lines)


def _threads(text: str) -> int:
    """Reads a number of threads.

    Raises:
      UsageError: it is not a number from 1.
    """
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"--threads takes a number from 1, not '{text}'")
    return int(text)
