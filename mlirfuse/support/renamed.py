"""Modules and fields under their names of version 0.1: they are found, with a warning.

    from mlirfuse.patterns import loading     # DeprecationWarning: ... is mlirfuse.plugins.registry

The old names go with version 0.3.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

_RECOGNIZED = (
    "attention",
    "channels",
    "contractions",
    "convolutions",
    "dequantization",
    "gathers",
    "masks",
    "norm_epilogues",
    "norms",
    "poolings",
    "quantization",
    "rotations",
    "row_softmax",
    "scores",
    "softmax",
)

MODULES: Mapping[str, str] = {
    "backend.double": "debug.float64",
    "backend.outputs": "support.atomic_file",
    "backend.process": "support.subprocess",
    "backend.watcher": "support.watchdog",
    "bisect": "debug.bisect",
    "builders.halves_builder": "builders.half_concat_builder",
    "builders.place_builder": "builders.destination_builder",
    "builders.space_builder": "builders.iteration_space_builder",
    "calibrate": "tuning.calibrate",
    "frontends.signature": "frontends.entry_point",
    "frontends.torch_backend": "torch_compile",
    "judge": "debug.oracle",
    "kernels.building": "kernels.triton_compiler",
    "kernels.provider": "kernels.plan",
    "kernels.search": "tuning.kernel_search",
    "measurement": "tuning.fused_vs_stock",
    "numerics": "debug.compare",
    "patterns.loading": "plugins.registry",
    "patterns.pdl": "plugins.pdl",
    "pipelines.folding": "pipelines.repeated_layers.shorten",
    "pipelines.inventory": "pipelines.op_index",
    "pipelines.layers": "pipelines.repeated_layers.detect",
    "pipelines.musts": "pipelines.must_fuse",
    "pipelines.order": "pipelines.incremental_toposort",
    "pipelines.unfolding": "pipelines.repeated_layers.replicate",
    "reproduction": "debug.reproducer",
    "runtime.recording": "runtime.cupti_trace",
    "runtime.structure": "runtime.pytree",
    "standalone": "debug.outline",
    "structured.above": "structured.expr.upstream_math",
    "structured.activations": "structured.expr.activations",
    "structured.arithmetic": "structured.expr.arithmetic",
    "structured.comparison": "structured.expr.comparison",
    "structured.domains": "structured.expr.loop_domains",
    "structured.expressions": "structured.expr.expressions",
    "structured.facts": "structured.ir.analysis_cache",
    "structured.growth": "structured.ir.fusable_neighbors",
    "structured.halves": "structured.recognize.half_concat",
    "structured.marks": "structured.ir.marks",
    "structured.ops": "structured.ir.ops",
    "structured.pdl": "plugins.pdl_patterns",
    "structured.places": "structured.ir.destination",
    "structured.regions": "structured.ir.legality",
    "structured.reshapes": "structured.expr.reshapes",
    "structured.shape_arithmetic": "structured.ir.shape_arithmetic",
    "structured.sizes": "structured.ir.sizes",
    "structured.slices": "structured.ir.slices",
    "structured.spaces": "structured.ir.common_iteration_space",
    "structured.windows": "structured.ir.strided_access",
    "verification": "debug.verify",
    **{f"structured.{name}": f"structured.recognize.{name}" for name in _RECOGNIZED},
}
"""Old name -> new name, both inside `mlirfuse`."""

_PACKAGE = "mlirfuse."


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a module under its old name, and puts the module of the new name in its place."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of an old name; None for other modules."""
        if not fullname.startswith(_PACKAGE) or fullname.removeprefix(_PACKAGE) not in MODULES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Imports the module of the new name."""
        new = _PACKAGE + MODULES[module.__name__.removeprefix(_PACKAGE)]
        _warn(module.__name__, new)
        sys.modules[module.__name__] = importlib.import_module(new)


def install() -> None:
    """Makes the old names known to `import`."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def renamed_fields(names: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """Returns a decorator for a dataclass whose fields have old names, too.

    Old names are arguments of the constructor and of `dataclasses.replace`, and attributes.

    Args:
      names: old name -> the field's name.
    """

    def decorate(cls: type[T]) -> type[T]:
        init = cls.__init__

        def label(name: str) -> str:
            return f"{cls.__name__}.{name}"

        @functools.wraps(init)
        def init_with_old_names(self: T, *args: Any, **fields: Any) -> None:
            for old in names.keys() & fields.keys():
                _warn(label(old), label(names[old]))
                fields[names[old]] = fields.pop(old)
            init(self, *args, **fields)

        def old_attribute(self: T, name: str) -> Any:
            if name not in names:
                raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")
            _warn(label(name), label(names[name]))
            return getattr(self, names[name])

        # Set at run time, so that type checkers know the new names alone.
        setattr(cls, "__init__", init_with_old_names)  # noqa: B010
        setattr(cls, "__getattr__", old_attribute)  # noqa: B010
        return cls

    return decorate


def _warn(old: str, new: str) -> None:
    text = f"{old} is {new} now; the old name goes with mlirfuse 0.3"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
