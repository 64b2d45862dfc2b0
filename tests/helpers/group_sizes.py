"""Sizes that tell the groups of one module apart: each variant of a computation has its own."""

from iree.compiler import ir

from mlirfuse import api
from mlirfuse.compilation import open_model
from mlirfuse.options import FusionOptions
from mlirfuse.structured.ir import ops


def sizes(variants) -> dict[str, int]:
    """Name of a variant -> its size."""
    return {name: 16 + 2 * index for index, name in enumerate(variants)}


def passes_by_size(
    model,
    inputs=None,
    *,
    elements_per_size: int,
    target: str = "cpu",
    pipeline: str = "default",
    required_op: str | None = None,
) -> dict[int, set[str]]:
    """Size of a variant -> the passes that formed the groups whose last result has that size.

    Args:
      model: the model with all variants.
      inputs: its inputs.
      elements_per_size: elements of a result for each unit of the size.
      target: the target.
      pipeline: the passes, a preset or their names.
      required_op: name of an op that every group must contain.
    """
    # On a CPU kernels take the place of groups; a pass that extends a group gives it its own name.
    off = ("kernels",) if target == "cpu" else ()
    extending = ("norm_prologue_fusion",) if pipeline == "default" else ()
    options = FusionOptions(pipeline=pipeline, disable_pass=extending, disable_feature=off)
    with open_model(model, inputs, target=target, options=options) as work, ir.Context():
        module, _ = api.fuse(work.normalized, target=target, options=options)
        found: dict[int, set[str]] = {}
        for function in ops.functions(module):
            for op in ops.nested_ops(function):
                if op.name == ops.REGION:
                    assert required_op is None or required_op in (
                        o.name for o in ops.nested_ops(op)
                    )
                    last = op.results[len(op.results) - 1]
                    name = ir.StringAttr(op.attributes["mlirfuse.pass"]).value
                    size = ops.num_elements(last) // elements_per_size
                    found.setdefault(size, set()).add(name)
    return found
