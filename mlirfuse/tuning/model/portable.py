"""Imported models as JSON and a file, for tasks in other processes and on other machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse.frontends.imported import ImportedModel
from mlirfuse.support.signature import DynamicSize, TensorSpec

_FIELDS = (
    "input_type",
    "function",
    "source",
    "frontend",
    "keeps_f64",
    "has_angles",
    "has_state",
    "normalized",
)


def described(model: ImportedModel) -> dict[str, Any]:
    """The model as JSON, without its file."""
    return {
        **{name: getattr(model, name) for name in _FIELDS},
        "inputs": [dataclasses.asdict(spec) for spec in model.inputs],
        "outputs": [dataclasses.asdict(spec) for spec in model.outputs],
        "sizes": [dataclasses.asdict(size) for size in model.sizes],
    }


def restored(given: Mapping[str, Any], path: Path) -> ImportedModel:
    """The model of `described`, whose file is at `path`."""
    sizes = tuple(
        DynamicSize(**{**size, "dimensions": tuple(map(tuple, size["dimensions"]))})
        for size in given["sizes"]
    )
    return ImportedModel(
        path=path,
        inputs=specs(given["inputs"]),
        outputs=specs(given["outputs"]),
        sizes=sizes,
        **{name: given[name] for name in _FIELDS},
    )


def specs(given: Sequence[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
    """The specs of tensors from JSON."""
    return tuple(TensorSpec.from_dict(e) for e in given)
