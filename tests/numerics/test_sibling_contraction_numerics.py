"""Contractions with slices and siblings agree with the unfused program."""

import dataclasses

import pytest

from helpers.contraction_cases import gated, halves, merged, one_batch, siblings, split
from helpers.harness import FLOATS, Batch
from mlirfuse import targets

PASSES = "inference_swiglu_fusion,inference_matmul_split_fusion,matmul_horizontal_fusion"
# For kernels no weights are concatenated.
SWITCHES = {"enable_pass": PASSES, "disable_feature": ("kernels",)}
PIPELINE = f"matmul_elem_relu_fusion,{PASSES}"

ANY_SHAPE = {kind: (1, 1, 1) for kind in FLOATS}
CPU = dataclasses.replace(targets.parse("cpu"), mma_shapes=ANY_SHAPE, packed_matmul_tiles=())
"""A CPU on which the cost model finds the gains of GPUs."""


CASES = {
    case.name: case
    for case in [
        gated("gated_f32", "f32", False, False, False),
        gated("gated_f16_dynamic", "f16", True, True, True),
        gated("gated_bf16", "bf16", False, True, False),
        halves("first_half_f32_dynamic", "f32", True, False),
        halves("second_half_f16", "f16", False, True),
        halves("second_half_bf16", "bf16", False, True),
        split("halves_f32", "f32", False, 2, None),
        split("thirds_f16_dynamic", "f16", True, 3, 1),
        split("thirds_bf16", "bf16", False, 3, 2),
        one_batch("one_batch"),
        siblings("two_f32", "f32", False, 2),
        siblings("three_f16_dynamic", "f16", True, 3),
        siblings("four_bf16", "bf16", False, 4),
        merged("merged_f32", "f32", False, False),
        merged("merged_heads_f16_dynamic", "f16", True, True),
        merged("merged_heads_bf16", "bf16", False, True),
    ]
}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=PIPELINE, target=CPU, switches=SWITCHES).run()


@pytest.mark.parametrize("name", CASES)
def test_slices_and_siblings(name, outcomes):
    outcomes[name].check()


def test_vulkan(vulkan):
    cases = [
        gated("vulkan_gated", "f32", False, True, False),
        halves("vulkan_halves", "f32", False, True),
        split("vulkan_split", "f32", False, 3, 0),
        merged("vulkan_merged", "f32", False, True),
    ]
    target = dataclasses.replace(targets.parse(vulkan), mma_shapes=ANY_SHAPE)
    batch = Batch(cases=cases, pipeline=PIPELINE, target=target, switches=SWITCHES)
    for outcome in batch.run().values():
        outcome.check()
