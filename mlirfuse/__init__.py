"""mlirfuse decides which operators of a model become one kernel; IREE compiles the result.

    program = mlirfuse.compile(model, example_inputs, target="cpu")
    program(*inputs)
    print(program.explain())
    program.save("model.vmfb")

The package is imported without iree.compiler, torch and JAX; they come when they are needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Not lazy: importing the module `mlirfuse.options` later would put it in place of the function.
from mlirfuse.options import scoped as options
from mlirfuse.support import renamed

if TYPE_CHECKING:
    from mlirfuse import plan
    from mlirfuse.api import candidates, compile, fuse, list_passes, load
    from mlirfuse.core import (
        CallError,
        CompileFailedError,
        Decision,
        ImportFailedError,
        MlirfuseError,
        PassFailedError,
        Reason,
        Report,
        UsageError,
    )
    from mlirfuse.debug.verify import verify
    from mlirfuse.fusion_plan import FusionPlan, FusionPlanError, TensorSpec
    from mlirfuse.marks import region
    from mlirfuse.options import FusionOptions
    from mlirfuse.runtime.module import FusedModule
    from mlirfuse.torch_backend.reports import torch_reports

    __version__: str

renamed.install()

_WHERE = {
    **dict.fromkeys(("candidates", "compile", "fuse", "list_passes", "load"), "mlirfuse.api"),
    **dict.fromkeys(
        (
            "CallError",
            "CompileFailedError",
            "Decision",
            "ImportFailedError",
            "MlirfuseError",
            "PassFailedError",
            "Reason",
            "Report",
            "UsageError",
        ),
        "mlirfuse.core",
    ),
    "FusionOptions": "mlirfuse.options",
    **dict.fromkeys(("FusionPlan", "FusionPlanError", "TensorSpec"), "mlirfuse.fusion_plan"),
    "region": "mlirfuse.marks",
    "torch_reports": "mlirfuse.torch_backend.reports",
    "FusedModule": "mlirfuse.runtime.module",
    "verify": "mlirfuse.debug.verify",
}

__all__ = [
    "CallError",
    "CompileFailedError",
    "Decision",
    "FusedModule",
    "FusionOptions",
    "FusionPlan",
    "FusionPlanError",
    "ImportFailedError",
    "MlirfuseError",
    "PassFailedError",
    "Reason",
    "Report",
    "TensorSpec",
    "UsageError",
    "__version__",
    "candidates",
    "compile",
    "fuse",
    "list_passes",
    "load",
    "options",
    "plan",
    "region",
    "torch_reports",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Imports a name of the API when it is first asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("mlirfuse")
    if name == "plan":
        return importlib.import_module("mlirfuse.plan")
    if name not in _WHERE:
        raise AttributeError(f"module 'mlirfuse' has no attribute '{name}'")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
