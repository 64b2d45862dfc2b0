"""The passes that a `--pipeline` value stands for."""

from __future__ import annotations

from mlirfuse.core import UsageError, nearest
from mlirfuse.pipelines.presets import PRESETS
from mlirfuse.pipelines.spec import PipelineItem, parse
from mlirfuse.plugins import registry


def resolve(pipeline: str) -> tuple[PipelineItem, ...]:
    """The passes that a preset's name or a pipeline string stands for, in order.

    Names of our passes are brought to their one spelling; other names are left to MLIR. Our passes
    run on all functions, so they are taken out of anchors, as of `builtin.module(func.func(...))`.

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
    return tuple(found for item in items for found in _flat(item))


def _flat(item: PipelineItem) -> list[PipelineItem]:
    """The passes of an item, in order, each of MLIR's under the anchors that it has."""
    if not item.anchor:
        known = registry.find_pass(item.name)
        return [item if known is None else PipelineItem(known, item.options)]
    passes = [found for child in item.children or () for found in _flat(child)]
    if item.name == "builtin.module":
        return passes
    return [
        found
        if found.name in registry.passes()
        else PipelineItem(item.name, item.options, (found,))
        for found in passes
    ]


def _preset(name: str) -> tuple[str, ...]:
    """The passes of a preset. Loaded ones run first: they are more specific than any of ours."""
    order = PRESETS[name]
    return (*registry.loaded(), *order) if order else order
