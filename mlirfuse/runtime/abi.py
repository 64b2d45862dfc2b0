"""Signatures of a program's functions, read from the declarations that IREE's ABI leaves in it.

sync func @main(%input0: tensor<4x?xf32>, %input1: i32) -> (%output0: tensor<4xf32>)
"""

from __future__ import annotations

import re

from mlirfuse.core import MlirfuseError, Report, UsageError, nearest
from mlirfuse.runtime.devices import first_line
from mlirfuse.runtime.image import Image
from mlirfuse.runtime.manifest import Manifest
from mlirfuse.support.signature import TensorSpec

DECLARATION = "iree.abi.declaration"
"""Reflection attribute of a function that holds its declaration."""

_TYPED_VALUE = re.compile(r"%\w+: (?P<type>tensor<(?:[^<>]|<[^>]*>)*>|[\w.!]+)")

_SIZES = re.compile(r"(?:(?:\d+|\?)x)*")


def declared_types(declaration: str) -> tuple[list[str], list[str]]:
    """Types of the arguments and of the results in a declaration."""
    inputs, _, outputs = declaration.partition(") -> (")
    return (
        [found["type"] for found in _TYPED_VALUE.finditer(inputs)],
        [found["type"] for found in _TYPED_VALUE.finditer(outputs)],
    )


def scalar_types(declaration: str, count: int) -> list[str | None]:
    """The type of each scalar argument; None for tensors, and where the declaration is not known.

    Args:
      declaration: of the function; an empty string if there is none.
      count: number of arguments.
    """
    types = declared_types(declaration)[0]
    if len(types) != count:
        return [None] * count
    return [None if text.startswith(("tensor", "!")) else text for text in types]


def declaration(image: Image, function: str) -> str:
    """The declaration of a function; an empty string if it has none."""
    import iree.runtime as rt

    # A function does not keep its module alive.
    instance = rt.VmInstance()
    module = rt.VmModule.wrap_buffer(instance, image.data)
    found = module.lookup_function(function)
    return "" if found is None else str(found.reflection.get(DECLARATION, ""))


def tensor_spec(text: str) -> TensorSpec:
    """Shape and element type of a type, e.g. `tensor<4x?xf32>` or `i32`."""
    inner = text.removeprefix("tensor<").removesuffix(">") if text.startswith("tensor") else text
    sizes = _SIZES.match(inner)
    assert sizes is not None
    shape = tuple(None if s == "?" else int(s) for s in sizes[0].split("x")[:-1])
    return TensorSpec(shape, inner[sizes.end() :])


def declared_manifest(image: Image, function: str | None, manifest: Manifest | None) -> Manifest:
    """The manifest of a function that mlirfuse did not compile, from its declaration.

    Args:
      image: the program.
      function: name of the function; None for `main` or the first one.
      manifest: of another function of the program; None when the program has none.

    Raises:
      UsageError: the program has no such function.
      MlirfuseError: the file is no program, or the function does not declare its types.
    """
    import iree.runtime as rt

    try:
        module = rt.VmModule.wrap_buffer(rt.VmInstance(), image.data)
    except (ValueError, RuntimeError) as error:
        raise MlirfuseError(
            f"{image.path} is no program for iree-runtime: {first_line(error)}"
        ) from error
    names = [
        n for n in module.function_names if not n.startswith("__") and not n.endswith("$async")
    ]
    if function is None:
        function = "main" if "main" in names or not names else names[0]
    elif function not in names:
        raise UsageError(f"{image.path} has no function '{function}'{nearest(function, names)}")
    found = module.lookup_function(function)
    declaration = found.reflection.get(DECLARATION) if found is not None else None
    if declaration is None:
        raise MlirfuseError(
            f"{image.path}: function '{function}' does not declare its types; compile it with"
            " mlirfuse-compile"
        )
    inputs, outputs = declared_types(declaration)
    return Manifest(
        device="local-task" if manifest is None else manifest.device,
        function=function,
        inputs=tuple(map(tensor_spec, inputs)),
        outputs=tuple(map(tensor_spec, outputs)),
        structure=None,
        source=image.path.name if manifest is None else manifest.source,
        has_state=None if manifest is None else manifest.has_state,
        waiting_workgroups=0 if manifest is None else manifest.waiting_workgroups,
        report=Report(target="unknown", iree="unknown", options={})
        if manifest is None
        else manifest.report,
    )
