"""Tunes a model file and makes the section of its profile.

with local_executor(folder) as executor:
section = tune(request, executor)
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse import targets
from mlirfuse.compilation import open_model
from mlirfuse.core import UsageError
from mlirfuse.frontends.imported import ImportedModel
from mlirfuse.options import FusionOptions
from mlirfuse.tuning.execution.task import Executor
from mlirfuse.tuning.model import portable
from mlirfuse.tuning.model.problem import (
    COMPILE_SECONDS,
    LATENCY,
    MEASURE_SECONDS,
    Problem,
    Shapes,
)
from mlirfuse.tuning.model.search import MAX_CANDIDATES, Search
from mlirfuse.tuning.model.trials import Found, Kept, Say
from mlirfuse.tuning_profile import application, fingerprint
from mlirfuse.tuning_profile.entry import Entry
from mlirfuse.tuning_profile.file import Section

_SIGNIFICANT = 4

BATCH_BYTES = 6 << 30
"""Memory of a device for the programs of a batch: a GPU of 8 GB has it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request to tune a model.

    Attributes:
      model: as for `mlirfuse.compile`.
      name: name of the model in the profile.
      target: spelling of the target.
      options: the switches; those that are set are no settings, and `numerics` is the loosest
        class that is allowed.
      shapes: the sets of shapes.
      objective: `latency`, `throughput` or `memory`.
      function: the function of MLIR with several.
      max_candidates: single settings that are tried.
      compile_seconds: time limit of the compilation of a candidate.
      measure_seconds: time limit of a batch of measurements.
      seed: seed of random arguments.
      example_inputs: of a module of PyTorch or a function of JAX.
      seconds: approximate time limit of the search; None for none.
      batch_bytes: memory of another device than the CPU that programs may take together while they
        are measured in turns.
      device: URI of iree-runtime's device; None for the target's.
    """

    model: Any
    name: str
    target: str
    options: FusionOptions
    shapes: tuple[Shapes, ...] = (Shapes(),)
    objective: str = LATENCY
    function: str | None = None
    max_candidates: int = MAX_CANDIDATES
    compile_seconds: float = COMPILE_SECONDS
    measure_seconds: float = MEASURE_SECONDS
    seed: int = 0
    example_inputs: Any = None
    seconds: float | None = None
    batch_bytes: int = BATCH_BYTES
    device: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """An imported model, ready for tasks.

    Attributes:
      problem: the problem of the search.
      graph: fingerprint of the imported model.
      further: fingerprints of the same model in its file, and past IREE's global optimization.
    """

    problem: Problem
    graph: str
    further: tuple[str, ...]


def opened(request: Request, folder: Path) -> Opened:
    """Imports the model in each form of attention, into files of a folder.

    Raises:
      UsageError, ImportFailedError: as `mlirfuse.compile`.
    """
    plain = dataclasses.replace(request.options, profile=None)
    sources: dict[str, tuple[dict[str, Any], Path]] = {}
    forms = {"": "auto", **{form: form for form in application.ATTENTIONS}}
    seen: set[str] = set()
    further: list[str] = []
    graph = ""
    for form, attention in forms.items():
        with _imported(request, plain, attention) as (model, normalized):
            found = fingerprint.of_file(model.path)
            if not form:
                graph = found
                further = [fingerprint.of_file(normalized), *_as_written(request.model)]
            if found not in seen:
                path = folder / f"model_{form or 'default'}{model.path.suffix}"
                shutil.copyfile(model.path, path)
                sources[form] = portable.described(model), path
                seen.add(found)
            if model.frontend != "torch":
                break
    _check_shapes(request, sources[""][0]["inputs"])
    problem = Problem(
        sources=sources,
        target=request.target,
        options=plain.to_dict(),
        shapes=request.shapes,
        objective=request.objective,
        compile_seconds=request.compile_seconds,
        measure_seconds=request.measure_seconds,
        seed=request.seed,
        device=request.device,
    )
    return Opened(problem, graph, tuple(dict.fromkeys(further)))


def _check_shapes(request: Request, inputs: Sequence[Mapping[str, Any]]) -> None:
    """Refuses shapes that the model does not take.

    Raises:
      UsageError: there is another number of them, or of dimensions, or another static size.
    """
    for given in request.shapes:
        if given.shapes is None:
            continue
        wanted = [tuple(spec["shape"]) for spec in inputs]
        fits = len(given.shapes) == len(wanted) and all(
            len(shape) == len(spec)
            and all(s in (None, n) for s, n in zip(spec, shape, strict=True))
            for shape, spec in zip(given.shapes, wanted, strict=True)
        )
        if not fits:
            specs = ",".join(map(str, portable.specs(inputs)))
            raise UsageError(f"{request.name} takes {specs}; shapes {given} do not fit")


@contextlib.contextmanager
def _imported(
    request: Request, options: FusionOptions, attention: str
) -> Iterator[tuple[ImportedModel, Path]]:
    with open_model(
        request.model,
        request.example_inputs,
        target=request.target,
        options=options,
        function=request.function,
        attention=attention,
        timeout=request.compile_seconds,
    ) as work:
        yield work.imported, work.normalized


def _as_written(model: Any) -> list[str]:
    """The fingerprint of a file of MLIR itself, as `mlirfuse-opt` reads it."""
    if not isinstance(model, str | Path) or Path(model).suffix not in (".mlir", ".mlirbc"):
        return []
    try:
        return [fingerprint.of_file(Path(model))]
    except Exception:  # the importer read a dialect that the bindings do not
        return []


def tune(
    request: Request,
    executor: Executor,
    folder: Path,
    say: Say = lambda stage, done, total: None,
) -> tuple[Section, Found]:
    """Searches, and returns the section of the profile.

    Args:
      request: the model and target.
      executor: runs the tasks.
      folder: an existing folder for the imported model; the same one when a search is resumed.
      say: called with a stage, and how many of how many are done.

    Raises:
      UsageError, ImportFailedError: as `mlirfuse.compile`.
      MlirfuseError: the model cannot be compiled or called with the default settings.
    """
    say(f"importing {request.name}", 0, 0)
    return searched(request, opened(request, folder), executor, say)


def searched(
    request: Request,
    model: Opened,
    executor: Executor,
    say: Say = lambda stage, done, total: None,
) -> tuple[Section, Found]:
    """Searches for an imported model, and returns the section of the profile.

    Args and errors are those of `tune`.
    """
    on_cpu = targets.parse(request.target).name == "cpu"
    search = Search(
        model.problem,
        executor,
        say,
        request.max_candidates,
        seconds=request.seconds,
        batch_bytes=None if on_cpu else request.batch_bytes,
    )
    found = search.run()
    return section(request, model, found), found


def section(request: Request, model: Opened, found: Found) -> Section:
    """The section of the profile."""
    target = targets.parse(request.target)
    now = application.versions()
    device = application.device_name(target)
    entries = []
    for kept in sorted(found.settings, key=lambda k: -k.comparison.ratio.median):
        proposal = found.proposals.get(kept.setting.key)
        entries.append(
            Entry(
                kept.setting,
                where="" if proposal is None else proposal.where,
                speedup=kept.comparison.ratio.median,
                interval=kept.comparison.interval,
                noise=kept.comparison.noise,
                rounds=kept.rounds,
                how=_how(request.objective, device, kept),
                versions=now,
            )
        )
    result: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "tried": found.tried,
        "same_code": found.same,
        "wrong": len(found.wrong),
        "failed": len(found.failed),
    }
    if found.untried:
        result["untried"] = found.untried
    if found.whole is not None:
        result |= {
            "speedup": round(found.whole.ratio.median, _SIGNIFICANT),
            "interval": [round(end, _SIGNIFICANT) for end in found.whole.interval],
            "noise": round(found.whole.noise, _SIGNIFICANT),
            "rounds": found.rounds,
            "default_ms": round(found.milliseconds[0], 6),
            "tuned_ms": round(found.milliseconds[1], 6),
        }
    return Section(
        model=request.name,
        graph=model.graph,
        further_graphs=model.further,
        target=str(target),
        device=device,
        versions=now,
        objective=request.objective,
        shapes=tuple(map(str, request.shapes)),
        result=result,
        entries=tuple(entries),
    )


def _how(objective: str, device: str, kept: Kept) -> str:
    """How the gain of a setting was measured."""
    text = f"{objective}, without it in interleaved rounds on {device}"
    if kept.together is None:
        return text
    gain = round(kept.together.ratio.median, _SIGNIFICANT)
    return f"{text}; alone within the noise, {gain} with the others of this kind"


def failures(found: Found) -> dict[str, int]:
    """The reasons of candidates that failed or were wrong, and their numbers: the most first."""
    reasons = collections.Counter([*found.failed.values(), *found.wrong.values()])
    return dict(reasons.most_common())


def summary(section: Section, found: Found) -> str:
    """The result of a search for a terminal."""
    candidates = "1 candidate" if found.tried == 1 else f"{found.tried} candidates"
    counts = (
        f"{candidates} tried: {found.same} with the same code,"
        f" {len(found.wrong)} wrong, {len(found.failed)} failed"
    )
    if found.untried:
        counts += f"; no time was left for {found.untried} more"
    lines = [f"{section.name}: {counts}"]
    lines += [f"  {number} x {reason}" for reason, number in failures(found).items()]
    if found.whole is None:
        lines.append("no setting is faster than the default outside the noise")
        return "".join(f"{line}\n" for line in lines)
    low, high = found.whole.interval
    lines.append(
        f"{found.milliseconds[1]:.4g} ms, default {found.milliseconds[0]:.4g} ms:"
        f" {found.whole.ratio.median:.3f} times as fast ({low:.3f} to {high:.3f})"
    )
    for entry in section.entries:
        lines.append(f"  {entry.speedup:6.3f}  {entry.setting}")
    return "".join(f"{line}\n" for line in lines)
