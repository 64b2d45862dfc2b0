"""Measures the rates of this machine's device with microbenchmarks.

Each benchmark is a chain of equal dispatches that returns one scalar. The time of a dispatch is the
difference of the times of a long and a short chain over the difference of their lengths, so that
fixed costs of a call cancel.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlirfuse.compilation import open_model, resolved
from mlirfuse.core import MlirfuseError
from mlirfuse.runtime.module import FusedModule, load
from mlirfuse.support import temporary
from mlirfuse.targets import rates
from mlirfuse.targets.base import Target

ROUNDS = 7
"""Calls of each chain; the fastest counts, since other processes may slow down the rest."""

MAX_SECONDS = 2.0
"""Time after which no further round of a benchmark starts: a minute for all, with compiling."""

MAX_TRIES = 3
"""Measurements of two chains until the long one is slower."""

COPY_ELEMENTS = 1 << 26
"""f32 elements of a copy: 256 MiB, larger than any cache."""

VECTOR_ELEMENTS = {"cpu": 1 << 18}
"""Target's name -> f32 elements of elementwise arithmetic; `DEFAULT_VECTOR_ELEMENTS` otherwise."""

DEFAULT_VECTOR_ELEMENTS = 1 << 22

LAUNCH_ELEMENTS = 16
"""f32 elements of a dispatch whose time is that of the launch."""

OPS_PER_ELEMENT = 64
"""Multiply-adds, or exponentials, per element and dispatch."""

MATMUL_SIZES = {"cpu": 1024}
"""Target's name -> M, N and K of the matmuls; `DEFAULT_MATMUL_SIZE` for other targets."""

DEFAULT_MATMUL_SIZE = 4096

MATMUL_TYPES = ("f32", "f16", "bf16")


@dataclasses.dataclass(frozen=True, slots=True)
class Microbenchmark:
    """One kind of work.

    Attributes:
      name: prefix of its functions' names; the length of the chain follows.
      lengths: dispatches of the short and of the long chain.
      amount: bytes or operations of a dispatch.
      text: MLIR text of the function of a chain, by its length.
      fused: whether the passes run on it, as on a model.
    """

    name: str
    lengths: tuple[int, int]
    amount: float
    text: Callable[[int], str]
    fused: bool = False


def measure(
    target: Target, *, device: str | None = None, log: Callable[[str], None] = lambda text: None
) -> dict[str, float]:
    """Measures the rates of `Target`.

    Args:
      target: target of the programs; this machine must have its device.
      device: URI of the device; None for the target's own.
      log: called with a line about each measurement.

    Returns:
      Field of `Target` -> measured value; `matmul_rate.f32` for the rate of an element type.
      Element types that the target cannot compile are left out.

    Raises:
      MlirfuseError: a program cannot be compiled or run, or the device is too busy.
    """
    found: dict[str, float] = {}
    benchmarks = _benchmarks(target)
    count = 1 + len(benchmarks)
    launch = _seconds(_launch_benchmark(), target, device)
    found["launch_us"] = launch * 1e6
    log(f"1 of {count}: launch_us {found['launch_us']:.2f}")
    for number, (name, benchmark) in enumerate(benchmarks.items(), 2):
        try:
            seconds = _seconds(benchmark, target, device)
        except MlirfuseError as error:
            if not name.startswith(rates.MATMUL_RATE_PREFIX):
                raise
            log(f"{number} of {count}: {name} left out: {error}")
            continue
        found[name] = benchmark.amount / max(seconds - launch, seconds / 10)
        log(f"{number} of {count}: {name} {found[name]:.3g}")
    return found


def _launch_benchmark() -> Microbenchmark:
    return Microbenchmark(
        "launch", (64, 320), 1.0, lambda n: _chain("launch", n, LAUNCH_ELEMENTS, _add())
    )


def _benchmarks(target: Target) -> dict[str, Microbenchmark]:
    """Field of `Target` -> the benchmark of that rate."""
    size = MATMUL_SIZES.get(target.name, DEFAULT_MATMUL_SIZE)
    elements = VECTOR_ELEMENTS.get(target.name, DEFAULT_VECTOR_ELEMENTS)
    operations = elements * OPS_PER_ELEMENT
    return {
        "bandwidth": Microbenchmark(
            "copy", (2, 10), 8.0 * COPY_ELEMENTS, lambda n: _chain("copy", n, COPY_ELEMENTS, _add())
        ),
        "vector_rate": Microbenchmark(
            "vector",
            (2, 10),
            2.0 * operations,
            lambda n: _chain("vector", n, elements, _repeated("math.fma %v, %c, %c : f32")),
        ),
        "special_rate": Microbenchmark(
            "special",
            (2, 10),
            float(operations),
            lambda n: _chain("special", n, elements, _repeated("math.exp %v : f32")),
        ),
        **{
            f"{rates.MATMUL_RATE_PREFIX}{kind}": Microbenchmark(
                f"matmul_{kind}",
                (2, 8),
                2.0 * size**3,
                functools.partial(_matmuls, f"matmul_{kind}", size, kind),
                fused=True,
            )
            for kind in MATMUL_TYPES
        },
    }


def _seconds(benchmark: Microbenchmark, target: Target, device: str | None) -> float:
    """Time of one dispatch, in seconds."""
    text = "\n".join(benchmark.text(length) for length in benchmark.lengths)
    pipeline = "default" if benchmark.fused else "none"
    with temporary.folder("mlirfuse-") as folder:
        path = Path(folder) / "program.vmfb"
        names = [f"{benchmark.name}_{length}" for length in benchmark.lengths]
        options = resolved(None, {"pipeline": pipeline})
        with open_model(text, target=target, options=options, function=names[0]) as compilation:
            compilation.module(*compilation.build()).save(path)
        programs = [load(path, function=name, device=device) for name in names]
        short_length, long_length = benchmark.lengths
        for _ in range(MAX_TRIES):
            short, long = _best(programs)
            if long > short:
                return (long - short) / (long_length - short_length)
    raise MlirfuseError(
        f"{benchmark.name}: {long_length} dispatches took no longer than {short_length}; other"
        " processes keep the device busy, calibrate when it is quiet"
    )


def _best(programs: list[FusedModule]) -> list[float]:
    """Time of the fastest call of each program, in seconds; the calls alternate."""
    seed = np.float32(0.5)
    best = [float("inf")] * len(programs)
    for program in programs:
        program(seed)
    end = time.perf_counter() + MAX_SECONDS
    for number in range(ROUNDS):
        if number and time.perf_counter() > end:
            break
        for index, program in enumerate(programs):
            start = time.perf_counter()
            program(seed)
            best[index] = min(best[index], time.perf_counter() - start)
    return best


# --- programs ----------------------------------------------------------------------------------


def _add() -> list[str]:
    return ["%r = arith.addf %in, %seed : f32"]


def _repeated(op: str) -> list[str]:
    """A scalar computation of `OPS_PER_ELEMENT` dependent ops."""
    lines, value = ["%c = arith.constant 0.25 : f32"], "%in"
    for index in range(OPS_PER_ELEMENT):
        name = "%r" if index == OPS_PER_ELEMENT - 1 else f"%t{index}"
        lines.append(f"{name} = {op.replace('%v', value)}")
        value = name
    return lines


def _chain(name: str, length: int, size: int, body: list[str]) -> str:
    """A function of `length` elementwise dispatches on a tensor of `size` f32."""
    tensor = f"tensor<{size}xf32>"
    same = "affine_map<(d0) -> (d0)>"
    lines = [
        f"func.func @{name}_{length}(%seed: f32) -> f32 {{",
        f"  %e = tensor.empty() : {tensor}",
        f"  %v0 = linalg.fill ins(%seed : f32) outs(%e : {tensor}) -> {tensor}",
    ]
    for index in range(length):
        lines += [
            f"  %v{index + 1} = flow.dispatch.region -> ({tensor}) {{",
            f"    %g = linalg.generic {{indexing_maps = [{same}, {same}],"
            f' iterator_types = ["parallel"]}}'
            f" ins(%v{index} : {tensor}) outs(%e : {tensor}) {{",
            "    ^bb0(%in: f32, %out: f32):",
            *(f"      {line}" for line in body),
            "      linalg.yield %r : f32",
            f"    }} -> {tensor}",
            f"    flow.return %g : {tensor}",
            "  }",
        ]
    return "\n".join([*lines, *_first_element(f"%v{length}", tensor, "%i"), "}"])


def _matmuls(name: str, size: int, kind: str, length: int) -> str:
    """A function of matmuls with one constant matrix; f32 accumulators, truncated in between."""
    tensor, accumulators = f"tensor<{size}x{size}x{kind}>", f"tensor<{size}x{size}xf32>"
    lines = [
        f"func.func @{name}_{length}(%seed: f32) -> f32 {{",
        "  %zero = arith.constant 0.0 : f32",
        f"  %w = arith.constant dense<1.0e-3> : {tensor}",
        f"  %s = tensor.empty() : {accumulators}",
        f"  %f = linalg.fill ins(%zero : f32) outs(%s : {accumulators}) -> {accumulators}",
        f"  %sums0 = linalg.fill ins(%seed : f32) outs(%s : {accumulators}) -> {accumulators}",
    ]
    for index in range(length):
        operand = f"%sums{index}"
        if kind != "f32":
            lines += _truncated(operand, f"%v{index}", accumulators, tensor, kind)
            operand = f"%v{index}"
        lines.append(
            f"  %sums{index + 1} = linalg.matmul ins({operand}, %w : {tensor}, {tensor})"
            f" outs(%f : {accumulators}) -> {accumulators}"
        )
    return "\n".join([*lines, *_first_element(f"%sums{length}", accumulators, "%i, %i"), "}"])


def _truncated(operand: str, result: str, accumulators: str, tensor: str, kind: str) -> list[str]:
    same = "affine_map<(d0, d1) -> (d0, d1)>"
    return [
        f"  {result}e = tensor.empty() : {tensor}",
        f"  {result} = linalg.generic {{indexing_maps = [{same}, {same}],"
        f' iterator_types = ["parallel", "parallel"]}}'
        f" ins({operand} : {accumulators}) outs({result}e : {tensor}) {{",
        f"  ^bb0(%in: f32, %out: {kind}):",
        f"    %r = arith.truncf %in : f32 to {kind}",
        f"    linalg.yield %r : {kind}",
        f"  }} -> {tensor}",
    ]


def _first_element(value: str, tensor: str, indices: str) -> list[str]:
    """The end of a function that returns one element of a tensor of f32."""
    return [
        "  %i = arith.constant 0 : index",
        f"  %x = tensor.extract {value}[{indices}] : {tensor}",
        "  return %x : f32",
    ]
