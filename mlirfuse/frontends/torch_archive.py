"""Reads `.pt2` files without running code that they may hold.

`torch.export.load` unpickles parts of the archive, loads shared libraries from it and evaluates
size expressions as Python. All three are checked before PyTorch reads the file.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.core import ImportFailedError
from mlirfuse.frontends.lowering import one_line
from mlirfuse.frontends.torch_quiet import quiet

if TYPE_CHECKING:
    import torch

_RESAVE = "save it again with torch.export.save, plain tensors only"

_EXPRESSION = re.compile(r"(?:[A-Za-z]\w*|\d+(?:\.\d+)?|'[A-Za-z]\w*'|[-+*/(),=<>!&|~% ])*")
"""Size expressions: names, numbers, quoted symbol names and arithmetic; no attribute access."""

_TARGET = re.compile(r"torch\.ops\.[\w.]+|_operator\.\w+|math\.\w+|torch\.sym_\w+|torch\._sym_\w+")
"""Allowed targets of a node."""


def load_program(path: Path) -> torch.export.ExportedProgram:
    """Loads the exported program of a `.pt2` file.

    Raises:
      ImportFailedError: the file is damaged, of another kind, or would run code.
    """
    import torch

    try:
        with zipfile.ZipFile(path) as archive:
            _check(archive, path)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError) as error:
        raise ImportFailedError(
            f"{path}: not a readable .pt2 file: {one_line(error)}; {_RESAVE}"
        ) from error
    try:
        with quiet(), path.open("rb") as file:
            return torch.export.load(file)
    except Exception as error:
        raise ImportFailedError(
            f"{path}: PyTorch cannot load it: {type(error).__name__}: {one_line(error)}"
        ) from error


def _check(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuses an archive whose loading would run code, or that holds no exported program."""
    import torch

    names = archive.namelist()
    roots = {name.partition("/")[0] for name in names}
    # Of two entries of one name PyTorch's reader may choose the one that was not checked.
    if len(set(names)) != len(names) or len(roots) != 1:
        raise ImportFailedError(f"{path}: not an archive of torch.export.save; {_RESAVE}")
    inside = {name.partition("/")[2]: name for name in names}
    programs = [n for n in inside if re.fullmatch(r"models/[^/]+\.json", n)]
    if programs != ["models/model.json"]:
        raise ImportFailedError(
            f"{path}: holds {len(programs)} exported programs in the format of PyTorch 2.8 and "
            f"newer; exactly one would be accepted: {_RESAVE}"
        )
    for name in inside:
        if _unsafe_entry(name):
            raise ImportFailedError(f"{path}: '{name}' would run code when loaded; {_RESAVE}")
    for name in inside:
        if not (config := re.fullmatch(r"(data/(?:weights|constants)/)\w+_config\.json", name)):
            continue
        for entry, payload in json.loads(archive.read(inside[name]))["config"].items():
            if payload["use_pickle"]:
                raise ImportFailedError(
                    f"{path}: tensor '{entry}' is pickled, which would run code when loaded; "
                    f"{_RESAVE}"
                )
            if config[1] + payload["path_name"] not in inside:
                raise ImportFailedError(f"{path}: the data of tensor '{entry}' is missing")
    if sample := inside.get("data/sample_inputs/model.pt"):
        content = archive.read(sample)
        try:
            if content:
                torch.load(io.BytesIO(content), weights_only=True)
        except Exception as error:
            raise ImportFailedError(
                f"{path}: its example inputs are not plain tensors, so loading them would run "
                f"code; {_RESAVE}"
            ) from error
    program = json.loads(archive.read(inside["models/model.json"]))
    for text in _strings(program, "expr_str"):
        called = re.findall(r"(\w+)\s*\(", text)
        if not _EXPRESSION.fullmatch(text) or not all(
            name[0].isupper() or name in ("floor", "ceiling") for name in called
        ):
            raise ImportFailedError(f"{path}: the size expression {text!r} is not arithmetic")
    for target in _strings(program, "target"):
        if not _TARGET.fullmatch(target):
            raise ImportFailedError(f"{path}: calls '{target}', which is not an operator")


def _unsafe_entry(name: str) -> bool:
    """Pickles and shared libraries."""
    return name.startswith("data/aotinductor/") or bool(
        re.match(r"data/constants/(custom_obj|opaque_obj)_", name)
        or re.fullmatch(r"data/(weights|constants)/[^/]+\.pt", name)
    )


def _strings(tree: Any, key: str) -> Iterator[str]:
    """Every string under `key`, anywhere in a JSON tree."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name == key and isinstance(value, str):
                yield value
            yield from _strings(value, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from _strings(value, key)
