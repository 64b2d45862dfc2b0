"""`mlirfuse-tune MODEL -o FILE.toml`, `--merge`: searches settings, writes and joins profiles."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse import targets
from mlirfuse.core import UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.support import shapes
from mlirfuse.tools import arguments, files
from mlirfuse.tools.diagnostics import warn
from mlirfuse.tools.progress import shown

if TYPE_CHECKING:
    from mlirfuse.tuning.execution.task import Executor
    from mlirfuse.tuning.model.problem import Shapes

SUFFIX = ".toml"
"""Suffix of a profile, by which `-o` asks for one."""

OBJECTIVES = ("latency", "throughput", "memory")


def add_arguments(group: Any) -> None:
    """Adds the arguments of a search to a group."""
    group.add_argument(
        "--merge",
        action="store_true",
        help="join the profiles that are given in place of MODEL into the one of -o",
    )
    group.add_argument(
        "--shapes",
        action="append",
        default=[],
        metavar="AxB,...[@WEIGHT]",
        help="shapes of the arguments, for dynamic sizes; several times for a weighted set",
    )
    group.add_argument(
        "--objective",
        choices=OBJECTIVES,
        default=OBJECTIVES[0],
        help="time of a call; time of a call on each core at once; or bytes of buffers",
    )
    group.add_argument(
        "--max-candidates", type=_count, metavar="N", help="single settings that are tried"
    )
    group.add_argument(
        "--workers", type=_count, metavar="N", help="compilations at a time (default: the cores)"
    )
    group.add_argument(
        "--store",
        metavar="DIR",
        help="folder that keeps every result: a search that was ended goes on from there",
    )
    group.add_argument(
        "--timeout",
        type=arguments.seconds("--timeout"),
        metavar="SECONDS",
        help="give a candidate up whose compilation takes longer",
    )
    group.add_argument(
        "--minutes",
        type=arguments.seconds("--minutes", "minutes"),
        metavar="N",
        help="end the search after about so long, with the best that was found by then",
    )
    group.add_argument(
        "--ray",
        nargs="?",
        const="local",
        metavar="ADDRESS",
        help="run on the Ray cluster at ADDRESS (auto, HOST:6379), or start Ray on this machine",
    )
    arguments.add_function(group)


def given(args: argparse.Namespace) -> str | None:
    """The first argument of a search that is given; None where none is."""
    words = {
        "--shapes": args.shapes,
        "--objective": args.objective != OBJECTIVES[0],
        "--max-candidates": args.max_candidates,
        "--workers": args.workers,
        "--store": args.store,
        "--timeout": args.timeout,
        "--minutes": args.minutes,
        "--ray": args.ray,
        "--function": args.function,
    }
    return next((name for name, value in words.items() if value), None)


def merge(prog: str, names: Sequence[str], output: str) -> int:
    """Joins profiles into one file.

    Raises:
      UsageError: fewer than two are given, or one is no profile.
    """
    from mlirfuse.tuning_profile import file

    if len(names) < 2:
        raise UsageError("--merge takes two profiles or more: --merge A.toml B.toml -o C.toml")
    files.keep_inputs(names, [("--output", output)])
    merged, notes = file.merge([file.read(name) for name in names])
    for note in notes:
        warn(prog, note)
    merged.write(output)
    models, entries = len(merged.sections), sum(len(s.entries) for s in merged.sections)
    counts = f"{models} model{'s' * (models != 1)}, {entries} setting{'s' * (entries != 1)}"
    sys.stdout.write(f"{output}: {counts}\n")
    return 0


def search(prog: str, args: argparse.Namespace, options: FusionOptions) -> int:
    """Searches the settings of a model, and writes its profile.

    Raises:
      UsageError, MlirfuseError: as `tuning.model.tune.tune`.
    """
    if len(args.model) != 1:
        raise UsageError(f"-o is given with {len(args.model)} models; it takes one")
    if args.minutes is not None and args.ray is not None:
        raise UsageError("--minutes is for a search on this machine; it does not go with --ray")
    name, output = args.model[0], args.output
    files.keep_inputs([name], [("--output", output)])
    target = targets.parse(args.target)

    from mlirfuse.tuning.model import tune
    from mlirfuse.tuning_profile.file import Profile

    limits = {"compile_seconds": args.timeout, "max_candidates": args.max_candidates}
    request = tune.Request(
        model=name,
        name=Path(name).name,
        target=str(target),
        options=options,
        shapes=_shapes(args.shapes),
        objective=args.objective,
        function=args.function,
        device=args.device,
        seconds=None if args.minutes is None else 60 * args.minutes,
        **{field: value for field, value in limits.items() if value is not None},
    )
    with _stored(args, name) as (executor, folder), shown(f"tuning {name}") as show:

        def say(stage: str, done: int, total: int) -> None:
            if args.verbose:
                print(f"{stage} {done}/{total}" if total else stage, file=sys.stderr)
            else:
                show(stage, done, total)

        section, found = tune.tune(request, executor, folder, say)
        Profile((section,)).write(output)
    for settings, reason in {**found.wrong, **(found.failed if args.verbose else {})}.items():
        warn(prog, f"{settings}: not accepted: {reason}")
    sys.stdout.write(tune.summary(section, found))
    return 0


@contextlib.contextmanager
def _stored(args: argparse.Namespace, model: str) -> Iterator[tuple[Executor, Path]]:
    """An executor that keeps results, and a folder for the imported model.

    The folder of results is removed at the end of a search, unless the user named it.
    """
    from mlirfuse.tuning.execution.store import Store, Stored

    folder = Path(args.store) if args.store else _default_folder(args, model)
    store = Store(folder)
    imported, work = folder / "model", folder / f"tasks{os.getpid()}"
    imported.mkdir(exist_ok=True)
    executor = Stored(_executor(args, work), store)
    try:
        yield executor, imported
    finally:
        executor.close()
        shutil.rmtree(work, ignore_errors=True)
    if not args.store:
        shutil.rmtree(folder, ignore_errors=True)


def _executor(args: argparse.Namespace, folder: Path) -> Executor:
    """What runs the tasks: processes of this machine, or a Ray cluster."""
    if args.ray is None:
        from mlirfuse.runtime.device_choice import environments
        from mlirfuse.tuning.execution.local import LocalExecutor

        target = targets.parse(args.target)
        return LocalExecutor(
            folder,
            args.workers,
            measures_beside=target.name in ("cuda", "rocm"),
            environments=environments(args.device or target.device),
        )
    from mlirfuse.tuning.execution.ray_executor import RayExecutor

    address = None if args.ray == "local" else args.ray
    gpus = address is not None and targets.parse(args.target).name in ("cuda", "rocm")
    return RayExecutor(folder, address, args.workers, gpus=gpus)


def _default_folder(args: argparse.Namespace, model: str) -> Path:
    import platformdirs

    identity = [
        str(Path(model).resolve()),
        args.target,
        args.device or "",
        args.objective,
        *args.shapes,
    ]
    name = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("mlirfuse") / "tuning" / name


def _shapes(texts: Sequence[str]) -> tuple[Shapes, ...]:
    """Reads the values of `--shapes`.

    Raises:
      UsageError: one is malformed.
    """
    from mlirfuse.tuning.model.problem import Shapes

    found = []
    for text in texts:
        listed, at, weight = text.partition("@")
        try:
            number = float(weight) if at else 1.0
        except ValueError:
            number = 0.0
        read = [shapes.sizes(part) for part in listed.split(",")]
        given = tuple(shape for shape in read if shape is not None)
        if len(given) < len(read) or not 0 < number < math.inf:
            raise UsageError(f"--shapes takes 1x128,1x128 or 1x128,1x128@3, not '{text}'")
        found.append(Shapes(given, number))
    return tuple(found) or (Shapes(),)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"takes a number from 1, not '{text}'")
    return int(text)
