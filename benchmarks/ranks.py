"""How well the cost model orders groups: its times, measured ones, and their rank correlation.

    python -m benchmarks.ranks                          groups of the CPU, measured here
    python -m benchmarks.ranks --target=cuda:sm_90 --save=FOLDER    compiled only
    python -m benchmarks.ranks --measure=FOLDER         measured on a machine with such a device

Each rewrite that forms a group of the models is compiled as a program of its own and timed with
`iree-benchmark-module`; a machine that measures needs iree-base-runtime and nothing else of IREE.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import tables
from mlirfuse.core import MlirfuseError

if TYPE_CHECKING:
    from mlirfuse.targets.base import Target

RECORD = "groups.json"
"""File of a saved folder that names its programs."""

REPETITIONS = 9
MIN_SECONDS = "0.05s"
"""Of each repetition; the fastest of them counts."""

GOAL = 0.8
"""Rank correlation at which the model's order is taken to be good."""

_log = logging.getLogger("benchmarks")


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """One group as a program.

    Attributes:
      work: the model that it comes from.
      pass_name: what formed it.
      program: file name of the `.vmfb`.
      function: its function.
      device: URI of IREE's runtime driver.
      inputs: arguments as IREE's tools take them.
      modelled_us: time in the cost model.
      measured_us: time of a call; None before it is measured.
    """

    work: str
    pass_name: str
    program: str
    function: str
    device: str
    inputs: tuple[str, ...]
    modelled_us: float
    measured_us: float | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Compiles, measures and prints what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ranks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--target", default="cpu", help="what to compile for (default: cpu)")
    parser.add_argument("--only", default="", metavar="WORD", help="work whose name has the word")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="compile, and do not measure")
    parser.add_argument("--measure", type=Path, metavar="FOLDER", help="measure what was saved")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        if given.measure is not None:
            entries = json.loads((given.measure / RECORD).read_text(encoding="utf-8"))
            groups = [Group(**{**e, "inputs": tuple(e["inputs"])}) for e in entries]
            show(measured(groups, given.measure))
            return 0
        if given.save is not None:
            given.save.mkdir(parents=True, exist_ok=True)
            save(compiled(given.target, given.only, given.save), given.save)
            return 0
        with tempfile.TemporaryDirectory(prefix="mlirfuse-") as folder:
            show(measured(compiled(given.target, given.only, Path(folder)), Path(folder)))
    except (MlirfuseError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


# --- programs ----------------------------------------------------------------------------------


def compiled(target_name: str, only: str, folder: Path) -> list[Group]:
    """The groups of all work, each compiled into the folder."""
    from mlirfuse import targets

    target = targets.parse(target_name)
    found: list[Group] = []
    seen: set[tuple[str, str]] = set()
    for work, make in _work(target).items():
        if only and only.lower() not in work.lower():
            continue
        _log.info("%s", work)
        found += _groups_of(work, make, target, folder, seen, len(found))
    return found


def _groups_of(
    work: str,
    make: Callable[[], tuple[object, object]],
    target: Target,
    folder: Path,
    seen: set[tuple[str, str]],
    first: int,
) -> list[Group]:
    from iree.compiler import ir

    from mlirfuse import cost
    from mlirfuse.backend.compiler import Compiler
    from mlirfuse.core import Kind
    from mlirfuse.frontends import import_model
    from mlirfuse.options import FusionOptions
    from mlirfuse.pipelines import engine
    from mlirfuse.standalone import Recorder

    options = FusionOptions.resolve()
    compiler = Compiler(target, options)
    imported = import_model(*make())
    assert imported.workdir is not None
    times: dict[tuple[str, int], float] = {}
    recorder = Recorder(lambda fusion, number: fusion.kind is not Kind.REWRITE)

    def observe(fusion, match, number):  # type: ignore[no-untyped-def]
        times[fusion.name, number] = cost.work(list(match.ops)).microseconds(target)
        return recorder(fusion, match, number)

    groups = []
    with imported.workdir as workdir:
        normalized = Path(workdir, "normalized.mlirbc")
        compiler.normalize(imported.path, normalized, input_type=imported.input_type)
        with ir.Context():
            module = ir.Module.parseFile(str(normalized))
            engine.run(module, target=target, options=options, observer=observe)
        for piece in recorder.pieces:
            # The tools do not read bits.
            bits = any(spec.dtype == "i1" for spec in piece.signature.inputs)
            if not piece.after or piece.key in seen or bits:
                continue
            seen.add(piece.key)
            source = Path(workdir, "piece.mlir")
            source.write_text(piece.after, encoding="utf-8")
            name = f"{first + len(groups)}.vmfb"
            try:
                compiler.generate(source, folder / name, fused=True)
            except MlirfuseError as error:
                _log.info("  %s left out: %s", piece.pass_name, error)
                continue
            inputs = tuple(
                f"{'x'.join([*map(str, spec.shape), spec.dtype])}=1"
                for spec in piece.signature.inputs
            )
            modelled = times[piece.pass_name, piece.match]
            groups.append(
                Group(
                    work,
                    piece.pass_name,
                    name,
                    piece.signature.function,
                    target.device,
                    inputs,
                    modelled,
                )
            )
    return groups


def save(groups: Iterable[Group], folder: Path) -> None:
    """Writes what `--measure` reads."""
    text = json.dumps([dataclasses.asdict(group) for group in groups], indent=1)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def _work(target: Target) -> dict[str, Callable[[], tuple[object, object]]]:
    """Models and single layers: name -> what makes the module and its inputs."""
    import torch
    from torch import nn

    from benchmarks import models

    large = 1 if target.name == "cpu" else 8
    narrow = torch.float32 if target.name == "cpu" else torch.float16

    def layer(module: nn.Module, *shape: int) -> Callable[[], tuple[object, object]]:
        return lambda: models.in_precision(module.eval(), (torch.randn(*shape),), narrow)

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            total = x + x.tanh()
            return self.norm(total), total

    class Chain(nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(x * 2 + 1) * x

    made: dict[str, Callable[[], tuple[object, object]]] = {
        "MiniLM 4x128": lambda: models.minilm(4, 128),
        "Llama block": lambda: models.llama_block(tokens=128, width=1024 if large == 1 else 2048),
        "GPT block": lambda: models.gpt_block(),
    }
    for rows, columns in ((128, 128), (512, 512), (2048, 1024), (4096, 2048)):
        size = (rows * large, columns)
        title = f"{size[0]}x{size[1]}"
        made[f"layer norm {title}"] = layer(nn.LayerNorm(columns), *size)
        made[f"RMS norm {title}"] = layer(models.RMSNorm(columns), *size)
        made[f"add, layer norm {title}"] = layer(Residual(min(columns, 128)), *size[:1], 128)
        made[f"softmax {title}"] = layer(nn.Softmax(dim=-1), *size)
        made[f"elementwise {title}"] = layer(Chain(), *size)
    for rows, inner, columns in ((64, 256, 256), (256, 512, 1024), (512, 1024, 1024)):
        size = (rows * large, inner)
        module = nn.Sequential(nn.Linear(inner, columns), nn.GELU())
        made[f"linear, GELU {size[0]}x{inner}x{columns}"] = layer(module, *size)
    return made


# --- times -------------------------------------------------------------------------------------


def measured(groups: Iterable[Group], folder: Path) -> list[Group]:
    """Times each program."""
    done = []
    for group in groups:
        _log.info("%s: %s", group.work, group.pass_name)
        done.append(dataclasses.replace(group, measured_us=_microseconds(group, folder)))
    return done


def _microseconds(group: Group, folder: Path) -> float:
    import iree.runtime

    tool = Path(iree.runtime.__file__).parents[1] / "_runtime_libs" / "iree-benchmark-module"
    command = [
        str(tool),
        f"--module={folder / group.program}",
        f"--function={group.function}",
        f"--device={group.device}",
        *(["--task_topology_group_count=2"] if group.device == "local-task" else []),
        *(f"--input={value}" for value in group.inputs),
        f"--benchmark_repetitions={REPETITIONS}",
        f"--benchmark_min_time={MIN_SECONDS}",
        "--benchmark_format=json",
    ]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise MlirfuseError(f"{group.program}: {made.stderr.strip().splitlines()[-1]}")
    runs = json.loads(made.stdout)["benchmarks"]
    scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3}
    return min(r["real_time"] * scale[r["time_unit"]] for r in runs if r["run_type"] == "iteration")


def spearman(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's rank correlation; equal values share their mean rank.

    Source: C. Spearman, The proof and measurement of association between two things, 1904.
    """
    return statistics.correlation(*map(_ranks, zip(*pairs, strict=True)))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) - 1) / 2 for v in values]


def show(groups: Sequence[Group]) -> None:
    """Prints the table and the correlation."""
    pairs = [(g.modelled_us, g.measured_us) for g in groups if g.measured_us is not None]
    rows = [
        [g.work, g.pass_name, f"{g.modelled_us:.1f}", f"{g.measured_us:.1f}"]
        for g in sorted(groups, key=lambda g: g.modelled_us)
    ]
    text = f"{len(pairs)} groups; rank correlation {spearman(pairs):.3f}, goal {GOAL}"
    tables.show(tables.Table("Cost model", text, ["work", "pass", "modelled us", "us"], rows, 2))
    print(text)


if __name__ == "__main__":
    sys.exit(main())
