"""Rates of the present device, measured with programs of one kind of work each.

A program repeats its work as a chain of dispatches and returns one number, so that nothing but the
work grows with the length of the chain: the time of a step is the difference of two lengths over
the difference of their steps.
"""

from __future__ import annotations

import dataclasses
import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlirfuse.compilation import open_model, resolved
from mlirfuse.core import MlirfuseError
from mlirfuse.runtime.module import FusedModule, load
from mlirfuse.targets import rates
from mlirfuse.targets.base import Target

ROUNDS = 7
"""Calls of each length; the fastest counts: others shared the machine."""

TRIES = 3
"""Measurements of a chain until one makes sense."""

COPIED = 1 << 26
"""f32 values of the copy: 256 MiB, more than any cache."""

COMPUTED = 1 << 22
"""f32 values of the arithmetic."""

LAUNCHED = 16
"""f32 values of the dispatches that do nothing else than start."""

CHAINED = 64
"""Multiply-adds, or exponentials, per value and step."""

MATMUL_SIZES = {"cpu": 1024}
"""Rows and columns of the products by the target's name; `LARGE` for the others."""

LARGE = 4096

MATMUL_TYPES = ("f32", "f16", "bf16")


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """One kind of work.

    Attributes:
      name: of its functions, with the number of steps behind it.
      steps: lengths of the two chains.
      amount: bytes or operations of a step.
      text: the functions of one chain.
      fused: whether the passes rewrite it, as they would a model's.
    """

    name: str
    steps: tuple[int, int]
    amount: float
    text: Callable[[int], str]
    fused: bool = False


def measure(
    target: Target, *, device: str | None = None, say: Callable[[str], None] = lambda text: None
) -> dict[str, float]:
    """Measures what `Target` models.

    Args:
      target: what the programs are compiled for; this machine has to have such a device.
      device: URI of another driver than the target's.
      say: called with a line about each measurement.

    Returns:
      Fields of `Target` and their measured values; `matmul_rate.f32` for the rate of a type. A type
      that the target cannot compile is left out.

    Raises:
      MlirfuseError: a program cannot be compiled or run, or the device is too busy.
    """
    found: dict[str, float] = {}
    launch = _seconds(_launches(), target, device)
    found["launch_us"] = launch * 1e6
    say(f"launch_us {found['launch_us']:.2f}")
    for name, work in _rates(target).items():
        try:
            seconds = _seconds(work, target, device)
        except MlirfuseError as error:
            if not name.startswith(rates.PRODUCTS):
                raise
            say(f"{name} left out: {error}")
            continue
        found[name] = work.amount / max(seconds - launch, seconds / 10)
        say(f"{name} {found[name]:.3g}")
    return found


def _launches() -> Work:
    return Work("launch", (64, 320), 1.0, lambda n: _chain("launch", n, LAUNCHED, _add()))


def _rates(target: Target) -> dict[str, Work]:
    size = MATMUL_SIZES.get(target.name, LARGE)
    arithmetic = COMPUTED * CHAINED
    return {
        "bandwidth": Work(
            "copy", (2, 10), 8.0 * COPIED, lambda n: _chain("copy", n, COPIED, _add())
        ),
        "vector_rate": Work(
            "vector",
            (2, 10),
            2.0 * arithmetic,
            lambda n: _chain("vector", n, COMPUTED, _repeated("math.fma %v, %c, %c : f32")),
        ),
        "special_rate": Work(
            "special",
            (2, 10),
            float(arithmetic),
            lambda n: _chain("special", n, COMPUTED, _repeated("math.exp %v : f32")),
        ),
        **{
            f"{rates.PRODUCTS}{kind}": Work(
                f"matmul_{kind}",
                (2, 8),
                2.0 * size**3,
                functools.partial(_products, f"matmul_{kind}", size, kind),
                fused=True,
            )
            for kind in MATMUL_TYPES
        },
    }


def _seconds(work: Work, target: Target, device: str | None) -> float:
    """Seconds of one step."""
    text = "\n".join(work.text(steps) for steps in work.steps)
    pipeline = "default" if work.fused else "none"
    with tempfile.TemporaryDirectory(prefix="mlirfuse-") as folder:
        path = Path(folder) / "program.vmfb"
        names = [f"{work.name}_{steps}" for steps in work.steps]
        options = resolved(None, {"pipeline": pipeline})
        with open_model(text, target=target, options=options, function=names[0]) as compilation:
            compilation.module(*compilation.build()).save(path)
        programs = [load(path, function=name, device=device) for name in names]
        for _ in range(TRIES):
            short, long = _best(programs)
            if long > short:
                return (long - short) / (work.steps[1] - work.steps[0])
    raise MlirfuseError(
        f"{work.name}: {work.steps[1]} steps took no longer than {work.steps[0]}; other processes"
        " keep the device busy, calibrate when it is quiet"
    )


def _best(programs: list[FusedModule]) -> list[float]:
    """The fastest call of each program, in seconds; the calls alternate."""
    seed = np.float32(0.5)
    best = [float("inf")] * len(programs)
    for program in programs:
        program(seed)
    for _ in range(ROUNDS):
        for number, program in enumerate(programs):
            start = time.perf_counter()
            program(seed)
            best[number] = min(best[number], time.perf_counter() - start)
    return best


# --- programs ----------------------------------------------------------------------------------


def _add() -> list[str]:
    return ["%r = arith.addf %in, %seed : f32"]


def _repeated(op: str) -> list[str]:
    """A scalar computation of `CHAINED` steps that depend on each other."""
    lines, value = ["%c = arith.constant 0.25 : f32"], "%in"
    for step in range(CHAINED):
        name = "%r" if step == CHAINED - 1 else f"%t{step}"
        lines.append(f"{name} = {op.replace('%v', value)}")
        value = name
    return lines


def _chain(name: str, steps: int, size: int, body: list[str]) -> str:
    """A function of dispatches that each read and write a tensor of f32."""
    tensor = f"tensor<{size}xf32>"
    same = "affine_map<(d0) -> (d0)>"
    lines = [
        f"func.func @{name}_{steps}(%seed: f32) -> f32 {{",
        f"  %e = tensor.empty() : {tensor}",
        f"  %v0 = linalg.fill ins(%seed : f32) outs(%e : {tensor}) -> {tensor}",
    ]
    for step in range(steps):
        lines += [
            f"  %v{step + 1} = flow.dispatch.region -> ({tensor}) {{",
            f"    %g = linalg.generic {{indexing_maps = [{same}, {same}],"
            f' iterator_types = ["parallel"]}}'
            f" ins(%v{step} : {tensor}) outs(%e : {tensor}) {{",
            "    ^bb0(%in: f32, %out: f32):",
            *(f"      {line}" for line in body),
            "      linalg.yield %r : f32",
            f"    }} -> {tensor}",
            f"    flow.return %g : {tensor}",
            "  }",
        ]
    return "\n".join([*lines, *_first(f"%v{steps}", tensor, "%i"), "}"])


def _products(name: str, size: int, kind: str, steps: int) -> str:
    """A function of products with one constant matrix; sums in f32, narrowed between them."""
    tensor, sums = f"tensor<{size}x{size}x{kind}>", f"tensor<{size}x{size}xf32>"
    lines = [
        f"func.func @{name}_{steps}(%seed: f32) -> f32 {{",
        "  %zero = arith.constant 0.0 : f32",
        f"  %w = arith.constant dense<1.0e-3> : {tensor}",
        f"  %s = tensor.empty() : {sums}",
        f"  %f = linalg.fill ins(%zero : f32) outs(%s : {sums}) -> {sums}",
        f"  %sums0 = linalg.fill ins(%seed : f32) outs(%s : {sums}) -> {sums}",
    ]
    for step in range(steps):
        read = f"%sums{step}"
        if kind != "f32":
            lines += _narrowed(read, f"%v{step}", sums, tensor, kind)
            read = f"%v{step}"
        lines.append(
            f"  %sums{step + 1} = linalg.matmul ins({read}, %w : {tensor}, {tensor})"
            f" outs(%f : {sums}) -> {sums}"
        )
    return "\n".join([*lines, *_first(f"%sums{steps}", sums, "%i, %i"), "}"])


def _narrowed(read: str, written: str, sums: str, tensor: str, kind: str) -> list[str]:
    same = "affine_map<(d0, d1) -> (d0, d1)>"
    return [
        f"  {written}e = tensor.empty() : {tensor}",
        f"  {written} = linalg.generic {{indexing_maps = [{same}, {same}],"
        f' iterator_types = ["parallel", "parallel"]}}'
        f" ins({read} : {sums}) outs({written}e : {tensor}) {{",
        f"  ^bb0(%in: f32, %out: {kind}):",
        f"    %r = arith.truncf %in : f32 to {kind}",
        f"    linalg.yield %r : {kind}",
        f"  }} -> {tensor}",
    ]


def _first(value: str, tensor: str, indices: str) -> list[str]:
    """Returns one element of a tensor of f32."""
    return [
        "  %i = arith.constant 0 : index",
        f"  %x = tensor.extract {value}[{indices}] : {tensor}",
        "  return %x : f32",
    ]
