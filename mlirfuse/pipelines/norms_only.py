"""The preset `norms_only`: normalizations and softmax become one dispatch, the rest is IREE's."""

PIPELINE: tuple[str, ...] = (
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
