"""The fusion graph as a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from mlirfuse.core import Report, UsageError
from mlirfuse.explain import dot, model_explorer
from mlirfuse.support.atomic_file import replacing

GRAPH_SUFFIXES = (".dot", ".json")
"""Suffixes of graph files: Graphviz, Model Explorer."""


def check_graph(path: str | os.PathLike[str]) -> None:
    """Checks that the suffix of a file is one of `GRAPH_SUFFIXES`.

    Raises:
      UsageError: it has another suffix.
    """
    if Path(path).suffix not in GRAPH_SUFFIXES:
        known = " or ".join(f"FILE{suffix}" for suffix in GRAPH_SUFFIXES)
        raise UsageError(f"--graph={path}: takes {known} (Graphviz, Model Explorer)")


def graph_text(report: Report, path: str | os.PathLike[str]) -> str:
    """The fusion graph in the format of the file's suffix.

    Raises:
      UsageError: it has another suffix.
    """
    check_graph(path)
    if Path(path).suffix == ".dot":
        return dot.text(report)
    return json.dumps(model_explorer.document(report), indent=1) + "\n"


def write_graph(report: Report, path: str | os.PathLike[str]) -> None:
    """Writes the fusion graph for Graphviz (`.dot`) or Model Explorer (`.json`).

    Args:
      report: the report of a compilation; without its `graph`, groups are written without edges.
      path: the file, which is replaced atomically.

    Raises:
      UsageError: the file has another suffix, or cannot be written.
    """
    written = graph_text(report, path)
    with replacing(Path(path)) as staged:
        staged.write_text(written, encoding="utf-8")
