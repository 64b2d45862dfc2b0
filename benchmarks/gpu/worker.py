"""Measures rows in a separate process: `python -m benchmarks.gpu.worker`.

It reads `{"folder", "systems", "rows", "skip", "seconds"}` from standard input and writes a line of
JSON at each begin and end. A system that breaks the device also ends this process; `measure` then
starts another one without that system.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import signal
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import peers, rows, timer, with_torch
from benchmarks.gpu.rows import Argument, Row
from benchmarks.gpu.systems import BLOCK_ONLY, COPY

MIN_ROTATED_BYTES = 256 << 20
"""Minimum total size of the copies of a row's arguments: five times the L2 cache of an H100, so
that no call finds its arguments there."""

MAX_ROUNDS = 15
MIN_ROUNDS, MAX_PROFILED_ROUNDS = 3, 5
ROUNDS_SECONDS = 0.4
"""Approximate total time of all rounds of a row."""

QUEUED_CALLS = 20

RATE_SIZE = 8192
"""M, N and K of the matmul that measures the device's rates; the copy has four such matrices."""

BROKEN = 70
"""Exit code after a system that broke the device."""


class Broken(Exception):
    """The device no longer works in this process."""


class Late(BaseException):
    """A system took too long to compile; a BaseException, so that no compiler handles it."""


def main() -> int:
    """Measures the rows of the request on standard input."""
    # Compilers write to standard output, so JSON goes to a duplicate of it.
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    request = json.load(sys.stdin)

    def report(**fields: Any) -> None:
        lines.write(json.dumps(fields) + "\n")

    table = {row.name: row for row in rows.rows()}
    if request["warm"]:
        for name in request["rows"]:
            warm(table[name], report)
        return 0
    rates = measure_rates()
    report(rates=rates, device=torch.cuda.get_device_name(0), versions=versions())
    try:
        for name in request["rows"]:
            skip = request["skip"].get(name, {})
            measured = measure(
                table[name],
                request["systems"],
                skip,
                Path(request["folder"]),
                request["seconds"],
                report,
            )
            report(row=name, **measured)
    except Broken:
        return BROKEN
    return 0


def versions() -> dict[str, str]:
    """Versions of the packages that run on the device."""
    from importlib import metadata

    found = {"cuda": str(torch.version.cuda)}
    for package in ("torch", "triton", "jax", "iree-base-runtime"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


# --- arguments and reference ------------------------------------------------------------------


def make_arguments(row: Row, device: str = "cuda") -> list[torch.Tensor]:
    """The row's arguments, from a seed derived from its name."""
    generator = torch.Generator(device).manual_seed(zlib.crc32(row.name.encode()))
    dtype = getattr(torch, rows.DTYPES[row.dtype])
    return [_made(a, generator, device).to(dtype) for a in row.arguments]


def _made(argument: Argument, generator: torch.Generator, device: str) -> torch.Tensor:
    if argument.kind in ("positive", "wave"):
        x = torch.rand(argument.shape, generator=generator, device=device)
        return x + 0.5 if argument.kind == "positive" else 2 * x - 1
    x = torch.randn(argument.shape, generator=generator, device=device)
    if argument.kind == "weight":
        return x / math.sqrt(rows.fan_in(argument))
    return {"normal": x, "scale": 1 + 0.1 * x, "shift": 0.1 * x}[argument.kind]


def copies_of(row: Row, arguments: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Copies of the arguments for rotation; one for a block, whose weights are bound once."""
    size = sum(t.nbytes for t in arguments)
    count = 1 if row.block else max(2, math.ceil(MIN_ROTATED_BYTES / size))
    return [list(arguments), *([t.clone() for t in arguments] for _ in range(count - 1))]


def reference(row: Row, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The row's results in float64."""
    with torch.inference_mode():
        found = row.program(with_torch, *(t.double() for t in arguments))
    return list(found) if isinstance(found, tuple) else [found]


def error(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """Maximum absolute error over the largest magnitude of the result; infinite for NaN."""
    worst = 0.0
    for ours, exact in zip(found, expected, strict=True):
        if ours.shape != exact.shape:
            return math.inf
        wrong = float((ours.double() - exact.double()).abs().max() / exact.double().abs().max())
        worst = max(worst, wrong) if math.isfinite(wrong) else math.inf
    return worst


# --- times -------------------------------------------------------------------------------------


def measure(
    row: Row,
    systems: Sequence[str],
    skip: Mapping[str, str],
    folder: Path,
    seconds: float,
    report: Callable[..., None],
) -> dict[str, Any]:
    """Checks and times the systems of a row.

    Args:
      row: the row.
      systems: names of the systems.
      skip: system -> the reason why it is left out.
      folder: directory of the programs.
      seconds: time limit of a system's compilation.
      report: called at the begin of each system.
    """
    arguments = make_arguments(row)
    copies = copies_of(row, arguments)
    expected = reference(row, arguments)
    torch.cuda.synchronize()
    ready: dict[str, peers.System] = {}
    found: dict[str, dict[str, Any]] = {}
    for system in systems:
        if system in BLOCK_ONLY and not row.block:
            continue
        report(begin=row.name, system=system)
        if system in skip:
            found[system] = {"said": skip[system]}
            continue
        began = time.perf_counter()
        try:
            with limited(seconds), torch.inference_mode():
                made = peers.make_system(system, row, copies, folder)
                wrong = error(made.tensors(made.call(0)), expected)
            torch.cuda.synchronize()
            ready[system] = made
            found[system] = {"error": wrong, "prepared_s": time.perf_counter() - began}
        except (Exception, Late) as failure:  # Systems fail with errors of any type.
            found[system] = {"said": one_line(failure)}
            if isinstance(failure, Late):
                stop_compiling()
            report(begin=row.name, system=system, said=found[system]["said"])
            check_device()
    del expected
    report(begin=row.name, system="timing")
    measured: dict[str, Any] = {"systems": found}
    with torch.inference_mode():
        times = _times(row, ready, len(copies))
    if COPY in times:
        measured[COPY] = times.pop(COPY)["seconds"]
    for system, known in times.items():
        found[system].update(known)
    ready.clear()
    del copies, arguments
    gc.collect()
    peers.free_memory()
    return measured


def _times(row: Row, ready: Mapping[str, peers.System], copies: int) -> dict[str, dict[str, Any]]:
    """Times of each system, and of `COPY` for an operator, in seconds."""

    def waiting(made: peers.System) -> Callable[[int], None]:
        return lambda copy: made.wait(made.call(copy))

    calls = {system: waiting(made) for system, made in ready.items()}
    if not calls:
        return {}
    if not row.block:
        calls[COPY] = copying(rows.cost(row).bytes, copies)
    once = timer.latencies(calls, rounds=1, copies=copies)
    total = sum(min(times) for times in once.values())
    rounds = max(MIN_ROUNDS, min(MAX_ROUNDS, int(ROUNDS_SECONDS / total)))
    kernels = timer.kernels(
        calls, rounds=min(MAX_PROFILED_ROUNDS, rounds) if row.block else rounds, copies=copies
    )
    if not row.block:
        return {system: {"seconds": times} for system, times in kernels.items()}
    walls = timer.latencies(calls, rounds=rounds, copies=copies)
    return {
        system: {
            "seconds": walls[system],
            "kernels_s": statistics.median(kernels[system]),
            "queued_s": timer.queued(made.call, made.wait, calls=min(QUEUED_CALLS, rounds)),
        }
        for system, made in ready.items()
    }


def copying(size: float, copies: int, device: str = "cuda") -> Callable[[int], None]:
    """A call that copies as many bytes as a row moves at least: half of them read, half written.

    Args:
      size: bytes read and written.
      copies: number of pairs of tensors for rotation.
      device: device of the tensors.
    """
    half = max(1, int(size) // 2)
    pairs = [
        [torch.zeros(half, dtype=torch.uint8, device=device) for _ in range(2)]
        for _ in range(copies)
    ]

    def call(copy: int) -> None:
        source, target = pairs[copy]
        target.copy_(source)
        if device == "cuda":
            torch.cuda.synchronize()

    return call


def measure_rates() -> dict[str, float]:
    """Rates of large copies and matmuls, in bytes and operations per second."""
    size = RATE_SIZE
    wide = torch.randn(4 * size, size, device="cuda").half()
    other = torch.empty_like(wide)
    rates = {"copy": 2 * wide.nbytes / _event_seconds(lambda: other.copy_(wide))}
    for name, dtype in rows.DTYPES.items():
        a, b = (torch.randn(size, size, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
        rates[f"product_{name}"] = 2 * size**3 / _event_seconds(lambda a=a, b=b: a @ b)
    return rates


def _event_seconds(call: Callable[[], object], repeats: int = 20) -> float:
    times = []
    for turn in range(repeats + 3):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        last.synchronize()
        if turn >= 3:
            times.append(first.elapsed_time(last) * 1e-3)
    return statistics.median(times)


# --- failures ---------------------------------------------------------------------------------


def check_device() -> None:
    """Checks that the device still works.

    Raises:
      Broken: it does not.
    """
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").item()
    except RuntimeError as error:
        raise Broken(str(error)) from error


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises `Late` in the block after a time limit, as soon as Python code runs."""

    def late(*_: object) -> None:
        raise Late(f"not ready after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def stop_compiling() -> None:
    """Ends torch.compile's worker processes, which would slow down the other systems."""
    from torch._inductor.async_compile import shutdown_compile_workers

    shutdown_compile_workers()


def one_line(failure: BaseException) -> str:
    """Type and first line of an exception, trimmed."""
    text = next((line for line in str(failure).splitlines() if line.strip()), "")
    return f"{type(failure).__name__}: {text.strip()}"[:200]


def warm(row: Row, report: Callable[..., None]) -> None:
    """Fills torch.compile's cache on disk."""
    for system in ("torch_compile", *(("reduce_overhead",) if row.block else ())):
        with contextlib.suppress(Exception), torch.inference_mode():
            peers.make_system(system, row, [make_arguments(row)], Path())
    gc.collect()
    torch.cuda.empty_cache()
    report(warm=row.name)


if __name__ == "__main__":
    sys.exit(main())
