"""The forms that contractions get compile for every target, or are refused there."""

import pytest

from helpers import gpus
from helpers.contraction_cases import gated, halves, merged, siblings, split
from helpers.dequant_cases import jax_form, torch_form
from helpers.harness import Batch

CASES = [
    gated("gated", "f16", False, True, True),
    halves("second_half", "f16", False, True),
    split("thirds", "f16", False, 3, 1),
    siblings("three", "f16", False, 3),
    merged("merged_heads", "f16", True, True),
    torch_form("torch"),
    jax_form("jax", "f16", "i8"),
]
NOT_IN_SPIRV = [
    gated("gated_bf16", "bf16", False, False, False),
    siblings("two_bf16", "bf16", False, 2),
    jax_form("jax_i4", "f16", "i4"),
]
"""IREE's SPIR-V code generation fails on vectors of bf16 and i4, fused or not."""

PIPELINE = (
    "dequant_matmul_fusion,inference_swiglu_fusion,inference_matmul_split_fusion,"
    "matmul_elem_relu_fusion,matmul_horizontal_fusion"
)

REFUSED = {
    "cuda": (),
    "rocm": (),
    # IREE 3.13.0 uses no cooperative matrices for several results there, and its SPIR-V
    # code generation takes no dispatch of a contraction after other loops.
    "vulkan": ("gated", "second_half", "thirds", "three", "torch", "jax"),
    # Each matmul has its own packed weight.
    "cpu": tuple(case.name for case in CASES + NOT_IN_SPIRV),
}


@pytest.mark.parametrize("target", ["cpu", *gpus.PARAMETERS])
def test_compiles(target):
    cases = CASES if target.startswith("vulkan") else CASES + NOT_IN_SPIRV
    switches = {"disable_feature": ("kernels",)}  # for kernels no weights are concatenated
    fired = Batch(cases=cases, pipeline=PIPELINE, target=target, switches=switches).compiled()
    refused = REFUSED[target.partition(":")[0]]
    ours = {case.name: dict(case.fires) for case in cases}
    for name in refused:
        ours[name] = {"matmul_elem_relu_fusion": 3} if name == "merged_heads" else {}
    assert fired == ours
