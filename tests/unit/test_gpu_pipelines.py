"""Dispatches that IREE compiles wrong for CUDA by some pipelines are left to another one."""

import pytest

from mlirfuse.backend import final_program, gpu_pipelines
from mlirfuse.compilation import open_model, resolved
from mlirfuse.core import CompileFailedError
from mlirfuse.fusion_plan import Description, FusionPlan, TensorSpec, ops, strategies
from mlirfuse.fusion_plan.compiled import written
from mlirfuse.targets import parse


def plan(shape, layout, **convolution):
    return Description(
        TensorSpec(shape, "f16", layout), (ops.ConvForward(**convolution), ops.Bias())
    )


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize(
    ("description", "strategy", "wrong"),
    [
        (
            plan((1, 7, 13, 32), "NHWC", filters=8, kernel=5, padding=2),
            strategies.ONE_GROUP_IREE,
            "mma_kind",
        ),
        (
            plan((3, 256, 7), "NCW", filters=2, stride=2, mode="transpose"),
            strategies.COMPUTED_IN_ONE_GROUP,
            "VectorDistribute",
        ),
    ],
    ids=["padded", "gathered"],
)
def test_pipelines(monkeypatch, description, strategy, wrong, safe):
    """Without the flags IREE takes the pipeline that computes wrong results."""
    if not safe:
        monkeypatch.setattr(gpu_pipelines, "FLAGS", ())
    texts = []

    def read(phases, *arguments, **others):
        configured = next(phases.glob("*executable-configurations*"))
        texts.append(configured.read_text(encoding="utf-8"))
        return original(phases, *arguments, **others)

    original = final_program.read
    monkeypatch.setattr(final_program, "read", read)
    program = written(description, strategy)
    options = resolved(None, dict(strategy.switches))
    with open_model(program.text.encode(), target=parse("cuda:sm_90"), options=options) as work:
        work.build()
    assert (wrong in texts[0]) != safe


def test_a_slice_with_strides_of_a_padding_is_refused():
    """The next way to compile the plan computes positions in place of reading a padded image."""
    description = plan((1, 7, 13, 32), "NHWC", filters=8, kernel=7, padding=3, dilation=2)
    strategy = strategies.ONE_GROUP_UNSPLIT
    program, target = written(description, strategy), parse("cuda:sm_90")
    options = resolved(None, dict(strategy.switches))
    with (
        open_model(program.text.encode(), target=target, options=options) as work,
        pytest.raises(CompileFailedError, match="paddings wrong"),
    ):
        work.build()
    made = FusionPlan.of(description, target).compile()
    assert made.strategy.startswith("computed_positions")
