"""The table of passes: one line per pass, the only registration there is."""

from __future__ import annotations

from mlirfuse.core import FusionPass
from mlirfuse.patterns import (
    add_layer_norm_fusion,
    add_rms_norm_fusion,
    batch_matmul_transpose_fusion,
    data_tiling_rewrite,
    elementwise_fusion,
    expand_dims_hoist_rewrite,
    flash_attention_fusion_v1,
    flash_attention_fusion_v2,
    inference_qbmm_add_fusion,
    layer_norm_fusion,
    matmul_elem_add_fusion,
    matmul_elem_biasadd_fusion,
    matmul_elem_gelu_fusion,
    matmul_elem_relu_fusion,
    reduction_fusion,
    rms_norm_fusion,
    softmax_fusion,
    transpose_matmul_fusion,
    weight_packing_rewrite,
)

PASSES: dict[str, FusionPass] = {
    module.PASS.name: module.PASS
    for module in (
        add_layer_norm_fusion,
        add_rms_norm_fusion,
        batch_matmul_transpose_fusion,
        data_tiling_rewrite,
        elementwise_fusion,
        expand_dims_hoist_rewrite,
        flash_attention_fusion_v1,
        flash_attention_fusion_v2,
        inference_qbmm_add_fusion,
        layer_norm_fusion,
        matmul_elem_add_fusion,
        matmul_elem_biasadd_fusion,
        matmul_elem_gelu_fusion,
        matmul_elem_relu_fusion,
        reduction_fusion,
        rms_norm_fusion,
        softmax_fusion,
        transpose_matmul_fusion,
        weight_packing_rewrite,
    )
}
