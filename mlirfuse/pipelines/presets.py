"""Presets: the passes that a name stands for, in order."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT: tuple[str, ...] = (
    # Before anything groups an op that waits for the condition.
    "decided_condition_rewrite",
    # Before whatever stops at a reshape to sizes in a tensor.
    "shape_reshape",
    "shape_reshape_2",
    # Before anything rewrites its contractions or groups a part of it.
    "flash_attention_fusion_v1",
    "flash_attention_fusion_v2",
    # Before the reshapes in it move, and before the layer norm in it is taken without its scale.
    "group_norm_fusion",
    # Frontends flatten (batch, sequence) for a matmul and restore it after: keep it flat between.
    "expand_dims_hoist_rewrite",
    # It leaves a bias, which the epilogues of convolutions and contractions take.
    "conv_batch_norm_activation_fusion",
    # One transpose, which may become part of a contraction's indexing map.
    "split_concat_fusion",
    # Before anything groups the contraction: its form changes.
    "transpose_matmul_fusion",
    # Before a group takes the contraction.
    "operand_order_rewrite",
    # IREE's code generation handles a transpose behind such a contraction badly.
    "batch_matmul_transpose_fusion",
    # A norm's quantization goes with it, and a residual add that it reads; the plain norm would
    # leave them alone.
    "add_rms_norm_quant_fusion",
    "rms_norm_quant_fusion",
    "add_layer_norm_v3_fusion",
    "add_layer_norm_ext_fusion",
    "add_layer_norm_fusion",
    "add_cast_rms_norm_cast_fusion",
    "add_rms_norm_fusion",
    "layer_norm_fusion",
    "rms_norm_fusion",
    "softmax_fusion",
    # What is left behind the norms, before a search groups it without them.
    "norm_epilogue_fusion",
    # With many rows a weight is written out wide, once.
    "dequant_fusion",
    # What is not written out wide is more than any epilogue saves.
    "dequant_matmul_fusion",
    # It needs both contractions of the gated unit.
    "inference_swiglu_fusion",
    # Its parts become results, unless a gated unit takes them.
    "inference_matmul_split_fusion",
    # After what has a form of its own for two contractions, before each is taken alone.
    "matmul_horizontal_fusion",
    # It takes the epilogue of a product along; the norms have taken what is theirs.
    "weight_packing_rewrite",
    # Before a group takes the convolution.
    "filter_layout_rewrite",
    # For a kernel, where there is one, with its padding and its batch norm.
    "convolution_fusion",
    "pooling_fusion",
    # Of what is left of a convolution's neighbours, all that is elementwise.
    "conv_bias_activation_fusion",
    # The sums of i8 need their scale: no other epilogue takes them.
    "inference_qbmm_add_fusion",
    # The epilogue with an activation is the longer one; the bias alone takes what is left.
    "matmul_elem_gelu_fusion",
    "matmul_elem_relu_fusion",
    "matmul_elem_add_fusion",
    "matmul_elem_biasadd_fusion",
    # After the norms, of which it would cut off the end; before what grows from op to op.
    "slice_fusion",
    # A rotation is a gather, or two halves that would be groups of their own.
    "rope_fusion",
    # A gather's neighbours go with it, before they are taken without it.
    "gather_fusion",
    "scan_fusion",
    # What no pattern took: rows first, since a reduction needs its elementwise neighbours.
    "reduction_fusion",
    # Channels that no convolution has taken.
    "batch_norm_activation_fusion",
    "elementwise_fusion",
    # Of what is still alone.
    "horizontal_fusion",
    # Before a padding behind it becomes a part of its group.
    "conv_triton_kernel",
    "pool_triton_kernel",
    # Before a part that is computed is written in place, where a larger one is copied anyway.
    "concat_triton_kernel",
    # Whoever has formed it, the group that computes a part of a larger tensor writes it there.
    "pad_fusion",
    "concat_fusion",
    # Last: it looks at the contractions as they are left.
    "data_tiling_rewrite",
    # The groups as they are left, where the feature `kernels` is on, and what has none yet.
    "contraction_fusion",
    "lone_elementwise_fusion",
    "attention_triton_kernel",
    "matmul_triton_kernel",
    "row_triton_kernel",
    "elementwise_triton_kernel",
)
"""Specific patterns first, generic ones on what they leave."""

NORMS_ONLY: tuple[str, ...] = (
    "group_norm_fusion",
    "add_rms_norm_quant_fusion",
    "rms_norm_quant_fusion",
    "add_layer_norm_v3_fusion",
    "add_layer_norm_ext_fusion",
    "add_layer_norm_fusion",
    "add_cast_rms_norm_cast_fusion",
    "add_rms_norm_fusion",
    "layer_norm_fusion",
    "rms_norm_fusion",
    "softmax_fusion",
)
"""Normalizations and softmax become one dispatch, the rest is IREE's."""

PRESETS: Mapping[str, tuple[str, ...]] = {"default": DEFAULT, "none": (), "norms_only": NORMS_ONLY}
"""Name -> passes; `none` leaves everything to IREE's own fusion."""
