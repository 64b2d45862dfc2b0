"""`mlirfuse-opt IN.mlir`: runs passes on IR as it stands and prints the result."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.core import ImportFailedError, MlirfuseError, Report, UsageError, nearest
from mlirfuse.support.atomic_file import replacing
from mlirfuse.tools import answers, arguments, files, sections
from mlirfuse.tools.diagnostics import (
    DiagnosedError,
    Diagnostic,
    guard,
    in_child,
    located,
    refused,
    required,
    warn,
)

if TYPE_CHECKING:
    import argparse

    from iree.compiler import ir

    from mlirfuse.options import FusionOptions
    from mlirfuse.pipelines.ir_dump import Printing

PROG = "mlirfuse-opt"

_BYTECODE_MAGIC = b"ML\xefR"
"""First bytes of MLIR bytecode."""

_EXAMPLES = (
    "mlirfuse-opt model.mlir --explain -o fused.mlir",
    "mlirfuse-opt model.mlir --pipeline='rms_norm_fusion,cse' --target=cuda:sm_90",
    "mlirfuse-opt model.mlir --why=model.mlir:12:8,model.mlir:14:8",
    "mlirfuse-opt --pass-pipeline='builtin.module(softmax_fusion,func.func(cse))' < model.mlir",
    "mlirfuse-opt --list-passes",
)


def parser() -> arguments.Parser:
    """The parser of the command."""
    made = arguments.Parser(
        f"{PROG} [IN.mlir] [-o OUT] [switches]",
        "Run fusion passes on linalg IR as it stands, and print the result.",
        _EXAMPLES,
    )
    group = made.add_argument_group("input and output")
    group.add_argument(
        "input", nargs="?", metavar="IN.mlir", help="text or bytecode; - for stdin, the default"
    )
    group.add_argument("-o", "--output", metavar="OUT", help="file for the IR; - for stdout")
    arguments.add_target(group)
    group.add_argument("--emit-bytecode", action="store_true", help="write bytecode, not text")
    group.add_argument(
        "--mlir-print-debuginfo", action="store_true", help="print the locations of ops"
    )
    group.add_argument(
        "--split-input-file",
        action="store_true",
        help=f"run on each section between lines '{sections.SEPARATOR}' on its own",
    )
    group.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="compare errors with '// expected-error @+1 {{text}}' comments; IR only with -o",
    )
    arguments.add_switches(made)
    made.add_argument(
        "--pass-pipeline",
        dest="pipeline",
        metavar="PIPELINE",
        help="mlir-opt's name of --pipeline, e.g. builtin.module(a,func.func(b)); our passes run on"
        " all functions",
    )
    arguments.add_reports(made)
    group = made.add_argument_group("inspection")
    arguments.add_list_passes(group)
    arguments.add_dump(group)
    group.add_argument(
        "--timing",
        "--mlir-timing",
        action="store_true",
        help="print the time of parsing, each pass and writing, on stderr",
    )
    for moment in ("before", "after"):
        group.add_argument(
            f"--mlir-print-ir-{moment}-all",
            action="store_true",
            help=f"print the IR {moment} each pass that is on, on stderr",
        )
        group.add_argument(
            f"--mlir-print-ir-{moment}",
            action="append",
            default=[],
            metavar="PASS,...",
            help=f"print the IR {moment} these passes",
        )
    arguments.add_general(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code. As a command it works in a child."""
    if argv is None and (code := in_child(PROG)) is not None:
        return code
    return guard(PROG, _work, argv)


def _work(argv: Sequence[str]) -> int:
    args = parser().read(argv)
    options = arguments.options_from(args, PROG)
    if args.list_passes is not None:
        from mlirfuse.plugins import registry

        with registry.scope(options.load_pass):
            answers.list_passes(args.list_passes)
        return 0
    answers.check(args)
    if args.graph is not None and (args.split_input_file or args.verify_diagnostics):
        raise UsageError(
            "--graph draws one module; give it without --split-input-file and --verify-diagnostics"
        )
    name = args.input
    if name is None and not sys.stdin.isatty():
        name = files.STANDARD
    name = required(name, "IN.mlir", PROG)
    written = [("--output", args.output), ("--graph", args.graph)]
    files.keep_inputs([name, *options.load_pass], written, args.dump_ir_dir)
    silent = args.verify_diagnostics or answers.wants_stdout(args)
    target = args.output or (None if silent else files.STANDARD)
    with contextlib.ExitStack() as stack:
        out = None if target is None else stack.enter_context(files.output(target))
        if args.emit_bytecode and out is not None and out.isatty():
            raise UsageError("bytecode on a terminal; give -o OUT or redirect stdout")
        drawing = None if args.graph is None else stack.enter_context(replacing(args.graph))
        work = _Opt(args, options, name)
        work.run()
        if drawing is not None:
            from mlirfuse.explain.files import graph_text

            drawing.write_text(graph_text(work.reports[0], args.graph), encoding="utf-8")
        if out is not None:
            work.write(out)
    answers.answer(args, work.reports)
    if args.timing:
        sys.stderr.write(answers.timing(work.times()))
    return 0


@dataclasses.dataclass(slots=True)
class _Section:
    """One input on its own: `text` is None when MLIR reads the file itself."""

    text: str | bytes | None
    expected: list[sections.Expected]


class _Opt:
    """One run of the command."""

    def __init__(self, args: argparse.Namespace, options: FusionOptions, name: str) -> None:
        self.args = args
        self.options = options
        self.name = name
        self.reports: list[Report] = []
        self.modules: list[ir.Module] = []
        self.seconds = {"parse": 0.0, "write": 0.0}
        self.printing = _printing(args, options)

    def run(self) -> None:
        """Runs every section.

        Raises:
          DiagnosedError: a section was refused, or its diagnostics are not the expected ones.
        """
        from iree.compiler import ir

        from mlirfuse import targets

        target = targets.parse(self.args.target)
        parts = list(self._sections())
        wrong: list[Diagnostic] = []
        with ir.Context() as context:
            for index, part in enumerate(parts):
                dump = self._dump_dir(index, len(parts))
                found = self._one(context, part, target, dump)
                if self.args.verify_diagnostics:
                    wrong += sections.mismatches(part.expected, found, self.name)
                else:
                    wrong += [d for d in found if d.severity == "error"]
                    for diagnostic in found:
                        if diagnostic.severity != "error":
                            print(diagnostic, file=sys.stderr)
        if wrong:
            raise DiagnosedError(wrong)

    def _one(
        self, context: ir.Context, part: _Section, target: Any, dump: Path | None
    ) -> list[Diagnostic]:
        """Runs one section; returns the diagnostics of MLIR and of the engine."""
        from iree.compiler import ir

        from mlirfuse.explain import graph
        from mlirfuse.pipelines import engine, unmatched
        from mlirfuse.tuning_profile import application

        found: list[Diagnostic] = []

        def keep(diagnostic: Any) -> bool:
            found.append(Diagnostic.of(diagnostic, self.name))
            return True

        with context.attach_diagnostic_handler(keep):
            try:
                began = time.perf_counter()
                module = self._parse(ir, part)
                self.seconds["parse"] += time.perf_counter() - began
                options, machine = self.options, target
                applied = application.for_module(module, target, options)
                if applied is not None:
                    options, machine = applied.settled.options, applied.settled.target
                    for note in applied.notes:
                        warn(PROG, note)
                fused, report = engine.run(
                    module,
                    target=machine,
                    options=options,
                    dump_dir=dump,
                    printing=self.printing,
                    listener=answers.log_pass if self.args.verbose else None,
                )
                report.profile = None if applied is None else applied.to_dict()
                for note in unmatched.warnings(module, report, options):
                    warn(PROG, note)
                if self.args.graph is not None:
                    report.graph = graph.of_module(fused).to_dict()
            except DiagnosedError as error:
                found.extend(error.diagnostics)
            except UsageError:
                raise
            except MlirfuseError as error:
                if self.args.debug:
                    raise
                found.extend(located(error, self.name).diagnostics)
            else:
                self.modules.append(fused)
                self.reports.append(_renamed(report, self.name) if part.text else report)
        return found

    def _parse(self, ir: Any, part: _Section) -> ir.Module:
        try:
            if part.text is None:
                return ir.Module.parseFile(self.name)
            return ir.Module.parse(part.text)
        except ir.MLIRError as error:
            raise refused(error, self.name) from error
        except RuntimeError as error:  # MLIR's message is not UTF-8: Python cannot hold it
            raise ImportFailedError(f"{self.name}: damaged MLIR: a name is not UTF-8") from error

    def _sections(self) -> Iterator[_Section]:
        split, verify = self.args.split_input_file, self.args.verify_diagnostics
        if not (split or verify) and self.name != files.STANDARD:
            files.check_readable(self.name)
            yield _Section(None, [])
            return
        data = files.read_bytes(self.name)
        if data.startswith(_BYTECODE_MAGIC):
            if split or verify:
                raise UsageError(
                    f"{self.name}: bytecode has no sections and no comments; give text to"
                    " --split-input-file and --verify-diagnostics"
                )
            yield _Section(data, [])
            return
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.name}: neither MLIR text nor bytecode: {error}") from error
        for section in sections.split(text) if split else [text]:
            yield _Section(section, sections.expectations(section, self.name) if verify else [])

    def _dump_dir(self, index: int, count: int) -> Path | None:
        if self.args.dump_ir_dir is None:
            return None
        chosen = Path(self.args.dump_ir_dir)
        return files.directory(str(chosen if count == 1 else chosen / f"section_{index:03d}"))

    def write(self, out: Any) -> None:
        """Writes the IR of every section."""
        began = time.perf_counter()
        for index, module in enumerate(self.modules):
            if self.args.emit_bytecode:
                module.operation.write_bytecode(out)
                continue
            if index:
                out.write(f"{sections.SEPARATOR}\n".encode())
            debug = self.args.mlir_print_debuginfo
            out.write(module.operation.get_asm(enable_debug_info=debug).rstrip().encode() + b"\n")
        self.seconds["write"] += time.perf_counter() - began

    def times(self) -> list[tuple[str, float]]:
        """Names and seconds: parsing, each pass, writing."""
        passes: dict[str, float] = {}
        for report in self.reports:
            for done in report.passes:
                passes[done.name] = passes.get(done.name, 0.0) + done.seconds
        return [("parse", self.seconds["parse"]), *passes.items(), ("write", self.seconds["write"])]


def _printing(args: argparse.Namespace, options: FusionOptions) -> Printing | None:
    """The texts that the command prints around passes.

    Raises:
      UsageError: a pass is not in the pipeline.
    """
    from mlirfuse.pipelines.ir_dump import ALL, Printing
    from mlirfuse.pipelines.resolve import resolve
    from mlirfuse.plugins import registry

    with registry.scope(options.load_pass):
        known = [item.pass_name for item in resolve(options.pipeline)]
        chosen: dict[str, frozenset[str]] = {}
        for moment in ("before", "after"):
            given = getattr(args, f"mlir_print_ir_{moment}")
            words = [word.strip() for text in given for word in text.split(",") if word.strip()]
            names = {registry.find_pass(word) or word for word in words}
            for name in sorted(names - {*known}):
                raise UsageError(
                    f"--mlir-print-ir-{moment}: no pass '{name}' in the pipeline"
                    f"{nearest(name, known)}"
                )
            every = {ALL} if getattr(args, f"mlir_print_ir_{moment}_all") else set()
            chosen[moment] = frozenset(names | every)
    if not any(chosen.values()):
        return None
    return Printing(sys.stderr.write, **chosen)


def _renamed(report: Report, name: str) -> Report:
    """The report with the file's name for `-`, MLIR's name for a text that it did not read."""
    if name == files.STANDARD:
        return report

    def renamed(location: str) -> str:
        return f"{name}{location[1:]}" if location.startswith("-:") else location

    report.decisions = [
        dataclasses.replace(d, ops=tuple(map(renamed, d.ops))) for d in report.decisions
    ]
    for op in report.graph["ops"] if report.graph else ():
        op["location"] = renamed(op["location"])
    return report
