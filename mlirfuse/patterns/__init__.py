"""The table of passes: one line per pass, the only registration there is."""

from __future__ import annotations

from mlirfuse.core import FusionPass
from mlirfuse.patterns import (
    add_cast_rms_norm_cast_fusion,
    add_layer_norm_ext_fusion,
    add_layer_norm_fusion,
    add_layer_norm_v3_fusion,
    add_rms_norm_fusion,
    add_rms_norm_quant_fusion,
    batch_matmul_transpose_fusion,
    data_tiling_rewrite,
    elementwise_fusion,
    expand_dims_hoist_rewrite,
    flash_attention_fusion_v1,
    flash_attention_fusion_v2,
    group_norm_fusion,
    inference_matmul_split_fusion,
    inference_qbmm_add_fusion,
    inference_swiglu_fusion,
    layer_norm_fusion,
    matmul_elem_add_fusion,
    matmul_elem_biasadd_fusion,
    matmul_elem_gelu_fusion,
    matmul_elem_relu_fusion,
    matmul_horizontal_fusion,
    reduction_fusion,
    rms_norm_fusion,
    rms_norm_quant_fusion,
    softmax_fusion,
    transpose_matmul_fusion,
    weight_packing_rewrite,
)

PASSES: dict[str, FusionPass] = {
    module.PASS.name: module.PASS
    for module in (
        add_cast_rms_norm_cast_fusion,
        add_layer_norm_ext_fusion,
        add_layer_norm_fusion,
        add_layer_norm_v3_fusion,
        add_rms_norm_fusion,
        add_rms_norm_quant_fusion,
        batch_matmul_transpose_fusion,
        data_tiling_rewrite,
        elementwise_fusion,
        expand_dims_hoist_rewrite,
        flash_attention_fusion_v1,
        flash_attention_fusion_v2,
        group_norm_fusion,
        inference_matmul_split_fusion,
        inference_qbmm_add_fusion,
        inference_swiglu_fusion,
        layer_norm_fusion,
        matmul_elem_add_fusion,
        matmul_elem_biasadd_fusion,
        matmul_elem_gelu_fusion,
        matmul_elem_relu_fusion,
        matmul_horizontal_fusion,
        reduction_fusion,
        rms_norm_fusion,
        rms_norm_quant_fusion,
        softmax_fusion,
        transpose_matmul_fusion,
        weight_packing_rewrite,
    )
}
