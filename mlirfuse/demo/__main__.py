"""A tour of mlirfuse: a real model is imported, fused, compiled, explained, checked and timed.

MiniLM-L6 with its real weights runs on real sentences, next to stock IREE and PyTorch on the same
number of threads.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.demo import minilm, timing
from mlirfuse.support import temporary
from mlirfuse.tools import arguments
from mlirfuse.tools.diagnostics import guard

if TYPE_CHECKING:
    from rich.console import Console

    from mlirfuse.core import Report

PROG = "python -m mlirfuse.demo"

TOLERANCE = 1e-4
"""Maximum difference from PyTorch in an element of the embeddings, which have length 1: f32 has 7
digits, and reordered accumulation over up to K = 1536 loses two of them."""

PROFILED_CALLS = 30

_SENTENCE_WIDTH = 44
"""Maximum width of a sentence in a table, in characters."""

_PIPED_WIDTH = 100
"""Width of the output when it is not a terminal, in characters."""


def parser() -> arguments.Parser:
    """The parser of the command."""
    made = arguments.Parser(
        f"{PROG} [--batch=4] [--tokens=128] [--runs=30] [--target=TARGET] [switches]",
        "Import MiniLM-L6 from PyTorch, fuse, compile, run, check, time and explain it.",
        (PROG, f"{PROG} --batch=1 --disable-pass=reduction_fusion --report=without.html"),
    )
    group = made.add_argument_group("model and measurement")
    for name, default, text in (
        ("batch", "4", "number of sentences"),
        ("tokens", "128", "length that each sentence is padded or cut to, at most 512"),
        ("runs", "30", "timed calls of each program"),
        ("threads", "2", "threads of each program"),
    ):
        group.add_argument(f"--{name}", default=default, metavar="N", help=f"{text} ({default})")
    group.add_argument("--target", default="cpu", metavar="TARGET", help=arguments.TARGETS)
    group.add_argument(
        "--report", default="report.html", metavar="FILE.html", help="the report (report.html)"
    )
    arguments.add_switches(made)
    arguments.add_general(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return guard(PROG, _work, argv)


def _work(argv: Sequence[str]) -> int:
    args = parser().read(argv)
    options = arguments.options_from(args, PROG)
    batch, tokens, runs, threads = (
        _count(args, name, maximum)
        for name, maximum in (
            ("batch", 4096),
            ("tokens", 512),
            ("runs", 100_000),
            ("threads", 1024),
        )
    )
    os.environ["MLIRFUSE_THREADS"] = str(threads)
    model = minilm.load()
    sentences, *inputs = minilm.encode(batch, tokens)
    import torch

    import mlirfuse
    from mlirfuse import explain
    from mlirfuse.explain import ir_files

    torch.set_num_threads(threads)
    out = _console()
    with _progress("compiling with stock IREE"):
        stock = mlirfuse.compile(model, tuple(inputs), target=args.target, stock=True)
    with _progress("fusing and compiling"), temporary.folder("mlirfuse-ir-") as folder:
        fused = mlirfuse.compile(
            model, tuple(inputs), target=args.target, options=options, dump_ir_dir=folder
        )
        around = ir_files.read(folder)
    fused.report.set_stock(stock.report)
    with torch.no_grad():
        expected = model(*inputs)
        embeddings = fused(*inputs)
        with _progress("timing"):
            medians, ratios = timing.interleave(
                {
                    "stock": lambda: stock(*inputs),
                    "fused": lambda: fused(*inputs),
                    "PyTorch": lambda: model(*inputs),
                },
                runs,
            )
    with _progress("profiling"):
        calls = min(runs, PROFILED_CALLS)
        profile = fused.profile(*inputs, calls=calls, threads=threads)
        stock_profile = stock.profile(*inputs, calls=calls, threads=threads)
    title = f"MiniLM-L6, {batch} x {tokens} tokens"
    out.print(f"{title}, target {fused.report.target}, IREE {fused.report.iree}, {threads} threads")
    _show_passes(out, fused.report)
    _show_similarity(out, sentences, (embeddings @ embeddings.T).tolist())
    error = float((embeddings - expected).abs().max())
    out.print(f"\nlargest difference from PyTorch: {error:.1e} (at most {TOLERANCE:.0e} allowed)")
    _show_times(out, medians, ratios)
    explain.html(
        fused.report,
        args.report,
        title=title,
        timings=medians,
        speedups=ratios,
        measured=[kernel.to_dict() for kernel in profile.kernels],
        stock_measured=[kernel.to_dict() for kernel in stock_profile.kernels],
        **around,
    )
    out.print(f"\nevery decision, with its reason: {args.report}")
    if not error <= TOLERANCE:
        raise MlirfuseError(f"the embeddings differ from PyTorch's by {error:.1e}")
    return 0


def _count(args: Any, name: str, upper: int) -> int:
    text = str(getattr(args, name))
    if not text.isdecimal() or not 1 <= int(text) <= upper:
        raise UsageError(f"--{name} takes a number from 1 to {upper}, not '{text}'")
    return int(text)


def _console() -> Console:
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return Console(width=width, highlight=False, markup=False)


def _progress(text: str) -> contextlib.AbstractContextManager[Any]:
    """A progress indicator, on a terminal only."""
    if not sys.stderr.isatty():
        return contextlib.nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(text)


def _show_passes(out: Console, report: Report) -> None:
    from rich.table import Table

    table = Table(title="passes", title_justify="left", box=None, pad_edge=False)
    table.add_column("pass")
    for name in ("rewrites", "refused", "ms"):
        table.add_column(name, justify="right")
    for done in report.passes:
        refused = sum(d.pass_name == done.name and not d.taken for d in report.decisions)
        applied = "off" if not done.enabled else str(done.rewrites or 0)
        table.add_row(done.name, applied, str(refused), f"{done.seconds * 1e3:.1f}")
    out.print("")
    out.print(table)
    counts = report.dispatches
    out.print(f"\ndispatches a call: {counts['stock']} with stock IREE, {counts['fused']} fused")


def _show_similarity(
    out: Console, sentences: Sequence[str], similarity: Sequence[Sequence[float]]
) -> None:
    from rich.table import Table

    shown = min(len(sentences), len(minilm.SENTENCES))
    table = Table(title="cosine similarity", title_justify="left", box=None, pad_edge=False)
    table.add_column("", justify="right")
    table.add_column("sentence", max_width=_SENTENCE_WIDTH, no_wrap=True, overflow="ellipsis")
    for index in range(shown):
        table.add_column(str(index + 1), justify="right")
    for index in range(shown):
        row = [f"{value:.2f}" for value in similarity[index][:shown]]
        table.add_row(str(index + 1), sentences[index], *row)
    out.print("")
    out.print(table)


def _show_times(out: Console, medians: Mapping[str, float], ratios: Mapping[str, float]) -> None:
    from rich.table import Table

    table = Table(title="time a call", title_justify="left", box=None, pad_edge=False)
    table.add_column("program")
    table.add_column("median ms", justify="right")
    table.add_column("times the speed of stock IREE", justify="right")
    for name, milliseconds in medians.items():
        table.add_row(name, f"{milliseconds:.2f}", f"{ratios[name]:.2f}")
    out.print("")
    out.print(table)


if __name__ == "__main__":
    sys.exit(main())
