"""`mlirfuse-tune --calibrate`: measures the rates with which fusions are judged on this machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mlirfuse import targets
from mlirfuse.core import UsageError
from mlirfuse.targets import rates
from mlirfuse.targets.base import Target
from mlirfuse.tools import arguments
from mlirfuse.tools.diagnostics import guard

PROG = "mlirfuse-tune"

_EXAMPLES = (
    "mlirfuse-tune --calibrate",
    "mlirfuse-tune --calibrate --target=cuda:sm_90",
    "mlirfuse-tune --show --target=cpu",
    "mlirfuse-tune --reset",
)


def parser() -> arguments.Parser:
    """The parser of the command."""
    made = arguments.Parser(
        f"{PROG} --calibrate|--show|--reset [--target=TARGET]",
        "Measure copy bandwidth, launch cost and arithmetic rates of this machine's device, with\n"
        "which every later compilation for that target judges fusions.",
        _EXAMPLES,
    )
    group = made.add_argument_group("what to do")
    group.add_argument(
        "--calibrate", action="store_true", help="measure, print and keep the rates of the target"
    )
    group.add_argument(
        "--show", action="store_true", help="print the rates in use and where they come from"
    )
    group.add_argument(
        "--reset", action="store_true", help="go back to the built-in rates of the target"
    )
    group = made.add_argument_group("the device")
    group.add_argument(
        "--target", default="cpu", metavar="TARGET", help=f"{arguments.TARGETS} (default: cpu)"
    )
    group.add_argument(
        "--device", metavar="URI", help="of IREE's driver (default: the target's): local-task, cuda"
    )
    arguments.add_general(made, verbose="print each measurement on stderr when it is done")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return guard(PROG, _work, argv)


def _work(argv: Sequence[str]) -> int:
    args = parser().read(argv)
    if args.calibrate + args.show + args.reset != 1:
        raise UsageError("give --calibrate, --show or --reset, one of them")
    if args.reset:
        name = str(targets.parse(args.target))
        had = rates.forget(targets.parse(args.target))
        said = "has its built-in rates again" if had else "had no measured rates"
        sys.stdout.write(f"{name} {said}\n")
        return 0
    if args.calibrate:
        _calibrate(args.target, args.device, verbose=args.verbose)
    target = targets.parse(args.target)
    sys.stdout.write(f"{target}: {target.source}\n{_table(target)}")
    return 0


def _calibrate(spec: str, device: str | None, *, verbose: bool) -> None:
    from mlirfuse import calibrate

    if rates.path() is None:
        raise UsageError(f"{rates.VARIABLE}=off leaves no place for measured rates; unset it")
    target = targets.parse(spec)

    def say(text: str) -> None:
        if verbose or sys.stderr.isatty():
            sys.stderr.write(f"{text}\n")

    rates.store(target, calibrate.measure(target, device=device, say=say))


def _table(target: Target) -> str:
    rows = [
        ("copy bandwidth", f"{target.bandwidth / 1e9:.4g} GB/s"),
        ("one more dispatch", f"{target.launch_us:.3g} us"),
        ("elementwise f32", f"{target.vector_rate / 1e9:.4g} GFLOP/s"),
        ("exponentials f32", f"{target.special_rate / 1e9:.4g} G/s"),
        *(
            (f"products {kind}", f"{rate / 1e9:.4g} GFLOP/s")
            for kind, rate in sorted(target.matmul_rate.items())
        ),
    ]
    return "".join(f"  {name:<18} {text}\n" for name, text in rows)
