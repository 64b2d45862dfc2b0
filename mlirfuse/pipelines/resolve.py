"""The passes that a `--pipeline` value stands for."""

from __future__ import annotations

from mlirfuse.core import UsageError, nearest
from mlirfuse.pipelines.presets import PRESETS
from mlirfuse.pipelines.spec import PipelineItem, parse
from mlirfuse.plugins import registry


def resolve(pipeline: str) -> tuple[PipelineItem, ...]:
    """The passes that a preset's name or a pipeline string stands for, in order.

    Names of our passes are brought to their one spelling; other names are left to MLIR.

    Raises:
      UsageError: the string does not parse.
    """
    name = pipeline.strip().replace("-", "_").lower()
    text = ",".join(_preset(name)) if name in PRESETS else pipeline
    items = parse(text)
    # No pass of MLIR or IREE has an underscore in its name.
    ours = name not in PRESETS and len(items) == 1 and "_" in items[0].name
    if ours and registry.find_pass(items[0].name) is None:
        choices = {*PRESETS, *registry.passes()}
        raise UsageError(f"unknown pass or preset '{pipeline}'{nearest(name, choices)}")
    return tuple(
        PipelineItem(known, i.options, i.children)
        if not i.anchor and (known := registry.find_pass(i.name)) is not None
        else i
        for i in items
    )


def _preset(name: str) -> tuple[str, ...]:
    """The passes of a preset. Loaded ones run first: they are more specific than any of ours."""
    order = PRESETS[name]
    return (*registry.loaded(), *order) if order else order
