"""Presets, and what a `--pipeline` value stands for."""

from __future__ import annotations

from mlirfuse.core import UsageError, nearest
from mlirfuse.pipelines import default, none, norms_only
from mlirfuse.pipelines.spec import PipelineItem, parse

PRESETS: dict[str, tuple[str, ...]] = {
    "default": default.PIPELINE,
    "none": none.PIPELINE,
    "norms_only": norms_only.PIPELINE,
}


def resolve(pipeline: str) -> tuple[PipelineItem, ...]:
    """The passes that a preset's name or a pipeline string stands for, in order.

    Names of our passes are brought to their one spelling; other names are left to MLIR.

    Raises:
      UsageError: the string does not parse.
    """
    from mlirfuse.options import find_pass
    from mlirfuse.patterns import loading

    name = pipeline.strip().replace("-", "_").lower()
    text = ",".join(_preset(name)) if name in PRESETS else pipeline
    items = parse(text)
    # No pass of MLIR or IREE has an underscore in its name.
    ours = name not in PRESETS and len(items) == 1 and "_" in items[0].name
    if ours and find_pass(items[0].name) is None:
        choices = {*PRESETS, *loading.passes()}
        raise UsageError(f"unknown pass or preset '{pipeline}'{nearest(name, choices)}")
    return tuple(
        PipelineItem(known, i.options, i.children)
        if not i.anchor and (known := find_pass(i.name)) is not None
        else i
        for i in items
    )


def _preset(name: str) -> tuple[str, ...]:
    """The passes of a preset. Loaded ones run first: they are more specific than any of ours."""
    from mlirfuse.patterns import loading

    order = PRESETS[name]
    return (*loading.loaded(), *order) if order else order
