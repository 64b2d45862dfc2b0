"""Presets: the passes that a name stands for, in order."""

from __future__ import annotations

from collections.abc import Mapping

_NORMS = (
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
)

DEFAULT: tuple[str, ...] = (
    # Before anything groups an op that waits for the condition.
    "decided_condition_rewrite",
    "counted_loop_rewrite",
    "extracted_scalar_rewrite",
    # Before a group takes the contraction without its bias.
    "contraction_init_rewrite",
    # Before the iterations of a loop become several.
    "recurrence_triton_kernel",
    "recurrence_vector_kernel",
    "loop_unrolling_rewrite",
    # Before a group takes a window.
    "window_order_rewrite",
    # Before anything groups the pooling or its neighbors.
    "pooling_slices_rewrite",
    # Before anything asks whether the kernels can compute its maps.
    "window_gather_rewrite",
    # Before anything counts the operands of a gather.
    "index_arithmetic_rewrite",
    # Before anything groups the ops that compute what a gather reads.
    "nested_gather_rewrite",
    "gathered_producer_rewrite",
    # With the feature `kernels`, before anything groups the neighbors of its casts.
    "scatter_widening_rewrite",
    # Before anything asks whether insertions are a concatenation.
    "constant_insertion_rewrite",
    # Before patterns that stop at a reshape to sizes in a tensor.
    "shape_reshape",
    "shape_reshape_2",
    # Before slices and concatenations are looked at.
    "complex_parts_rewrite",
    # Before patterns that stop at a reshape.
    "unit_dims_rewrite",
    # Before anything reads the image, or groups its copy.
    "spread_transpose_rewrite",
    # Before anything groups the ops of the softplus.
    "tanh_softplus_rewrite",
    # Before anything groups an op that is computed in part.
    "demanded_part_rewrite",
    # Before anything groups a user of the mask.
    "shared_mask_rewrite",
    # Before attention looks for the tensors that its operands are views of.
    "epilogue_transpose_rewrite",
    "row_transpose_rewrite",
    # What the pass above leaves of a projection's transpose.
    "sliced_transpose_rewrite",
    # Before anything rewrites its contractions or groups a part of it.
    "flash_attention_fusion_v1",
    "flash_attention_fusion_v2",
    # Before its reshapes move, and before its layer norm is taken without the scale.
    "group_norm_fusion",
    # Before patterns that know the ops behind an op by the ways in which they read it.
    "broadcast_operand_rewrite",
    # Before the reshape of its result moves away from the gather.
    "gather_reshape_rewrite",
    # Behind attention, before the reshapes of its operands and its result move.
    "unit_batch_rewrite",
    # Frontends flatten (batch, sequence) for a matmul and restore it after: keep it flat between.
    "expand_dims_hoist_rewrite",
    # Before anything takes the contraction that becomes a convolution.
    "strided_slice_rewrite",
    # Before anything groups an op whose order changes.
    "transposed_gather_rewrite",
    "image_layout_rewrite",
    # What the pass above leaves, before anything groups an op that reads another order.
    "result_order_rewrite",
    # Before a group takes the copy or the padding of an image.
    "image_order_rewrite",
    "channels_last_rewrite",
    # It leaves a bias, which the epilogues of convolutions and contractions take.
    "conv_batch_norm_activation_fusion",
    # Behind it: it scales filters. Before anything groups the convolution.
    "narrow_convolution_rewrite",
    # One transpose, which may become part of a contraction's indexing map.
    "split_concat_fusion",
    # Before anything groups the contraction: its form changes.
    "transpose_matmul_fusion",
    # Before a group takes the contraction.
    "operand_order_rewrite",
    # IREE generates slow code for a transpose of the result of such a contraction.
    "batch_matmul_transpose_fusion",
    # When no transpose is left that would make the contraction a matmul.
    "weighted_sum_rewrite",
    # Before anything looks at the loops of a reduction, or groups it.
    "nested_reduction_rewrite",
    # Before a group of the reduction takes the op that reads the operand.
    "permuted_operand_rewrite",
    # Before a norm is taken without the reductions of its result.
    "row_partials_rewrite",
    "reduced_softmax_rewrite",
    # Before anything takes the reductions, or the contraction, alone.
    "contraction_row_fusion",
    "reduced_row_fusion",
    *_NORMS,
    # Behind a norm, as its epilogue, and before another group takes the contraction.
    "image_widening_rewrite",
    # Epilogues of the norms, before a search groups them without the norm.
    "norm_epilogue_fusion",
    # With a large M the dequantized weight is written out once.
    "dequant_fusion",
    # In-loop dequantization of the others saves more than any epilogue.
    "dequant_matmul_fusion",
    # It needs both contractions of the gated unit.
    "inference_swiglu_fusion",
    # Its parts become results, unless a gated unit takes them.
    "inference_matmul_split_fusion",
    # After the patterns of two contractions, before each contraction is taken alone.
    "matmul_horizontal_fusion",
    # After the weights in groups along K, which two contracted loops express.
    "contracted_loops_rewrite",
    # It takes the epilogue of a matmul; the norms have taken theirs.
    "weight_packing_rewrite",
    # Before a group takes the convolution.
    "filter_layout_rewrite",
    "tf32_rounding_rewrite",
    # For a kernel, where there is one, with its padding and its batch norm.
    "convolution_fusion",
    "pooling_fusion",
    # The elementwise neighbours of a convolution that no pass above took.
    "conv_bias_activation_fusion",
    # The accumulators of i8 need their scale: no other epilogue takes them.
    "inference_qbmm_add_fusion",
    # The epilogue with an activation is the longer one; the bias alone comes after it.
    "matmul_elem_gelu_fusion",
    "matmul_elem_relu_fusion",
    "matmul_elem_add_fusion",
    "matmul_elem_biasadd_fusion",
    # After the norms, whose last op it would take; before the passes that grow groups.
    "slice_fusion",
    # A rotation is a gather, or two halves that would be groups of their own.
    "rope_fusion",
    # With the feature `kernels`, before a flip around it is taken as a gather.
    "lone_scan_fusion",
    # The same, before the ops that compute indices are grouped without the scatter.
    "scatter_fusion",
    "scatter_vector_kernel",
    # The same, before sums of comparisons are grouped as reductions.
    "sort_fusion",
    "sort_vector_kernel",
    # A gather's neighbours go with it, before they are taken without it.
    "gather_fusion",
    "scan_fusion",
    # The ops that no pattern took: reductions first, since they need elementwise neighbours; those
    # of which a kernel can be made before those that IREE tiles.
    "lone_softmax_rewrite",
    "axis_reduction_fusion",
    "reduction_fusion",
    # What no pattern above took with its norm.
    "norm_prologue_fusion",
    # Batch norms that no convolution has taken.
    "batch_norm_activation_fusion",
    # With the feature `kernels`, when reductions have taken their neighbors.
    "elementwise_reshape_rewrite",
    # What the pass above leaves, before the concatenation is grouped without its users.
    "concat_reshape_rewrite",
    # Before the parts of a concatenation are grouped without it.
    "movement_fusion",
    "elementwise_fusion",
    # Ops that are still alone.
    "horizontal_fusion",
    # Before a padding of its result joins the group.
    "conv_triton_kernel",
    "winograd_vector_kernel",
    "conv_vector_kernel",
    "matmul_vector_kernel",
    "pool_triton_kernel",
    "pool_vector_kernel",
    "attention_vector_kernel",
    "row_vector_kernel",
    "scan_vector_kernel",
    "movement_vector_kernel",
    # After the kernels that compute such functions on the way.
    "elementwise_vector_kernel",
    # The sums that no kernel has taken.
    "long_sum_rewrite",
    # Before computed operands are written in place, where a larger one is copied anyway.
    "long_concat_rewrite",
    "concat_triton_kernel",
    "concat_vector_kernel",
    # Any group that computes a part of a larger tensor writes it there.
    "pad_fusion",
    "concat_fusion",
    # Last: it looks at the contractions as they are left.
    "data_tiling_rewrite",
    # With the feature `kernels`: groups for the ops that have none, then kernels for groups.
    "contraction_fusion",
    "attention_triton_kernel",
    "matmul_triton_kernel",
    "row_triton_kernel",
    "scan_triton_kernel",
    "scatter_triton_kernel",
    "sort_triton_kernel",
    # Kernels have taken the copies that they read through.
    "lone_elementwise_fusion",
    "elementwise_triton_kernel",
    # Last: they only move kernels.
    "recurrence_order_rewrite",
    "sibling_kernel_fusion",
)
"""Specific patterns first, generic ones on the ops that they leave."""

NORMS_ONLY: tuple[str, ...] = (
    "group_norm_fusion",
    *_NORMS,
)
"""Normalizations and softmax become one dispatch, the rest is IREE's."""

PRESETS: Mapping[str, tuple[str, ...]] = {"default": DEFAULT, "none": (), "norms_only": NORMS_ONLY}
"""Name -> passes; `none` leaves everything to IREE's own fusion."""
