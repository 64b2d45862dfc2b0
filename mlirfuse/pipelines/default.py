"""The preset `default`: specific patterns first, generic ones on what they leave."""

PIPELINE: tuple[str, ...] = (
    # Before anything rewrites its contractions or groups a part of it.
    "flash_attention_fusion_v1",
    "flash_attention_fusion_v2",
    # Frontends flatten (batch, sequence) for a matmul and restore it after: keep it flat between.
    "expand_dims_hoist_rewrite",
    # Before anything groups the contraction: its form changes.
    "transpose_matmul_fusion",
    # IREE's code generation handles a transpose behind such a contraction badly.
    "batch_matmul_transpose_fusion",
    # A norm that reads a residual add takes it along; the plain norm would leave the add alone.
    "add_layer_norm_fusion",
    "add_rms_norm_fusion",
    "layer_norm_fusion",
    "rms_norm_fusion",
    "softmax_fusion",
    # It takes the epilogue of a product along; the norms have taken what is theirs.
    "weight_packing_rewrite",
    # The sums of i8 need their scale: no other epilogue takes them.
    "inference_qbmm_add_fusion",
    # The epilogue with an activation is the longer one; the bias alone takes what is left.
    "matmul_elem_gelu_fusion",
    "matmul_elem_relu_fusion",
    "matmul_elem_add_fusion",
    "matmul_elem_biasadd_fusion",
    # What no pattern took: rows first, since a reduction needs its elementwise neighbours.
    "reduction_fusion",
    "elementwise_fusion",
    # Last: it looks at the contractions as they are left.
    "data_tiling_rewrite",
)
