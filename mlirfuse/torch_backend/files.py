"""Folders about a graph of `torch.compile`: for `report`, `debug_dir` and `TORCH_COMPILE_DEBUG`.

graph_0_0/                     `.1`, `.2`, ... is added where it exists
report.html, decisions.json, explain.txt
of the program; in `part_0/`, ... for a graph in parts
left_to_pytorch.txt          the ops that PyTorch runs, with reasons and source lines
dynamo_graph.py              for debugging: the graph as Dynamo gives it
aten_graph.py                the graph as AOTAutograd gives it
parts.py                     its parts, and the ops between them
imported.mlir, grouped.mlir  of the program: after the import, and with the passes' groups
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path

from mlirfuse.core import UsageError
from mlirfuse.torch_backend.options import BackendOptions
from mlirfuse.torch_backend.reports import ProgramReport, TorchReport

DEBUG_VARIABLE = "TORCH_COMPILE_DEBUG"
"""PyTorch's variable of the environment that asks for folders of each compiled graph."""

IMPORTED, GROUPED = "imported.mlir", "grouped.mlir"
"""The IR of a program after the import, and with the groups of the passes."""

SUBFOLDER = "mlirfuse"
"""Our folder beside `torchdynamo` and `torchinductor` in a run's folder of PyTorch."""


def debug_root(options: BackendOptions) -> Path | None:
    """The folder that gets a debug folder for each graph; None for none."""
    if options.debug_dir is not None:
        return Path(options.debug_dir)
    if os.environ.get(DEBUG_VARIABLE, "0") != "1":
        return None
    from torch._dynamo.utils import get_debug_dir

    return Path(get_debug_dir(), SUBFOLDER)


def folder_of(root: Path, name: str) -> Path:
    """Makes a new folder for a graph.

    Raises:
      UsageError: it cannot be made.
    """
    for index in itertools.count():
        path = root / (f"{name}.{index}" if index else name)
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if path.exists():
                continue
            raise _unwritable(root, "it is no folder") from None
        except OSError as error:
            raise _unwritable(root, error.strerror or str(error)) from error
        return path
    raise AssertionError("unreachable")


def _unwritable(root: Path, why: str) -> UsageError:
    return UsageError(f"options: cannot write to the folder {root}: {why}")


Texts = Mapping[str, str]
"""Names of files and their contents."""


def write_reports(
    folder: Path, graph: TorchReport, programs: Mapping[str, Texts] | None = None
) -> None:
    """Writes the page, the decisions and the explanation of each program of a graph.

    Args:
      folder: of the graph.
      graph: its report.
      programs: name of a program -> its IR, for the page; None where it was not kept.
    """
    (folder / "left_to_pytorch.txt").write_text(graph.left_text(), encoding="utf-8")
    for program in graph.programs:
        place = program_folder(folder, program.name, graph)
        place.mkdir(exist_ok=True)
        _write_program(place, graph, program, (programs or {}).get(program.name, {}))


def program_folder(folder: Path, name: str, graph: TorchReport) -> Path:
    """The folder of a program: that of its graph, where the graph is in one piece."""
    return folder if len(graph.programs) == 1 and not graph.left else folder / name


def _write_program(folder: Path, graph: TorchReport, program: ProgramReport, texts: Texts) -> None:
    from mlirfuse import explain
    from mlirfuse.explain.documents import report_document

    title = f"torch.compile {graph.name} {program.name}"
    explain.html(
        program.report,
        folder / "report.html",
        title=title,
        before=texts.get(IMPORTED),
        after=texts.get(GROUPED),
    )
    decisions = json.dumps(report_document(program.report), indent=1)
    (folder / "decisions.json").write_text(f"{decisions}\n", encoding="utf-8")
    (folder / "explain.txt").write_text(program.explain(), encoding="utf-8")


def write_texts(folder: Path, texts: Texts) -> None:
    """Writes files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
