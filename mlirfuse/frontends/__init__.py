"""Importers: models of other frameworks as MLIR that IREE compiles."""

from __future__ import annotations

import dataclasses
import importlib
import mmap
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse.core import ImportFailedError, UsageError
from mlirfuse.frontends.containment import collected
from mlirfuse.frontends.imported import ImportedModel
from mlirfuse.support import stages
from mlirfuse.support.signature import TensorSpec
from mlirfuse.support.subprocess import check_timeout

__all__ = ["ImportedModel", "TensorSpec", "import_model"]

_ACCEPTED = (
    "a .mlir, .mlirbc, .onnx or .pt2 file, a serialized jax.export, or package.module:function"
)
_REFERENCE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")
_BYTECODE = b"ML\xefR"
_ZIP = b"PK\x03\x04"
_PORTABLE = b"StableHLO_v"
"""Producer of the portable StableHLO bytecode that a serialized `jax.export.Exported` holds."""

_REFUSED_SUFFIXES = {
    ".pt": "a pickle, which runs code when loaded; write it with torch.export.save as .pt2",
    ".pth": "a pickle, which runs code when loaded; write it with torch.export.save as .pt2",
    ".bin": "weights without a program; export the model with torch.export.save as .pt2",
    ".safetensors": "weights without a program; export the model with torch.export.save as .pt2",
    ".vmfb": "compiled already; load it with mlirfuse.load or run it with mlirfuse-run",
}


def import_model(
    model: Any,
    example_inputs: Any = None,
    *,
    dynamic_shapes: Any = None,
    function: str | None = None,
    attention: str = "auto",
    timeout: float | None = None,
) -> ImportedModel:
    """Turns a model into linalg on tensors, as bytecode on disk.

    Args:
      model: one of
        - `torch.nn.Module`, `torch.export.ExportedProgram`, or the path of a `.pt2` file;
        - a function, jitted by JAX or not, a `jax.export.Exported`, or bytes or the path of a
          serialized one;
        - the path of an `.onnx` file;
        - MLIR: text, bytecode or its path, or an `iree.compiler.ir.Module`; the dialect is detected
          from the content;
        - an `ImportedModel`, which is returned unchanged;
        - `package.module:function`. The function is **run**: it returns the model, its example
          inputs and, as an optional third value, dynamic shapes.
      example_inputs: for modules and functions, a tuple of arguments or a mapping of keyword
        arguments: tensors, arrays, `jax.ShapeDtypeStruct`, and containers of them. For an `.onnx`
        file, arguments whose sizes take the place of those that it leaves open.
      dynamic_shapes: for PyTorch, as `torch.export.export` takes them.
      function: for MLIR, name of the function to call; for other models, name of the function in
        the result.
      attention: for PyTorch, the form of `scaled_dot_product_attention`: `whole`, `decomposed` or
        `auto`.
      timeout: seconds for each subprocess of the import; None for no limit.

    Raises:
      UsageError: the request is wrong: no such file, no example inputs, an extra not installed.
      ImportFailedError: the model is damaged or IREE does not support a part of it.
      CompileFailedError: the lowering crashed or ran out of time.
    """
    check_timeout(timeout)
    if isinstance(model, ImportedModel):
        return model
    stages.show("importing")
    with collected() as left_out:
        imported = _import(model, example_inputs, dynamic_shapes, function, attention, timeout)
    return dataclasses.replace(imported, left_out=left_out) if left_out else imported


def _import(
    model: Any,
    example_inputs: Any,
    dynamic_shapes: Any,
    function: str | None,
    attention: str,
    timeout: float | None,
) -> ImportedModel:
    common: dict[str, Any] = {"function": function, "timeout": timeout}
    if isinstance(model, str) and is_reference(model):
        if example_inputs is not None or dynamic_shapes is not None:
            raise UsageError(f"{model} returns its own example inputs; pass none")
        returned = call_reference(model)
        return import_model(
            returned[0],
            returned[1],
            dynamic_shapes=returned[2] if len(returned) > 2 else None,
            attention=attention,
            **common,
        )
    if isinstance(model, str) and ("\n" in model or "{" in model):
        model = model.encode()
    if isinstance(model, str | os.PathLike):
        return _import_file(Path(model), example_inputs, attention=attention, common=common)
    if isinstance(model, bytes | bytearray | memoryview):
        return _import_bytes(bytes(model), common)
    return _import_object(model, example_inputs, dynamic_shapes, attention, common)


def is_reference(model: str) -> bool:
    """Whether a name has the form `package.module:function`."""
    return _REFERENCE.fullmatch(model) is not None


def call_reference(reference: str) -> Sequence[Any]:
    """Runs the user's function; modules in the working directory are found too.

    Args:
      reference: `package.module:function`.

    Returns:
      The model, its example inputs and, in a third place, dynamic shapes if there are any.

    Raises:
      ImportFailedError: the function fails or returns something else.
    """
    module_name, _, name = reference.partition(":")
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        returned = getattr(importlib.import_module(module_name), name)()
    except Exception as error:
        from mlirfuse.frontends.lowering import one_line

        raise ImportFailedError(
            f"{reference} failed: {type(error).__name__}: {one_line(error)}"
        ) from error
    finally:
        sys.path.remove(folder)
    if not isinstance(returned, tuple) or len(returned) not in (2, 3):
        raise ImportFailedError(
            f"{reference} returned {type(returned).__name__}; a tuple (model, example_inputs) or "
            "(model, example_inputs, dynamic_shapes) would be accepted"
        )
    return returned


def _import_file(
    path: Path, example_inputs: Any, *, attention: str, common: dict[str, Any]
) -> ImportedModel:
    kind = kind_of_file(path)
    if kind == "onnx":
        _require("onnx", "onnx", f"importing {path}")
        from mlirfuse.frontends.onnx import import_file as import_onnx

        return import_onnx(path, example_inputs, **common)
    if example_inputs is not None:
        raise UsageError(f"{path} has the sizes of its arguments; pass no example inputs")
    if kind == "torch":
        _require("torch", "torch", f"importing {path}")
        from mlirfuse.frontends.torch import import_file as import_torch

        return import_torch(path, attention=attention, **common)
    if kind == "jax":
        _require("jax", "jax", f"importing {path}")
        from mlirfuse.frontends.jax import import_serialized

        return import_serialized(path.read_bytes(), source=str(path), **common)
    from mlirfuse.frontends.mlir import import_file as import_mlir

    return import_mlir(path, source=str(path), **common)


def kind_of_file(path: Path) -> str:
    """The importer of a file, by its first bytes, then by its suffix, then by its text.

    Returns:
      `mlir`, `onnx`, `torch` or `jax`.

    Raises:
      UsageError: the file cannot be read, or is of another kind.
      ImportFailedError: it is empty.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a directory; {_ACCEPTED} would be accepted")
    try:
        with path.open("rb") as file:
            head = file.read(4096)
            if not head:
                raise ImportFailedError(f"{path} is empty; {_ACCEPTED} would be accepted")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                portable = content.find(_PORTABLE) >= 0
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}; {_ACCEPTED} would be accepted"
        ) from error
    suffix = path.suffix.lower()
    if suffix in _REFUSED_SUFFIXES:
        raise UsageError(f"{path} is {_REFUSED_SUFFIXES[suffix]}")
    if head.startswith(_BYTECODE) or suffix in (".mlir", ".mlirbc"):
        return "mlir"
    if suffix == ".onnx":
        return "onnx"
    if head.startswith(_ZIP) or suffix == ".pt2":
        return "torch"
    if portable:
        return "jax"
    if _is_mlir_text(head):
        return "mlir"
    raise UsageError(f"{path} is of an unknown kind; {_ACCEPTED} would be accepted")


def _import_bytes(data: bytes, common: dict[str, Any]) -> ImportedModel:
    if not data.startswith(_BYTECODE) and _PORTABLE in data:
        _require("jax", "jax", "importing a serialized jax.export")
        from mlirfuse.frontends.jax import import_serialized

        return import_serialized(data, source="<jax.export>", **common)
    if data.startswith(_BYTECODE) or _is_mlir_text(data[:4096]):
        from mlirfuse.frontends.mlir import import_bytes

        return import_bytes(data, **common)
    raise UsageError(
        "these bytes are of an unknown kind; MLIR text or bytecode, or a serialized "
        "jax.export would be accepted"
    )


def _is_mlir_text(head: bytes) -> bool:
    # A character cut off at the end is no sign of binary data.
    text = head.decode("utf-8", errors="replace").rstrip("\ufffd")
    return (
        "\ufffd" not in text and "\0" not in text and bool(re.search(r"\b(func|module)\b|@", text))
    )


def _import_object(
    model: Any, example_inputs: Any, dynamic_shapes: Any, attention: str, common: dict[str, Any]
) -> ImportedModel:
    """Imports an object of a framework; its framework is imported already."""
    kind = kind_of_object(model, example_inputs)
    if kind == "mlir":
        from mlirfuse.frontends.mlir import import_module as import_mlir

        return import_mlir(model, **common)
    if kind == "torch":
        from mlirfuse.frontends import torch as torch_importer

        if isinstance(model, sys.modules["torch"].export.ExportedProgram):
            return torch_importer.import_program(model, attention=attention, **common)
        return torch_importer.import_module(
            model,
            example_inputs,
            dynamic_shapes=dynamic_shapes,
            attention=attention,
            **common,
        )
    from mlirfuse.frontends import jax as jax_importer

    if _is_jax_export(model):
        return jax_importer.import_exported(model, **common)
    return jax_importer.import_function(model, example_inputs, **common)


def kind_of_object(model: Any, example_inputs: Any) -> str:
    """The importer of an object: `mlir`, `torch` or `jax`.

    Raises:
      UsageError: it is of another type, or a function without JAX.
    """
    if type(model).__module__.startswith("iree.compiler"):
        return "mlir"
    if torch := sys.modules.get("torch"):
        modules = torch.export.ExportedProgram, torch.nn.Module
        if isinstance(model, modules) or (callable(model) and _holds(example_inputs, torch.Tensor)):
            return "torch"
    if _is_jax_export(model):
        return "jax"
    if callable(model) and not isinstance(model, type):
        _require("jax", "jax", "importing a function")
        return "jax"
    raise UsageError(
        f"a model cannot be of type {type(model).__name__}; a torch.nn.Module, an exported "
        f"program, a function, MLIR, {_ACCEPTED} would be accepted"
    )


def _is_jax_export(model: Any) -> bool:
    jax_export = sys.modules.get("jax.export")
    return jax_export is not None and isinstance(model, jax_export.Exported)


def _holds(tree: Any, kind: type) -> bool:
    """Whether nested containers have a leaf of this type."""
    if isinstance(tree, Mapping):
        return any(_holds(v, kind) for v in tree.values())
    if isinstance(tree, list | tuple):
        return any(_holds(v, kind) for v in tree)
    return isinstance(tree, kind)


def _require(module: str, extra: str, purpose: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{purpose} needs {module}: pip install 'mlirfuse[{extra}]'") from error
