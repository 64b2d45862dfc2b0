"""Writes the functions of the files beside this folder, as the frontends import them.

    python lit_tests/frontends/Inputs/write.py lit_tests/frontends/NAME.mlir

The comments of a file are kept. One of them before each function says what it is imported from:

    // From torch, x: f32[8, 16], w: f32[32, 16]
    //   x @ w.T
    // From onnx 17, x: f32[8, 16], w: f32[16, 32] -> y: f32[8, 32]
    //   y = MatMul(x, w)

The module that the passes see replaces what followed: after IREE's global optimization for the
target of the file's first RUN line.
"""

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import onnx
import onnx.parser
import torch
from iree.compiler import ir

from mlirfuse import api
from mlirfuse.options import FusionOptions

SPLIT = "\n// -----\n"
FROM = re.compile(r"^// From (torch|jax|onnx) ?(\d*), (.*)\n((?://   .*\n)+)", re.MULTILINE)
ARGUMENT = re.compile(r"(\w+): (\w+)\[([^]]*)\]")
LABEL = re.compile(r"^// CHECK-LABEL: @(\w+)", re.MULTILINE)
MACHINE = re.compile(r"^#executable_target|^#device_target| = #device_target")
ATTRIBUTES = re.compile(
    r' attributes \{iree.abi.stub, .*?"\}\}| \{stream.affinity.default = [^}]*\}'
)
TORCH = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "i64": torch.int64,
}
JAX = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "i8": jnp.int8}
ONNX = {"f32": "float", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i64": "int64"}
DYNAMIC = 5
"""Size of a `?` in the inputs that torch traces with."""

Arguments = list[tuple[str, str, list[str]]]


def function(names: list[str], text: str, scope: dict[str, Any]) -> Callable[..., Any]:
    """The function that returns what the last line of a text is, after its other lines."""
    *lines, last = text.splitlines()
    body = "\n  ".join([*lines, f"return {last}"])
    exec(f"def main({', '.join(names)}):\n  {body}", scope)
    made: Callable[..., Any] = scope["main"]
    return made


def of_torch(arguments: Arguments, text: str) -> tuple[Any, Any, Any]:
    """Model, inputs and dynamic shapes of an expression of torch."""
    names = [name for name, _, _ in arguments]
    scope = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn}
    inputs = tuple(
        torch.zeros([DYNAMIC if s == "?" else int(s) for s in shape], dtype=TORCH[kind])
        for _, kind, shape in arguments
    )
    rows = torch.export.Dim("rows")
    moving = [
        {axis: rows for axis, size in enumerate(shape) if size == "?"} for _, _, shape in arguments
    ]
    return function(names, text, scope), inputs, (tuple(moving),) if any(moving) else None


def of_jax(arguments: Arguments, text: str) -> tuple[Any, Any, Any]:
    """Model and inputs of an expression of JAX; `?` is a symbolic size."""
    names = [name for name, _, _ in arguments]
    inputs = tuple(
        jax.ShapeDtypeStruct(
            jax.export.symbolic_shape(", ".join(shape).replace("?", "rows")), JAX[kind]
        )
        for _, kind, shape in arguments
    )
    return function(names, text, {"jax": jax, "jnp": jnp}), inputs, None


def of_onnx(opset: str, head: str, text: str, folder: Path) -> tuple[Any, Any, Any]:
    """A file of nodes from the arguments to the results."""
    before, _, after = head.partition(" -> ")
    inputs, outputs = (
        ", ".join(f"{ONNX[k]}[{v.replace('?', 'rows')}] {n}" for n, k, v in ARGUMENT.findall(part))
        for part in (before, after)
    )
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> net ({inputs}) => ({outputs}) {{ {text} }}'
    )
    onnx.save(model, folder / "net.onnx")
    return str(folder / "net.onnx"), None, None


def imported(chunk: str, target: str) -> str:
    """What the passes see of the function that the comments of a part of a file describe."""
    found = FROM.search(chunk)
    if found is None:
        sys.exit(f"no line `// From FRONTEND, ARGUMENTS` in:\n{chunk[:200]}")
    frontend, opset, head, lines = found.groups()
    text = "\n".join(line[5:] for line in lines.splitlines())
    arguments = [(n, k, [s for s in v.split(", ") if s]) for n, k, v in ARGUMENT.findall(head)]
    with tempfile.TemporaryDirectory() as folder:
        match frontend:
            case "torch":
                model, inputs, moving = of_torch(arguments, text)
            case "jax":
                model, inputs, moving = of_jax(arguments, text)
            case _:
                model, inputs, moving = of_onnx(opset, head, text, Path(folder))
        options = FusionOptions()
        with api.opened(
            model, inputs, target=target, options=options, dynamic_shapes=moving
        ) as work:
            module = ir.Module.parse(work.normalized.read_bytes(), ir.Context())
    printed = module.operation.get_asm(large_elements_limit=64)
    name = LABEL.search(chunk)
    kept = [line for line in printed.splitlines() if not MACHINE.search(line)]
    outer = next(n for n, line in enumerate(kept) if line.startswith("module"))
    body = [line.removeprefix("  ") for line in kept[outer + 1 : kept.index("}")]]
    text = "\n".join([*kept[:outer], *body])
    text = text.replace("@main(", f"@{name.group(1) if name else frontend}(")
    return ATTRIBUTES.sub("", text)


def main(path: Path) -> None:
    """Writes the functions of a file anew."""
    text = path.read_text(encoding="utf-8")
    target = re.search(r"^// RUN: .*--target=(\S+)", text, re.MULTILINE)
    chunks = []
    for chunk in text.split(SPLIT):
        comments = "\n".join(
            line for line in chunk.splitlines() if line.startswith("//") or not line
        )
        head = re.sub(r"\n{2,}", "\n\n", comments).strip("\n") + "\n"
        chunks.append(head + imported(head, target.group(1) if target else "cpu"))
    path.write_text(f"\n{SPLIT}\n".join(chunks) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        main(Path(argument))
