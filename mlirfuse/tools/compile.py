"""`mlirfuse-compile MODEL -o OUT.vmfb`: imports, fuses and compiles a model."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.options import flag
from mlirfuse.support import shapes, temporary
from mlirfuse.support.atomic_file import replacing
from mlirfuse.support.contained import described, trace
from mlirfuse.tools import answers, arguments, files
from mlirfuse.tools.diagnostics import guard, required, warn
from mlirfuse.tools.progress import shown

if TYPE_CHECKING:
    import argparse

    from mlirfuse.options import FusionOptions
    from mlirfuse.runtime.module import FusedModule

PROG = "mlirfuse-compile"

_EXAMPLES = (
    "mlirfuse-compile model.onnx -o model.vmfb --target=cpu --explain",
    "mlirfuse-compile block.pt2 -o block.vmfb --target=cuda:sm_90 --report=block.html",
    "mlirfuse-compile package.models:make_bert -o bert.vmfb --disable-pass=softmax_fusion",
)


def parser() -> arguments.Parser:
    """The parser of the command."""
    made = arguments.Parser(
        f"{PROG} MODEL -o OUT.vmfb [--target=TARGET] [switches]",
        "Import a model, fuse its operators and compile it to a program for iree-runtime.",
        _EXAMPLES,
    )
    group = made.add_argument_group("input and output")
    group.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help=".mlir, .mlirbc, .onnx, .pt2, a serialized jax.export, or package.module:function"
        " that is run and returns a model and example inputs",
    )
    group.add_argument("-o", "--output", metavar="OUT.vmfb", help="file for the program")
    arguments.add_target(group)
    arguments.add_function(group)
    arguments.add_shapes(group)
    group.add_argument(
        "--stock", action="store_true", help="compile without fusion of ours, to compare with"
    )
    group.add_argument(
        "--count-stock",
        action="store_true",
        help="count and list the dispatches of the program without fusion of ours, too",
    )
    group.add_argument(
        "--no-cache", action="store_true", help="neither read nor write the compile cache"
    )
    group.add_argument(
        "--timeout",
        type=arguments.seconds("--timeout"),
        metavar="SECONDS",
        help="give up when one step of the compiler takes longer",
    )
    group.add_argument(
        "--verify",
        nargs="?",
        const="outputs",
        choices=("outputs", "groups"),
        metavar="groups",
        help="compare the results with the unfused program's and with float64; with =groups each"
        " group alone, too; a difference is an error",
    )
    group.add_argument(
        "--measure",
        action="store_true",
        help="time each function with and without fusion on this machine, and keep the faster form",
    )
    arguments.add_switches(made)
    arguments.add_reports(made)
    group = made.add_argument_group("the compiled program and its decisions")
    arguments.add_kernels(group)
    group.add_argument("--report", metavar="FILE.html", help="a page that shows every decision")
    group.add_argument("--decisions", metavar="FILE.json", help="every decision as JSON")
    arguments.add_dump(group)
    arguments.add_general(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return guard(PROG, _work, argv)


def _work(argv: Sequence[str]) -> int:
    args = parser().read(argv)
    options = arguments.options_from(args, PROG)
    _check(args, options)
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(replacing(args.output))
        page = stack.enter_context(replacing(args.report)) if args.report else None
        decisions = stack.enter_context(replacing(args.decisions)) if args.decisions else None
        drawing = stack.enter_context(replacing(args.graph)) if args.graph else None
        dumped = stack.enter_context(_dumping(args))
        with shown(f"compiling {args.model} for {args.target}"):
            build = _verified if args.verify else _compile
            fused = build(args, options, dumped)
        fused.save(program)
        if decisions is not None:
            from mlirfuse.explain.documents import report_document

            text = json.dumps(report_document(fused.report), indent=answers.JSON_INDENT)
            decisions.write_text(f"{text}\n", encoding="utf-8")
        if drawing is not None:
            with _rendering(options, "--graph", drawing):
                from mlirfuse.explain.files import graph_text

                drawing.write_text(graph_text(fused.report, args.graph), encoding="utf-8")
        if page is not None:
            with _rendering(options, "--report", page):
                from mlirfuse import explain
                from mlirfuse.explain import ir_files

                explain.html(fused.report, page, title=args.model, **ir_files.read(dumped))
    if args.verbose:
        for done in fused.report.passes:
            answers.log_pass(done)
    for name, times in fused.measured.items():
        print(
            f"{name}: fused {times['fused_ms']:.3f} ms, stock {times['stock_ms']:.3f} ms:"
            f" {times['verdict']}: kept {times['kept']}",
            file=sys.stderr,
        )
    with _rendering(options, "the explanation"):
        answers.answer(args, [fused.report])
    return 0


@contextlib.contextmanager
def _rendering(options: FusionOptions, name: str, path: Path | None = None) -> Iterator[None]:
    """Leaves out an explanation that our own code cannot make: the program is written.

    Args:
      options: with the feature `fallback` off the exception is raised.
      name: the explanation, for the warning.
      path: its file, which is not written then.
    """
    try:
        yield
    except (MlirfuseError, OSError):
        raise
    except Exception as error:
        if not options.feature("fallback"):
            raise
        trace(error)
        if path is not None:
            path.unlink(missing_ok=True)
        warn(PROG, f"{name} is left out: {described(error)}")


def _check(args: argparse.Namespace, options: FusionOptions) -> None:
    """Refuses requests that cannot be met, before the work that takes long.

    Raises:
      UsageError: an argument is missing, or arguments contradict each other.
    """
    answers.check(args)
    required(args.model, "MODEL", PROG)
    required(args.output, "-o OUT.vmfb", PROG)
    if args.output == files.STANDARD:
        raise UsageError("a program does not go to stdout; give -o OUT.vmfb")
    named = (args.output, args.report, args.decisions, args.graph)
    outputs = [str(Path(f).resolve()) for f in named if f]
    if len(set(outputs)) < len(outputs):
        raise UsageError("-o, --report, --decisions and --graph have to name different files")
    written = [(flag(n), getattr(args, n)) for n in ("output", "report", "decisions", "graph")]
    files.keep_inputs([args.model, *options.load_pass], written, args.dump_ir_dir)
    if args.stock and (options.enable_pass or options.must_fuse):
        raise UsageError("--stock runs no pass of ours; remove it or --enable-pass")
    for switch in ("verify", "measure", "count_stock", "dump_ir_dir"):
        if args.stock and getattr(args, switch):
            raise UsageError(f"--stock runs no pass of ours; remove it or {flag(switch)}")
    if args.verify and args.measure:
        raise UsageError("--verify and --measure are both given; give one after the other")


def _compile(args: argparse.Namespace, options: FusionOptions, dumped: Path | None) -> FusedModule:
    from mlirfuse import api

    return api.compile(
        args.model,
        shapes.example_inputs(args.shapes),
        target=args.target,
        options=options,
        function=args.function,
        stock=args.stock,
        measure=args.measure,
        count_stock=args.count_stock,
        cache=not args.no_cache,
        timeout=args.timeout,
        dump_ir_dir=dumped,
    )


@contextlib.contextmanager
def _dumping(args: argparse.Namespace) -> Iterator[Path | None]:
    """The folder for the IR around the passes: an empty one where the page shows it."""
    wanted = None if args.dump_ir_dir is None else files.directory(args.dump_ir_dir)
    if not args.report or args.stock:
        yield wanted
        return
    with temporary.folder("mlirfuse-ir-") as folder:
        try:
            yield folder
        finally:
            if wanted is not None:
                shutil.copytree(folder, wanted, dirs_exist_ok=True)


def _verified(args: argparse.Namespace, options: FusionOptions, dumped: Path | None) -> FusedModule:
    """Compiles past the cache, and prints the distance of the results from the unfused program's.

    Raises:
      MlirfuseError: the distance is above the tolerance.
    """
    from mlirfuse.compilation import open_model
    from mlirfuse.debug import verify
    from mlirfuse.runtime.image import Image

    with open_model(
        args.model,
        shapes.example_inputs(args.shapes),
        target=args.target,
        options=options,
        function=args.function,
        timeout=args.timeout,
        count_stock=args.count_stock,
    ) as work:
        if dumped is not None:
            work.dump(dumped)
        found = verify.check(work, groups=args.verify == "groups")
        sys.stderr.write(found.text())
        if not found.ok:
            raise MlirfuseError(f"--verify: {found.failure()}")
        for note in found.report.notes:
            warn(PROG, note)
        return work.module(Image(work.program), found.report)
