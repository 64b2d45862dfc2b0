"""`mlirfuse-profile PROGRAM.vmfb|MODEL`: measures each kernel of a program on its device."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.core import UsageError
from mlirfuse.profiling.capture import CALLS
from mlirfuse.support import shapes, temporary
from mlirfuse.support.atomic_file import replacing
from mlirfuse.tools import answers, arguments, files
from mlirfuse.tools.diagnostics import guard, required

if TYPE_CHECKING:
    import argparse

    from mlirfuse.options import FusionOptions
    from mlirfuse.profiling.result import Profile
    from mlirfuse.runtime.module import FusedModule
    from mlirfuse.tools.values import Array

PROG = "mlirfuse-profile"

_PROGRAM = ".vmfb"

_NUMBERS = ("calls", "threads", "top")
"""Switches that take a number from 1."""

_EXAMPLES = (
    "mlirfuse-profile model.onnx --top=10",
    "mlirfuse-profile model.vmfb --input=@ids.npy --threads=1 --trace=model.json",
    "mlirfuse-profile model.mlir --against-stock --json=profile.json",
    "mlirfuse-profile model.onnx --report=profile.html",
    "mlirfuse-profile model.mlir --dump-kernels=kernels",
    "mlirfuse-profile model.mlir --sync --input=@x.npy",
)


def parser() -> arguments.Parser:
    """The parser of the command."""
    made = arguments.Parser(
        f"{PROG} PROGRAM.vmfb|MODEL [--input=TENSOR ...] [switches]",
        "Measure each kernel of a program in warm calls: time, bandwidth, operations per second\n"
        "and the rate of the device that limits it; the slowest kernel first.",
        _EXAMPLES,
    )
    group = made.add_argument_group("input")
    group.add_argument(
        "model",
        nargs="?",
        metavar="PROGRAM.vmfb|MODEL",
        help="a compiled program, or a model as for mlirfuse-compile",
    )
    group.add_argument(
        "--input",
        action="append",
        metavar="TENSOR",
        help="arguments in order, as for mlirfuse-run; random ones where none is given",
    )
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of random arguments (default: 0)"
    )
    arguments.add_target(group)
    arguments.add_function(group)
    arguments.add_shapes(group)
    group.add_argument(
        "--device", metavar="URI", help="IREE's device: local-task, local-sync, cuda, vulkan"
    )
    group.add_argument(
        "--parameters",
        action="append",
        default=[],
        metavar="[SCOPE=]FILE",
        help="an archive of the program's parameters: .irpa, .gguf or .safetensors; repeated",
    )
    group = made.add_argument_group("measurement")
    group.add_argument(
        "--calls", type=int, metavar="N", help=f"calls that are measured (default: {CALLS})"
    )
    group.add_argument(
        "--threads", type=int, metavar="N", help="threads of the CPU (default: IREE's choice)"
    )
    group.add_argument(
        "--against-stock",
        action="store_true",
        help="measure stock IREE's program of MODEL too, kernels matched by their source ops",
    )
    group.add_argument(
        "--sync",
        action="store_true",
        help="run the kernels of MODEL one by one in place of measuring, and name the first that"
        " fails or gives NaN or inf; exit code 1 when there is one",
    )
    group.add_argument(
        "--timeout",
        type=arguments.seconds,
        metavar="SECONDS",
        help="give up when a step of the compiler, or all calls, take longer",
    )
    group = made.add_argument_group("results")
    group.add_argument("--top", type=int, metavar="N", help="show the N slowest kernels")
    group.add_argument(
        "--json",
        nargs="?",
        const=files.STANDARD,
        metavar="FILE",
        help="every number as JSON, on stdout instead of the table, or also in a file",
    )
    group.add_argument(
        "--trace",
        metavar="FILE.json",
        help="the launches of each call in Chrome's format, for ui.perfetto.dev",
    )
    group.add_argument(
        "--report",
        metavar="FILE.html",
        help="a page with the kernels and their times, the graph, and the reasons between kernels",
    )
    group.add_argument(
        "--dump-kernels",
        metavar="DIR",
        help="write source, LLVM IR, assembly or PTX, launch parameters of each kernel of MODEL",
    )
    arguments.add_switches(made)
    arguments.add_general(made, verbose="log the signature of the program on stderr")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return guard(PROG, _work, argv)


def _work(argv: Sequence[str]) -> int:
    args = parser().read(argv)
    options = arguments.options_from(args, PROG)
    _check(args, options)
    from mlirfuse.tools import values

    inputs = [
        values.read(text, seed=args.seed, index=index)
        for index, text in enumerate(args.input or ())
    ]
    if args.sync:
        return _sync(args, options, inputs)
    folder = None if args.dump_kernels is None else files.directory(args.dump_kernels)
    with contextlib.ExitStack() as stack:
        document = None
        if args.json not in (None, files.STANDARD):
            document = stack.enter_context(replacing(args.json))
        timeline = stack.enter_context(replacing(args.trace)) if args.trace else None
        page = stack.enter_context(replacing(args.report)) if args.report else None
        dumped = stack.enter_context(temporary.folder("mlirfuse-kernels-"))
        shown_ir = None
        if args.report and not args.model.endswith(_PROGRAM):
            shown_ir = stack.enter_context(temporary.folder("mlirfuse-ir-"))
        program, found = _profile(args, options, inputs, dumped, shown_ir)
        if document is not None:
            document.write_text(_json(found), encoding="utf-8")
        if timeline is not None:
            timeline.write_text(json.dumps(found.trace()), encoding="utf-8")
        if page is not None:
            from mlirfuse import explain

            explain.html(program.report, page, title=args.model, **_page(found, shown_ir))
        if folder is not None:
            from mlirfuse.debug import kernel_dump

            kernel_dump.write(dumped, found, folder, _call(args, program, folder))
    if args.json == files.STANDARD:
        sys.stdout.write(_json(found))
    else:
        sys.stdout.write(found.text(top=args.top, color=sys.stdout.isatty()))
    return 0


def _call(args: argparse.Namespace, program: FusedModule, folder: Path) -> list[str]:
    """The command that calls the program as the profile does, for another profiler of its device.

    The program is saved in the folder; CPUs have no such profiler.
    """
    if not program.device.startswith("cuda"):
        return []
    from mlirfuse.runtime.inputs import call_shapes

    saved = folder / f"program{_PROGRAM}"
    program.save(saved)
    shapes_of_call = call_shapes(program.inputs, program.sizes)
    specs = zip(program.inputs, shapes_of_call, strict=True)
    given = args.input or [str(dataclasses.replace(spec, shape=shape)) for spec, shape in specs]
    words = ["mlirfuse-run", str(saved), *(f"--input={text}" for text in given)]
    words += [f"--parameters={text}" for text in args.parameters]
    words += [f"--function={args.function}"] if args.function else []
    return [*words, f"--seed={args.seed}"]


def _page(found: Profile, shown_ir: Path | None) -> dict[str, Any]:
    """The measured kernels, and the IR of a model, as arguments of `explain.html`."""
    from mlirfuse.explain import ir_files

    stock = () if found.comparison is None else found.comparison.stock.kernels
    return {
        "measured": [kernel.to_dict() for kernel in found.kernels],
        "stock_measured": [kernel.to_dict() for kernel in stock],
        **ir_files.read(shown_ir),
    }


def _json(found: Profile) -> str:
    return f"{json.dumps(found.to_dict(), indent=answers.JSON_INDENT)}\n"


def _check(args: argparse.Namespace, options: FusionOptions) -> None:
    """Refuses requests that cannot be met, before the work that takes long.

    Raises:
      UsageError: an argument is missing, out of range, or contradicts another.
    """
    model = required(args.model, "PROGRAM.vmfb or MODEL", PROG)
    for name in _NUMBERS:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} takes a number from 1, not {value}")
    if model.endswith(_PROGRAM):
        files.check_readable(model)
        for name in ("against_stock", "dump_kernels", "sync"):
            if getattr(args, name):
                switch = f"--{name.replace('_', '-')}"
                raise UsageError(f"{switch} compiles the model again; give MODEL, not a program")
    elif args.parameters and args.sync:
        raise UsageError("--sync takes no --parameters; compile the model with its weights")
    for name in (*_NUMBERS, "json", "trace", "report", "dump_kernels", "against_stock"):
        if args.sync and getattr(args, name):
            switch = f"--{name.replace('_', '-')}"
            raise UsageError(f"--sync measures nothing; remove it or {switch}")
    read = [text.removeprefix("@") for text in args.input or ()]
    read += [*options.load_pass, *dict(map(arguments.scoped, args.parameters)).values()]
    document = None if args.json == files.STANDARD else args.json
    written = [("--json", document), ("--trace", args.trace), ("--report", args.report)]
    outputs = [Path(name).resolve() for _, name in written if name]
    if len(set(outputs)) < len(outputs):
        raise UsageError("--json, --trace and --report have to name different files")
    files.keep_inputs([model, *read], written)
    _keep_from_dump([model, *read], args.dump_kernels)


def _keep_from_dump(read: Sequence[str], name: str | None) -> None:
    """Refuses a folder of kernels that holds an input: its files have fixed names.

    Raises:
      UsageError: an input is in the folder.
    """
    if name is None:
        return
    folder = Path(name).resolve()
    for path in map(Path, read):
        if path.is_file() and folder in path.resolve().parents:
            raise UsageError(
                f"--dump-kernels={name} may overwrite the input {path}; name another folder"
            )


def _profile(
    args: argparse.Namespace,
    options: FusionOptions,
    inputs: Sequence[Array],
    dumped: Path,
    shown_ir: Path | None,
) -> tuple[FusedModule, Profile]:
    """Compiles or loads the program, and measures it; with stock IREE's where that is asked for."""
    program = _program(args, options, dumped, shown_ir)
    if args.verbose:
        print(program, file=sys.stderr)
    with _progress(f"profiling {args.model}"):
        found = _measured(args, program, inputs)
    if not args.against_stock:
        return program, found
    from mlirfuse import api
    from mlirfuse.profiling import against

    with _progress(f"profiling {args.model} as stock IREE compiles it"):
        stock = api.compile(
            args.model,
            shapes.example_inputs(args.shapes),
            target=args.target,
            function=args.function,
            stock=True,
            timeout=args.timeout,
        )
        program.report.set_stock(stock.report)
        return program, against.compare(found, _measured(args, _placed(args, stock), inputs))


def _measured(args: argparse.Namespace, program: FusedModule, inputs: Sequence[Array]) -> Profile:
    return program.profile(
        *inputs,
        calls=CALLS if args.calls is None else args.calls,
        threads=args.threads,
        seed=args.seed,
        timeout=args.timeout,
    )


def _program(
    args: argparse.Namespace, options: FusionOptions, dumped: Path, shown_ir: Path | None
) -> FusedModule:
    if args.model.endswith(_PROGRAM):
        from mlirfuse.runtime import load

        return load(
            args.model,
            function=args.function,
            device=args.device,
            parameters=dict(map(arguments.scoped, args.parameters)),
        )
    from mlirfuse import api

    target = args.target
    if args.dump_kernels is not None:
        from mlirfuse.debug import kernel_dump

        target = kernel_dump.dumping(target, dumped)
    with _progress(f"compiling {args.model} for {args.target}"):
        made = api.compile(
            args.model,
            shapes.example_inputs(args.shapes),
            target=target,
            options=options,
            function=args.function,
            timeout=args.timeout,
            cache=args.dump_kernels is None,
            dump_ir_dir=shown_ir,
        )
    return _placed(args, made)


def _placed(args: argparse.Namespace, program: FusedModule) -> FusedModule:
    """The program on the device and with the parameters of the command line."""
    if args.device is None and not args.parameters:
        return program
    parameters: dict[str, Any] = dict(map(arguments.scoped, args.parameters))
    return program.on(args.device or program.device, parameters=parameters)


def _sync(args: argparse.Namespace, options: FusionOptions, inputs: Sequence[Array]) -> int:
    """Names the first kernel with a fault; the exit code is 1 when there is one."""
    from mlirfuse.compilation import open_model
    from mlirfuse.debug import first_fault

    with (
        _progress(f"checking {args.model} for {args.target}"),
        open_model(
            args.model,
            shapes.example_inputs(args.shapes),
            target=first_fault.traced(args.target),
            options=options,
            function=args.function,
            timeout=args.timeout,
        ) as work,
    ):
        found = first_fault.find(work, inputs or None, device=args.device, seed=args.seed)
    for fault in (found.fault, found.infinite):
        if fault is not None:
            sys.stdout.write(f"{fault.text()}\n")
    if found.fault is None:
        loading = f", {found.loading} more prepare weights" if found.loading else ""
        sys.stdout.write(f"{found.dispatches} dispatches{loading}; the results are finite\n")
    return 0 if found.fault is None else 1


@contextlib.contextmanager
def _progress(text: str) -> Iterator[None]:
    """Shows that work goes on, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield
