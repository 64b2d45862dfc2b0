"""Measures rows in a process of its own: `python -m benchmarks.gpu.worker`.

Reads `{"folder", "sides", "rows", "skip", "seconds"}` from standard input and writes a line of JSON
whenever something begins or is done. A side that breaks the device takes this process with it;
`measure` then starts another one without that side.
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

from benchmarks.gpu import rivals, rows, timer, with_torch
from benchmarks.gpu.names import BLOCK_ONLY, COPY
from benchmarks.gpu.rows import Argument, Row

ROTATED = 256 << 20
"""Bytes that the copies of a row's arguments have together at least: five times the L2 cache of an
H100, so that no call finds its arguments there."""

ROUNDS = 15
FEWEST_ROUNDS, PROFILED_ROUNDS = 3, 5
SECONDS = 0.4
"""Of all rounds of a row together, about."""

QUEUED_CALLS = 20

RATE_SIZE = 8192
"""Rows and columns of the matrices of which copies and products tell the device's rates."""

BROKEN = 70
"""Exit code after a side that broke the device."""


class Broken(Exception):
    """The device does not work any more in this process."""


class Late(BaseException):
    """A side took too long to compile; no compiler takes it for an error of its own."""


def main() -> int:
    """Measures what standard input asks for."""
    # Compilers write to standard output, so the lines of JSON take its place beforehand.
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    asked = json.load(sys.stdin)

    def say(**fields: Any) -> None:
        lines.write(json.dumps(fields) + "\n")

    table = {row.name: row for row in rows.rows()}
    if asked["warm"]:
        for name in asked["rows"]:
            warm(table[name], say)
        return 0
    rates = measure_rates()
    say(rates=rates, device=torch.cuda.get_device_name(0), versions=versions())
    try:
        for name in asked["rows"]:
            skip = asked["skip"].get(name, {})
            measured = measure(
                table[name], asked["sides"], skip, Path(asked["folder"]), asked["seconds"], say
            )
            say(row=name, **measured)
    except Broken:
        return BROKEN
    return 0


def versions() -> dict[str, str]:
    """Of what runs on the device."""
    from importlib import metadata

    found = {"cuda": str(torch.version.cuda)}
    for package in ("torch", "triton", "jax", "iree-base-runtime"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


# --- what a row takes --------------------------------------------------------------------------


def make_arguments(row: Row, device: str = "cuda") -> list[torch.Tensor]:
    """The row's arguments, from a seed that its name gives."""
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
    """The arguments as often as they must rotate; those of a block once, as its weights stay."""
    size = sum(t.nbytes for t in arguments)
    count = 1 if row.block else max(2, math.ceil(ROTATED / size))
    return [list(arguments), *([t.clone() for t in arguments] for _ in range(count - 1))]


def reference(row: Row, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The row's results in float64."""
    with torch.inference_mode():
        found = row.program(with_torch, *(t.double() for t in arguments))
    return list(found) if isinstance(found, tuple) else [found]


def error(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest absolute error over the largest magnitude of the result; infinite for NaN."""
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
    sides: Sequence[str],
    skip: Mapping[str, str],
    folder: Path,
    seconds: float,
    say: Callable[..., None],
) -> dict[str, Any]:
    """Checks and times the sides of a row.

    Args:
      row: the row.
      sides: which.
      skip: side -> why it is left out.
      folder: of the programs.
      seconds: that a side may take to compile.
      say: takes note of what begins.
    """
    arguments = make_arguments(row)
    copies = copies_of(row, arguments)
    expected = reference(row, arguments)
    torch.cuda.synchronize()
    ready: dict[str, rivals.Contender] = {}
    found: dict[str, dict[str, Any]] = {}
    for side in sides:
        if side in BLOCK_ONLY and not row.block:
            continue
        say(begin=row.name, side=side)
        if side in skip:
            found[side] = {"said": skip[side]}
            continue
        began = time.perf_counter()
        try:
            with limited(seconds), torch.inference_mode():
                made = rivals.contender(side, row, copies, folder)
                wrong = error(made.tensors(made.call(0)), expected)
            torch.cuda.synchronize()
            ready[side] = made
            found[side] = {"error": wrong, "prepared_s": time.perf_counter() - began}
        except (Exception, Late) as failure:  # Whatever a side says is what its cell says.
            found[side] = {"said": one_line(failure)}
            if isinstance(failure, Late):
                stop_compiling()
            say(begin=row.name, side=side, said=found[side]["said"])
            check_device()
    del expected
    say(begin=row.name, side="timing")
    measured: dict[str, Any] = {"sides": found}
    with torch.inference_mode():
        times = _times(row, ready, len(copies))
    if COPY in times:
        measured[COPY] = times.pop(COPY)["seconds"]
    for side, known in times.items():
        found[side].update(known)
    ready.clear()
    del copies, arguments
    gc.collect()
    rivals.free_memory()
    return measured


def _times(
    row: Row, ready: Mapping[str, rivals.Contender], copies: int
) -> dict[str, dict[str, Any]]:
    """Seconds of each side, and of `COPY` for an operator, with what else is known of its calls."""

    def waiting(made: rivals.Contender) -> Callable[[int], None]:
        return lambda copy: made.wait(made.call(copy))

    calls = {side: waiting(made) for side, made in ready.items()}
    if not calls:
        return {}
    if not row.block:
        calls[COPY] = copying(rows.cost(row).bytes, copies)
    once = timer.latencies(calls, rounds=1, copies=copies)
    total = sum(min(times) for times in once.values())
    rounds = max(FEWEST_ROUNDS, min(ROUNDS, int(SECONDS / total)))
    kernels = timer.kernels(
        calls, rounds=min(PROFILED_ROUNDS, rounds) if row.block else rounds, copies=copies
    )
    if not row.block:
        return {side: {"seconds": times} for side, times in kernels.items()}
    walls = timer.latencies(calls, rounds=rounds, copies=copies)
    return {
        side: {
            "seconds": walls[side],
            "kernels_s": statistics.median(kernels[side]),
            "queued_s": timer.queued(made.call, made.wait, calls=min(QUEUED_CALLS, rounds)),
        }
        for side, made in ready.items()
    }


def copying(size: float, copies: int, device: str = "cuda") -> Callable[[int], None]:
    """A call that moves as many bytes as a row does at least: half of them read, half written.

    Args:
      size: bytes.
      copies: how many pairs of tensors take turns.
      device: where they are.
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
    """Bytes and operations per second of large copies and products."""
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


# --- what goes wrong ---------------------------------------------------------------------------


def check_device() -> None:
    """Finds out whether the device still works.

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
    """Raises `Late` in what takes longer, as soon as it is in Python."""

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
    """Ends what torch.compile still does in other processes: it takes the host from the others."""
    from torch._inductor.async_compile import shutdown_compile_workers

    shutdown_compile_workers()


def one_line(failure: BaseException) -> str:
    """The first line of what was said, trimmed."""
    text = next((line for line in str(failure).splitlines() if line.strip()), "")
    return f"{type(failure).__name__}: {text.strip()}"[:200]


def warm(row: Row, say: Callable[..., None]) -> None:
    """Lets torch.compile fill its cache on disk with what needs no timing on a quiet device."""
    for side in ("torch_compile", *(("reduce_overhead",) if row.block else ())):
        with contextlib.suppress(Exception), torch.inference_mode():
            rivals.contender(side, row, [make_arguments(row)], Path())
    gc.collect()
    torch.cuda.empty_cache()
    say(warm=row.name)


if __name__ == "__main__":
    sys.exit(main())
