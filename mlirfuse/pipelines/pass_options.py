"""Options of a pass in the pipeline string: `rms_norm_fusion{option=value}`."""

from __future__ import annotations

import dataclasses
from typing import Any

from mlirfuse.core import FusionPass, UsageError, nearest
from mlirfuse.pipelines.spec import PipelineItem


def pass_options(fusion: FusionPass, item: PipelineItem) -> object:
    """The options of a pass, as far as the pipeline string sets them, else their defaults.

    Raises:
      UsageError: an unknown option, or a value that is not of the option's type.
    """
    fields = {f.name: f for f in dataclasses.fields(fusion.options)}
    values: dict[str, object] = {}
    for key, text in item.options.items():
        name = key.replace("-", "_")
        if name not in fields:
            raise UsageError(f"pass '{fusion.name}' has no option '{key}'{nearest(name, fields)}")
        values[name] = _convert(text, fields[name].default, f"{fusion.name}{{{key}}}")
    settings: object = fusion.options(**values)
    return settings


def _convert(text: str, default: Any, where: str) -> object:
    if isinstance(default, bool):
        if text.lower() in ("true", "1", "on"):
            return True
        if text.lower() in ("false", "0", "off"):
            return False
        raise UsageError(f"{where}: '{text}' is not a truth value (true or false)")
    try:
        return type(default)(text)
    except (TypeError, ValueError):
        raise UsageError(
            f"{where}: '{text}' is not a value of type {type(default).__name__}"
        ) from None
