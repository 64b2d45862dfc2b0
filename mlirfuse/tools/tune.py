"""`mlirfuse-tune`: searches settings for a model; measures rates and kernel configurations."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse import targets
from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.support import json_file, temporary
from mlirfuse.targets import kernel_configs, rates
from mlirfuse.targets.base import Target
from mlirfuse.tools import arguments, files, tune_model
from mlirfuse.tools import compile as compiling
from mlirfuse.tools.diagnostics import guard
from mlirfuse.tools.progress import shown

if TYPE_CHECKING:
    from iree.compiler import ir

PROG = "mlirfuse-tune"

_EXAMPLES = (
    "mlirfuse-tune model.onnx -o model.toml",
    "mlirfuse-tune model.onnx -o model.toml --shapes=1x128@3 --shapes=8x128",
    "mlirfuse-tune --merge laptop.toml server.toml -o fleet.toml",
    "mlirfuse-tune model.onnx -o model.vmfb",
    "mlirfuse-tune --calibrate",
    "mlirfuse-tune --calibrate --target=cuda:sm_90",
    "mlirfuse-tune --kernels --target=cuda:sm_90",
    "mlirfuse-tune --kernels model.pt2 --folder=candidates --target=cuda:sm_90",
    "mlirfuse-tune --measured=candidates/measured.json --target=cuda:sm_90",
    "mlirfuse-tune --show --target=cpu",
    "mlirfuse-tune --reset",
)


def parser() -> arguments.Parser:
    """The parser of the command."""
    made = arguments.Parser(
        f"{PROG} MODEL -o OUT.toml [--target=TARGET] [switches]\n"
        f"       {PROG} MODEL -o OUT.vmfb [--target=TARGET]\n"
        f"       {PROG} --merge A.toml B.toml -o OUT.toml\n"
        f"       {PROG} --calibrate|--kernels|--measured=FILE|--show|--reset [MODEL...] [switches]",
        "Search the settings with which a model is fastest, and write them as a profile for\n"
        "--profile; or measure it with and without fusion and keep the faster form; or measure\n"
        "copy bandwidth, launch cost and arithmetic rates of this machine's device, with which\n"
        "every later compilation for that target judges fusions; or kernel configurations.",
        _EXAMPLES,
    )
    group = made.add_argument_group("action")
    group.add_argument(
        *("-o", "--output"),
        metavar="OUT",
        help="OUT.toml: search, and write the profile; OUT.vmfb: compile MODEL as mlirfuse-compile"
        " --measure does, each function in its faster form",
    )
    group.add_argument(
        "--calibrate", action="store_true", help="measure, print and keep the rates of the target"
    )
    group.add_argument(
        "--kernels",
        action="store_true",
        help="build candidate kernels for the groups of the models, or for common shapes, measure"
        " them on the GPU and keep the fastest configurations; needs triton",
    )
    group.add_argument(
        "--measured",
        metavar="FILE",
        help="keep the configurations that measure.py measured elsewhere",
    )
    group.add_argument(
        "--show", action="store_true", help="print the rates in use and their source"
    )
    group.add_argument(
        "--reset",
        action="store_true",
        help="go back to the built-in rates and configurations of the target",
    )
    tune_model.add_arguments(made.add_argument_group("search and profiles"))
    group = made.add_argument_group("models and kernels")
    group.add_argument("model", metavar="MODEL", nargs="*", help="a model, as for mlirfuse-compile")
    group.add_argument(
        "--folder",
        metavar="DIR",
        help="only build: python DIR/measure.py measures on a machine with a GPU, without triton",
    )
    group.add_argument(
        "--table",
        metavar="FILE",
        help="for maintainers: with --kernels or --measured, measure the problems of a table of"
        " built-in configurations again, and write the results into it",
    )
    group = made.add_argument_group("the device")
    arguments.add_target(group)
    group.add_argument(
        "--device", metavar="URI", help="IREE's device: local-task, cuda (default: the target's)"
    )
    arguments.add_switches(made)
    arguments.add_general(made, verbose="print each measurement on stderr when it is done")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return guard(PROG, _work, argv)


def _work(argv: Sequence[str]) -> int:
    args = parser().read(argv)
    options = arguments.options_from(args, PROG)
    actions = [args.calibrate, args.kernels, args.measured is not None, args.show, args.reset]
    if sum(actions) + (args.output is not None) != 1:
        raise UsageError(
            "give MODEL -o OUT.toml, MODEL -o OUT.vmfb, --calibrate, --kernels, --measured, --show"
            " or --reset, one of them"
        )
    if args.output is not None:
        return _output(args, options)
    if args.merge or (word := tune_model.given(args)) is not None:
        raise UsageError(f"{'--merge' if args.merge else word} goes with -o OUT.toml")
    if not args.kernels and (args.model or args.folder):
        raise UsageError("MODEL goes with -o OUT.vmfb or --kernels, --folder with --kernels")
    table = None if args.table is None else Path(args.table)
    if table is not None and not args.kernels and args.measured is None:
        raise UsageError("--table goes with --kernels or --measured")
    files.keep_inputs([*args.model, args.measured], [("--table", table)])
    if args.reset:
        _reset(targets.parse(args.target))
        return 0
    if args.kernels:
        request = _Request(targets.parse(args.target), args.model, args.folder, table)
        return _kernels(request, verbose=args.verbose)
    if args.measured is not None:
        return _keep(targets.parse(args.target), _jobs(Path(args.measured)), table)
    if args.calibrate:
        _calibrate(args.target, args.device, verbose=args.verbose)
    target = targets.parse(args.target)
    sys.stdout.write(f"{target}: {target.source}\n{_table(target)}")
    return 0


def _output(args: argparse.Namespace, options: FusionOptions) -> int:
    """Makes the file of `-o`: a profile, or a program."""
    if args.output.endswith(tune_model.SUFFIX):
        if args.merge:
            return tune_model.merge(PROG, args.model, args.output)
        return tune_model.search(PROG, args, options)
    if args.merge or (word := tune_model.given(args)) is not None:
        raise UsageError(f"{'--merge' if args.merge else word} goes with -o OUT.toml")
    return _faster(args, options)


def _faster(args: argparse.Namespace, options: FusionOptions) -> int:
    """Compiles the model with each function in the form that is faster on this machine."""
    if len(args.model) != 1:
        raise UsageError(f"-o is given with {len(args.model)} models; it takes one")
    words = [args.model[0], "-o", args.output, f"--target={args.target}", "--measure"]
    return compiling.main([*words, *options.to_switches()])


def _reset(target: Target) -> None:
    had = rates.forget(target)
    change = "has its built-in rates again" if had else "had no measured rates"
    sys.stdout.write(f"{target} {change}\n")
    if kernel_configs.path() is not None and kernel_configs.forget(target):
        sys.stdout.write(f"{target} has its built-in kernel configurations again\n")


@contextlib.contextmanager
def _said(stage: str, *, lines: bool) -> Iterator[Callable[[str], None]]:
    """Shows each message of a stage, which begins with its count: as a line, or on a terminal.

    Args:
      stage: name of the stage.
      lines: whether each message is a line of its own.
    """
    if lines:
        yield lambda text: print(text, file=sys.stderr)
        return
    with shown(stage) as show:

        def say(text: str) -> None:
            show(f"{stage} {text}", 0, 0)

        yield say


@dataclasses.dataclass(frozen=True, slots=True)
class _Request:
    """The arguments of `--kernels`.

    Attributes:
      target: the target.
      models: files of models, whose groups are measured.
      folder: the folder of candidates that are only built; None to measure them here.
      table: the table of built-in configurations to measure again; None for the user's own.
    """

    target: Target
    models: list[str]
    folder: str | None
    table: Path | None


def _kernels(request: _Request, *, verbose: bool) -> int:
    """Builds candidates, measures them and keeps the fastest."""
    from iree.compiler import ir

    from mlirfuse.kernels import triton_compiler
    from mlirfuse.tuning import kernel_search, kernel_timing

    target, folder = request.target, request.folder
    if not triton_compiler.supports(target) or target.name != "cuda":
        raise UsageError(f"no kernels are built for {target}; choose cuda:sm_80 to cuda:sm_90")
    refusal = triton_compiler.missing()
    if refusal is not None:
        raise UsageError(refusal.detail)
    if folder is None and request.table is None and kernel_configs.path() is None:
        raise UsageError(
            f"{kernel_configs.VARIABLE}=off leaves no place for configurations; unset it"
        )
    with temporary.folder("mlirfuse-tune-") as own, ir.Context():
        place = Path(folder or own)
        place.mkdir(parents=True, exist_ok=True)
        with _said("building", lines=verbose) as say:
            count = kernel_search.build(_modules(request), target, place, say)
        if folder is not None:
            sys.stdout.write(f"{count} candidates in {place}; next: python {place}/measure.py\n")
            return 0
        try:
            with _said("measuring", lines=verbose) as say:
                jobs = kernel_timing.measured(place, say)
        except kernel_timing.DeviceError as error:
            raise MlirfuseError(f"cannot measure here: {error}; see --folder") from error
        return _keep(target, jobs, request.table)


def _modules(request: _Request) -> Iterator[ir.Module]:
    """The modules whose groups are measured: of models, of a table, or common ones."""
    from mlirfuse.tuning import config_table, problems

    if request.models:
        return _grouped(request.models, request.target)
    if request.table is not None and request.table.exists():
        return problems.modules(config_table.problems(request.table))
    return problems.modules()


def _grouped(models: list[str], target: Target) -> Iterator[ir.Module]:
    """The groups that a model has for a target."""
    from iree.compiler import ir

    from mlirfuse.backend.grouping_process import group
    from mlirfuse.compilation import open_model

    for model in models:
        with open_model(model, target=target, options=FusionOptions()) as work:
            grouped = work.folder / "grouped.mlirbc"
            group(work.normalized, grouped, target=target, options=work.compiler.options)
            yield ir.Module.parse(grouped.read_bytes())


def _jobs(file: Path) -> list[dict[str, Any]]:
    def is_result(value: Any) -> bool:
        return isinstance(value, list) and all(
            isinstance(job, dict) and "problem" in job for job in value
        )

    jobs: list[dict[str, Any]] = json_file.read(file, is_result, "a result of measure.py")
    return jobs


def _keep(target: Target, jobs: list[dict[str, Any]], table: Path | None) -> int:
    """Stores and prints the fastest candidates that beat the computed defaults."""
    from mlirfuse.tuning import config_table, kernel_search

    if not any("us" in job for job in jobs):
        raise MlirfuseError("no candidate was measured")
    found = kernel_search.best(jobs)
    for entry in found:
        if entry.config is not None:
            problem, config = _fields(entry.problem), _fields(entry.config)
            sys.stdout.write(f"{entry.us:10.1f} us  {entry.family} {problem}: {config}\n")
    kept = sum(entry.config is None for entry in found)
    if kept:
        others = f"{kept} of {len(found)}"
        sys.stdout.write(f"the computed configuration is kept for {others} problems\n")
    if table is not None:
        count = config_table.update(table, jobs)
        sys.stdout.write(f"{target}: entries in {table}: {count}\n")
    else:
        file = kernel_configs.store(target, found)
        sys.stdout.write(f"{target}: {len(found)} kernels, kept in {file}\n")
    return 0


def _fields(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _calibrate(spec: str, device: str | None, *, verbose: bool) -> None:
    from mlirfuse.tuning import calibrate

    if rates.path() is None:
        raise UsageError(f"{rates.VARIABLE}=off leaves no place for measured rates; unset it")
    target = targets.parse(spec)
    with _said("calibrating", lines=verbose or not sys.stderr.isatty()) as say:
        measured = calibrate.measure(target, device=device, log=say)
    rates.store(target, measured)


def _table(target: Target) -> str:
    rows = [
        ("copy bandwidth", f"{target.bandwidth / 1e9:.4g} GB/s"),
        ("one more dispatch", f"{target.launch_us:.3g} us"),
        ("elementwise f32", f"{target.vector_rate / 1e9:.4g} GFLOP/s"),
        ("exponentials f32", f"{target.special_rate / 1e9:.4g} G/s"),
        *(
            (f"matmul {kind}", f"{rate / 1e9:.4g} GFLOP/s")
            for kind, rate in sorted(target.matmul_rate.items())
        ),
    ]
    return "".join(f"  {name:<18} {text}\n" for name, text in rows)
