"""The tuner's task that compiles a candidate, and the words of all its tasks."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlirfuse import targets
from mlirfuse.backend import statistics
from mlirfuse.compilation import open_model
from mlirfuse.core import MlirfuseError, Report
from mlirfuse.debug import compare
from mlirfuse.options import FusionOptions
from mlirfuse.targets.base import Target
from mlirfuse.tuning.model import portable, space
from mlirfuse.tuning_profile import application
from mlirfuse.tuning_profile.entry import Setting

PROGRAM = "program.vmfb"
MODEL = "model"

INCUMBENT = "incumbent"
"""The program that candidates are measured beside."""

CONTROL = "incumbent again"
"""The same program once more, in other memory, which shows the noise."""

Files = Mapping[str, Path]
Request = Mapping[str, Any]


def compile_candidate(request: Request, files: Files, output: Path) -> dict[str, Any]:
    """Compiles the model with some settings.

    Args:
      request: `model`, `target`, `options`, `settings`, `stock`, `timeout`.
      files: `MODEL`.
      output: gets `PROGRAM`.

    Returns:
      Digest, signature, numerics and memory of the program, and without settings the proposals.

    Raises:
      MlirfuseError: a setting does not apply, or the compiler refuses.
    """
    settings = [Setting(**given) for given in request["settings"]]
    options = FusionOptions(**request["options"])
    target = targets.parse(request["target"])
    settled, reasons = application.settle(settings, options, target, "tuner")
    if reasons:
        raise MlirfuseError(next(iter(reasons.values())))
    model = portable.restored(request["model"], files[MODEL])
    with open_model(
        model,
        target=settled.target,
        options=settled.options,
        timeout=request["timeout"],
        stock=request["stock"],
    ) as work:
        work.compiler = dataclasses.replace(work.compiler, keeps_layout=settled.keeps_layout)
        _, report = work.build()
        shutil.copyfile(work.program, output / PROGRAM)
        manifest = work.manifest(report)
        found: dict[str, Any] = {
            "digest": hashlib.sha256(work.program.read_bytes()).hexdigest(),
            "inputs": [dataclasses.asdict(spec) for spec in manifest.inputs],
            "outputs": [dataclasses.asdict(spec) for spec in manifest.outputs],
            "dispatches": report.dispatches["fused"],
            "numerics": str(compare.loosest(report)),
            "bytes": statistics.bytes_held(work.program.with_suffix(".csv")),
        }
        if not settings and not request["stock"]:
            found["proposals"] = _proposals(report, target, options, work.normalized, output)
    return found


def _proposals(
    report: Report, target: Target, options: FusionOptions, normalized: Path, output: Path
) -> list[dict[str, Any]]:
    from mlirfuse.tuning.model import kernel_space

    wide = output / "wide.mlirbc"
    enabled = space.with_everything_on(normalized, wide, target, options)
    wide.unlink(missing_ok=True)
    proposed = space.proposals(report, target, options, enabled)
    kernels = kernel_space.proposals(normalized, output / "kernels.mlirbc", target, options)
    return [
        {"setting": p.setting.to_dict(), "where": p.where, "modelled_us": p.modelled_us}
        for p in space.with_kernels(proposed, kernels)
    ]
