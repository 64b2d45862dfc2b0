"""The table of passes: one line a pass, the only registration there is."""

from __future__ import annotations

import importlib

from mlirfuse.core import FusionPass

_NAMES = (
    "add_cast_rms_norm_cast_fusion",
    "add_layer_norm_ext_fusion",
    "add_layer_norm_fusion",
    "add_layer_norm_v3_fusion",
    "add_rms_norm_fusion",
    "add_rms_norm_quant_fusion",
    "attention_triton_kernel",
    "attention_vector_kernel",
    "axis_reduction_fusion",
    "batch_matmul_transpose_fusion",
    "batch_norm_activation_fusion",
    "concat_fusion",
    "concat_triton_kernel",
    "contraction_fusion",
    "contraction_init_rewrite",
    "conv_batch_norm_activation_fusion",
    "conv_bias_activation_fusion",
    "conv_triton_kernel",
    "conv_vector_kernel",
    "convolution_fusion",
    "data_tiling_rewrite",
    "counted_loop_rewrite",
    "decided_condition_rewrite",
    "dequant_fusion",
    "dequant_matmul_fusion",
    "elementwise_fusion",
    "elementwise_reshape_rewrite",
    "elementwise_triton_kernel",
    "expand_dims_hoist_rewrite",
    "extracted_scalar_rewrite",
    "filter_layout_rewrite",
    "flash_attention_fusion_v1",
    "flash_attention_fusion_v2",
    "gather_fusion",
    "gathered_producer_rewrite",
    "group_norm_fusion",
    "horizontal_fusion",
    "image_layout_rewrite",
    "image_order_rewrite",
    "inference_matmul_split_fusion",
    "inference_qbmm_add_fusion",
    "inference_swiglu_fusion",
    "layer_norm_fusion",
    "lone_elementwise_fusion",
    "lone_scan_fusion",
    "lone_softmax_rewrite",
    "loop_unrolling_rewrite",
    "matmul_elem_add_fusion",
    "matmul_elem_biasadd_fusion",
    "matmul_elem_gelu_fusion",
    "matmul_elem_relu_fusion",
    "matmul_horizontal_fusion",
    "matmul_triton_kernel",
    "matmul_vector_kernel",
    "movement_fusion",
    "norm_epilogue_fusion",
    "operand_order_rewrite",
    "pad_fusion",
    "pool_triton_kernel",
    "pool_vector_kernel",
    "pooling_fusion",
    "reduction_fusion",
    "rms_norm_fusion",
    "rms_norm_quant_fusion",
    "rope_fusion",
    "row_triton_kernel",
    "row_vector_kernel",
    "scan_fusion",
    "scan_triton_kernel",
    "scatter_fusion",
    "scatter_triton_kernel",
    "scatter_widening_rewrite",
    "shape_reshape",
    "shape_reshape_2",
    "slice_fusion",
    "softmax_fusion",
    "sort_fusion",
    "sort_triton_kernel",
    "split_concat_fusion",
    "transpose_matmul_fusion",
    "weight_packing_rewrite",
    "window_gather_rewrite",
    "winograd_vector_kernel",
)
"""The passes in alphabetical order: `NAME` is `PASS` of the module `mlirfuse.patterns.NAME`."""


def _imported(name: str) -> FusionPass:
    found: FusionPass = importlib.import_module(f"{__name__}.{name}").PASS
    return found


PASSES: dict[str, FusionPass] = {name: _imported(name) for name in _NAMES}
"""Every pass of mlirfuse by its name."""
