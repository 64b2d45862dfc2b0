"""Finds the first kernel whose result is not a number, or that fails: dispatches run one by one."""

from __future__ import annotations

import dataclasses
import json
import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse import targets
from mlirfuse.core import CompileFailedError
from mlirfuse.debug import traced_call
from mlirfuse.explain.printing import layer_name, place
from mlirfuse.final_kernels import FinalKernel
from mlirfuse.runtime.inputs import Array, random_inputs
from mlirfuse.support import module_process
from mlirfuse.support.subprocess import run_tool

if TYPE_CHECKING:
    from mlirfuse.compilation import Compilation
    from mlirfuse.targets.base import Target

TRACE = "--iree-flow-trace-dispatch-tensors"
"""The flag of `iree-compile` that traces the tensors of each dispatch."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """The first kernel with a fault.

    Attributes:
      kernel: name of its entry point; None where an argument of the program is not finite.
      ordinal: its ordinal among the dispatches of the call, from 0; negative for one that
        prepares weights when the program is loaded.
      kind: `nan`, `inf` or `failed`.
      detail: the elements of the result, or the message of the failure.
      where: layers and source line of the kernel's ops; empty where they are not known.
    """

    kernel: str | None
    ordinal: int
    kind: str
    detail: str
    where: str = ""

    def text(self) -> str:
        """One line."""
        layer = f"; it computes {self.where}" if self.where else ""
        which = f"dispatch {self.ordinal}" if self.ordinal >= 0 else "when the program is loaded"
        if self.kernel is None:
            reader = which if self.ordinal >= 0 else f"a dispatch {which}"
            return f"{reader} reads {self.detail}, which no kernel computed"
        if self.kind == "failed":
            return f"{self.kernel} ({which}) failed: {self.detail}{layer}"
        return f"{self.kernel} ({which}) is the first to give {self.detail}{layer}"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a traced call.

    Attributes:
      dispatches: dispatches of the call that ran.
      loading: dispatches that ran when the program was loaded, to prepare weights.
      fault: the fault that makes the results wrong; None where there is none.
      infinite: the first kernel with infinite elements where the results are finite, as of a mask;
        None where there is none.
    """

    dispatches: int
    loading: int
    fault: Fault | None
    infinite: Fault | None


def traced(target: str | Target) -> Target:
    """The target with which programs trace the tensors of their dispatches."""
    found = targets.parse(target)
    return dataclasses.replace(found, flags=(*found.flags, TRACE))


def find(
    compilation: Compilation,
    inputs: Sequence[Array] | None = None,
    *,
    device: str | None = None,
    seed: int = 0,
) -> Finding:
    """Compiles a model, calls it once with checks, and names the first kernel with a fault.

    Args:
      compilation: a model opened for a target of `traced`.
      inputs: arguments of the call; None for random ones.
      device: URI of the device; None for the target's.
      seed: seed of random arguments.

    Raises:
      CompileFailedError: the model cannot be compiled, or the program failed before a dispatch.
    """
    image, report = compilation.build()
    manifest = compilation.manifest(report)
    if device is not None:
        manifest = dataclasses.replace(manifest, device=device)
    values = (
        random_inputs(manifest.inputs, seed, manifest.sizes) if inputs is None else list(inputs)
    )
    request = compilation.folder / traced_call.REQUEST
    request.write_bytes(pickle.dumps((manifest, image.path, values)))
    arguments = module_process.arguments(traced_call.__name__, str(compilation.folder))
    lines = compilation.folder / traced_call.LINES
    try:
        run_tool(
            Path(sys.executable).name, arguments, stage="run", timeout=compilation.compiler.timeout
        )
    except CompileFailedError as error:
        entries = _entries(lines)
        if not _dispatched(entries):
            raise
        return _placed(_judged(entries, error), entries, report.kernels)
    entries = _entries(lines)
    return _placed(_judged(entries, None), entries, report.kernels)


def _entries(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _judged(entries: Sequence[Mapping[str, Any]], failure: CompileFailedError | None) -> Finding:
    """The finding from the lines of a traced call."""
    ran = _dispatched(entries)
    results = [entry for entry in entries if entry["kernel"] == traced_call.RESULTS]
    names = [entry["kernel"] for entry in entries]
    at = names.index(traced_call.LOADED) if traced_call.LOADED in names else len(entries)
    loading = sum(entry["side"] == "inputs" for entry in entries[:at])
    count = sum(entry["side"] == "inputs" for entry in ran) - loading
    if failure is not None:
        last = ran[-1]["kernel"]
        return Finding(count, loading, Fault(last, count - 1, "failed", str(failure)), None)
    fault = _first(ran, "nan", loading)
    infinite = _first(ran, "inf", loading)
    if fault is None and any(_elements(entry, "inf") for entry in results):
        fault, infinite = infinite, None
    return Finding(count, loading, fault, infinite)


def _dispatched(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The lines of dispatches."""
    others = (traced_call.LOADED, traced_call.RESULTS)
    return [entry for entry in entries if entry["kernel"] not in others]


def _placed(
    found: Finding, entries: Sequence[Mapping[str, Any]], kernels: Sequence[FinalKernel]
) -> Finding:
    """The finding with the places of the kernels in the model."""
    ran = [e["kernel"] for e in _dispatched(entries) if e["side"] == "inputs"][found.loading :]

    def placed(fault: Fault | None) -> Fault | None:
        if fault is None or fault.kernel is None or fault.ordinal < 0:
            return fault
        same = [kernel for kernel in kernels if kernel.name == fault.kernel]
        earlier = ran[: fault.ordinal].count(fault.kernel)  # equal kernels run in their order
        kernel = same[min(earlier, len(same) - 1)] if same else None
        return fault if kernel is None else dataclasses.replace(fault, where=_where(kernel))

    return dataclasses.replace(found, fault=placed(found.fault), infinite=placed(found.infinite))


def _where(kernel: FinalKernel) -> str:
    """The layers of a kernel and its last source line."""
    names = list(dict.fromkeys(layer_name(name) for name in kernel.layers if name))
    layers = ", ".join(names)
    if names and not all(kernel.layers):
        layers += " and ops outside of layers,"
    places = [place for place in kernel.ops if place != "-"]
    line = f"at {places[-1]}" if places else ""
    return place(" ".join(filter(None, (layers, line))))


def _first(entries: Sequence[Mapping[str, Any]], kind: str, loading: int) -> Fault | None:
    """The first kernel with such elements among its results, or that reads some.

    Args:
      entries: the lines of dispatches.
      kind: `nan` or `inf`.
      loading: number of dispatches before those of the call.
    """
    ordinal = -1 - loading
    for entry in entries:
        before = entry["side"] == "inputs"
        ordinal += before
        detail = _elements(entry, kind)
        if detail:
            return Fault(None if before else entry["kernel"], ordinal, kind, detail)
    return None


def _elements(entry: Mapping[str, Any], kind: str) -> str:
    """The first tensor with such elements, `3 NaN in 4x8`; empty if there is none."""
    for tensor in entry["tensors"]:
        if tensor is not None and tensor[kind]:
            shape = "x".join(map(str, tensor["shape"])) or "a scalar"
            return f"{tensor[kind]} {'NaN' if kind == 'nan' else 'inf'} in {shape}"
    return ""
