"""Compiles imported models with stock IREE for the CPU, to compare them with their frameworks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import iree.runtime as rt
import numpy as np
from iree.compiler import ir

from mlirfuse.frontends import ImportedModel
from mlirfuse.support.subprocess import run_tool


def stock_program(imported: ImportedModel) -> Callable[..., list[np.ndarray]]:
    """The model as a function of its flat arguments that returns its flat results."""
    program = Path(imported.workdir.name, "stock.vmfb")
    run_tool(
        "iree-compile",
        [
            str(imported.path),
            f"--iree-input-type={imported.input_type}",
            f"--compile-from={'global-optimization' if imported.normalized else 'start'}",
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=host",
            f"--iree-input-demote-f64-to-f32={str(not imported.keeps_f64).lower()}",
            "-o",
            str(program),
        ],
        stage="codegen",
    )
    module = rt.load_vm_flatbuffer(program.read_bytes(), driver="local-task")

    def call(*arrays: np.ndarray) -> list[np.ndarray]:
        results = getattr(module, imported.function)(*arrays)
        several = isinstance(results, tuple | list)
        return [r.to_host() for r in (results if several else [results])]

    return call


def operations(imported: ImportedModel) -> list[str]:
    """Names of all operations of the module, nested ones too."""
    names = []
    with ir.Context():
        module = ir.Module.parseFile(str(imported.path))

        def visit(op: ir.Operation) -> ir.WalkResult:
            names.append(op.name)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
    return names


def text(imported: ImportedModel) -> str:
    """The module as text, with locations and without large data."""
    with ir.Context():
        module = ir.Module.parseFile(str(imported.path))
        # Without this flag the data of resources would follow.
        return module.operation.get_asm(enable_debug_info=True, large_elements_limit=16)


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference, over the largest expected magnitude."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    assert got.shape == expected.shape
    assert np.isfinite(got).all()
    return float(np.abs(got - expected).max() / np.abs(expected).max())
