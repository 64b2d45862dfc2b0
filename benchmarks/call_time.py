"""Time of a call of a small program, and what of it is IREE's, in microseconds.

    python -m benchmarks.call_time --arguments=2

The program adds arguments of 64 f32 on the calling thread (`local-sync`), so that its kernel takes
no time. All calls are made in turns; a time is the shortest mean of bursts.
"""

from __future__ import annotations

import argparse
import functools
import operator
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import mlirfuse
from mlirfuse.runtime.module import FusedModule

Call = Callable[[], object]

ELEMENTS = 64
"""Elements of each argument."""

BURST, BURSTS = 50, 200
"""Calls of a burst, and bursts of each call."""


class Sum(torch.nn.Module):  # type: ignore[misc]
    """The sum of its arguments, and of 1."""

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        """Adds them."""
        return functools.reduce(operator.add, given, 1.0)


def shortest(calls: Mapping[str, Call], bursts: int) -> dict[str, float]:
    """The shortest mean of bursts of each call, in microseconds.

    Args:
      calls: name -> a call.
      bursts: for each of them, in turns.
    """
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(bursts):
        for name, call in calls.items():
            call()
            began = time.perf_counter()
            for _ in range(BURST):
                call()
            found[name] = min(found[name], 1e6 * (time.perf_counter() - began) / BURST)
    return found


def calls_of(count: int, folder: Path) -> dict[str, Call]:
    """The calls of a program with so many arguments, by name.

    Args:
      count: number of arguments, at least 1.
      folder: where its file is written.
    """
    tensors = [torch.ones(ELEMENTS) for _ in range(count)]
    path = folder / "sum.vmfb"
    mlirfuse.compile(Sum(), tuple(tensors), target="cpu", cache=False).save(path)
    program = mlirfuse.load(path, device="local-sync")
    out = torch.empty(ELEMENTS)
    calls: dict[str, Call] = {
        "IREE, the program": _invocation(program, tensors),
        "IREE, with DLPack's exchange of tensors": _exchange(program, tensors),
        "a call, torch": _call(program, tensors),
        "a call, torch, out=": lambda: program(*tensors, out=out),
        "a call, torch, arguments by name": _named(program, tensors),
        "a call, numpy": _call(program, [tensor.numpy() for tensor in tensors]),
    }
    try:
        import jax.numpy as jnp
    except ImportError:
        pass
    else:
        calls["a call, jax"] = _call(program, [jnp.asarray(t.numpy()) for t in tensors])
    calls["PyTorch"] = _call(Sum(), tensors)
    for backend in ("aot_eager", "mlirfuse"):
        compiled = torch.compile(Sum(), backend=backend, dynamic=False)
        calls[f'torch.compile(backend="{backend}")'] = _call(compiled, tensors)
    return calls


def _call(function: Callable[..., object], given: Sequence[Any]) -> Call:
    return lambda: function(*given)


def _named(program: FusedModule, tensors: Sequence[torch.Tensor]) -> Call:
    given = {spec.name: t for spec, t in zip(program.inputs, tensors, strict=True)}
    return lambda: program(**given)


def _invocation(program: FusedModule, tensors: Sequence[torch.Tensor]) -> Call:
    """A call of the function with buffer views that exist."""
    import iree.runtime as rt

    program(*tensors)
    session = program._sessions.current
    assert session is not None
    arguments = rt.VmVariantList(len(tensors))
    for tensor in tensors:
        arguments.push_ref(session.device.from_dlpack_capsule(torch.utils.dlpack.to_dlpack(tensor)))
    context, function = session._context, session._function
    return lambda: context.invoke(function, arguments, rt.VmVariantList(1))


def _exchange(program: FusedModule, tensors: Sequence[torch.Tensor]) -> Call:
    """The shortest call that takes tensors and returns one: without checks."""
    import iree.runtime as rt

    program(*tensors)
    session = program._sessions.current
    assert session is not None
    device, context, function = session.device, session._context, session._function
    to_dlpack, from_dlpack = torch.utils.dlpack.to_dlpack, torch.utils.dlpack.from_dlpack

    def call() -> object:
        views = [device.from_dlpack_capsule(to_dlpack(tensor)) for tensor in tensors]
        arguments, results = rt.VmVariantList(len(views)), rt.VmVariantList(1)
        for view in views:
            arguments.push_ref(view)
        context.invoke(function, arguments, results)
        result = results.get_as_object(0, rt.HalBufferView)
        return from_dlpack(device.create_dlpack_capsule(result, 1, 0))

    return call


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.call_time", description=__doc__)
    parser.add_argument("--arguments", type=int, default=2, metavar="N")
    parser.add_argument("--bursts", type=int, default=BURSTS, metavar="N")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        found = shortest(calls_of(given.arguments, Path(folder)), given.bursts)
    sys.stdout.write("| call | us |\n| --- | ---: |\n")
    sys.stdout.writelines(f"| {name} | {us:.1f} |\n" for name, us in found.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
