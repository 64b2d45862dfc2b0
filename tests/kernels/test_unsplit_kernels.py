"""`several-kernels=false`: groups whose kernels split a sum are computed by one kernel."""

import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.fusion_plan import TensorSpec
from mlirfuse.fusion_plan.compiled import written
from mlirfuse.fusion_plan.strategies import KERNELS
from mlirfuse.fusion_plan.text import parse
from mlirfuse.kernels.registry import FAMILIES
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.tuning import kernel_search

TARGET = targets.parse("cuda:sm_90")


@pytest.mark.parametrize(
    ("family", "text", "spec", "layout"),
    [
        ("reduction", "layer_norm -> relu", "2x300000xf16", ""),
        ("reduction", "sum 0", "300000x64xf16", ""),
        ("matmul", "matmul 64 -> relu", "8x100000xf16", ""),
        ("convolution", "conv 3x3 p1 64 -> relu", "1x2048x7x7xf16", "NCHW"),
    ],
)
def test_one_kernel_in_place_of_several(family, text, spec, layout):
    plan = parse(text, TensorSpec.parse(spec, layout))
    passes = tuple(f"{name}_triton_kernel" for name in ("conv", "matmul", "row"))
    options = FusionOptions(enable_feature=("kernels",), disable_pass=passes)
    with ir.Context():
        grouped, _ = engine.run(
            ir.Module.parse(written(plan, KERNELS).text), target=TARGET, options=options
        )
        (region,) = kernel_search.regions(grouped)
        assert len(FAMILIES[family].plan(region, TARGET).kernels()) > 1
        assert len(FAMILIES[family].plan_alone(region, TARGET).kernels()) == 1


def test_a_kernel_that_is_alone_keeps_its_configuration():
    plan = parse("softmax", TensorSpec.parse("4096x512xf16", ""))
    options = FusionOptions(enable_feature=("kernels",), disable_pass=("row_triton_kernel",))
    with ir.Context():
        grouped, _ = engine.run(
            ir.Module.parse(written(plan, KERNELS).text), target=TARGET, options=options
        )
        (region,) = kernel_search.regions(grouped)
        chosen = FAMILIES["reduction"].plan(region, TARGET)
        assert FAMILIES["reduction"].plan_alone(region, TARGET).program == chosen.program
